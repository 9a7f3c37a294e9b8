#include "plan/planner.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"

namespace martlet {
namespace {

// Code, tokenizer, request and HTTP buffers of a running program.
constexpr int64_t kProgramBytes = int64_t{48} << 20;
// One part in so many of a device's free memory is left alone.
constexpr int64_t kDeviceReserve = 32;
// A context below this is of no use to anybody; nothing smaller is chosen.
constexpr int32_t kSmallestContext = 512;

int64_t round_up(int64_t tokens, int64_t page) {
  return (tokens + page - 1) / page * page;
}

Error overflow() {
  return {ErrorKind::memory, "plan_overflow",
          "the cache that these flags ask for cannot be counted, let alone held; lower --context or --max-sequences",
          ""};
}

double gibibytes(int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

Error does_not_fit(int64_t need, const Plan& plan, const PlanOptions& options) {
  return {
      ErrorKind::memory, "does_not_fit",
      fmt::format(
          "the model needs {:.2f} GiB{} and {:.2f} GiB may be used ({}); lower --context, raise --memory, or take a "
          "smaller {}model",
          gibibytes(need), options.draft ? " with its draft model" : "", gibibytes(plan.ceiling), plan.ceiling_source,
          options.draft ? "model or draft " : ""),
      ""};
}

// The caches of the model and, where there is one, of its draft model, which keeps halves.
std::vector<CacheGroup> all_groups(const Hyperparameters& h, const PlanOptions& options) {
  std::vector<CacheGroup> groups = cache_groups(h, options.cache_type, 0);
  if (options.draft)
    for (const CacheGroup& group : cache_groups(options.draft->h, CacheType::f16, 0)) groups.push_back(group);
  return groups;
}

// Bytes of the caches for `tokens` tokens, which are whole pages.
std::optional<int64_t> cache_bytes(std::span<const CacheGroup> groups, const Backend& backend, int64_t tokens) {
  Checked sum = uint64_t{0};
  for (const CacheGroup& group : groups) {
    const std::optional<int64_t> page = backend.cache_page_bytes(group);
    if (!page) return std::nullopt;
    sum = sum + Checked(static_cast<uint64_t>(*page)) * static_cast<uint64_t>(tokens / backend.page_tokens());
  }
  if (!sum.within(std::numeric_limits<int64_t>::max() / 2)) return std::nullopt;
  return static_cast<int64_t>(*sum.get());
}

// Every sequence may ask for its full context; page ids are 32 bits.
bool countable(int64_t context, int64_t sequences, int64_t page_tokens) {
  return Checked(static_cast<uint64_t>(context)).within(std::numeric_limits<int32_t>::max()) &&
         context * sequences / page_tokens <= std::numeric_limits<int32_t>::max();
}

struct Room {
  int64_t context, tokens;
};

// The context and pool that `bytes` of cache allow, at most `wanted` and not below `least`; nothing when that is too
// much.
std::optional<Room> fit(std::span<const CacheGroup> groups, const Backend& backend, Room wanted, int64_t least,
                        int64_t bytes) {
  const int64_t page = backend.page_tokens();
  const int64_t page_bytes = *cache_bytes(groups, backend, page);
  const int64_t affordable = bytes > 0 ? bytes / page_bytes * page : 0;
  if (affordable < round_up(least, page)) return std::nullopt;
  return Room{std::min(wanted.context, affordable), std::min(wanted.tokens, affordable)};
}

}  // namespace

Ceiling memory_ceiling(int64_t flag, const Backend& backend) {
  const std::optional<int64_t> device = backend.device_memory();
  if (!device) return memory_ceiling(flag);
  // The driver keeps a little of its own for each allocation and graph.
  const int64_t free = *device - *device / kDeviceReserve;
  return flag > 0 && flag < free ? Ceiling{flag, "--memory"} : Ceiling{free, "free on the device"};
}

int32_t step_rows(const Backend& backend, const PlanOptions& options) {
  return static_cast<int32_t>(
      std::min<int64_t>(backend.max_rows(), int64_t{options.prefill_chunk} + options.max_sequences));
}

int32_t pool_pages(const Plan& plan, const Backend& backend) {
  return static_cast<int32_t>(plan.cache_tokens / backend.page_tokens());
}

Result<Plan> make_plan(const Hyperparameters& h, int64_t weight_bytes, int64_t bytes_per_token_read,
                       const Backend& backend, const Ceiling& ceiling, const PlanOptions& options) {
  const int64_t page = backend.page_tokens();
  const bool asked = options.context > 0;
  const int64_t context = asked ? options.context : std::min(h.context, kDefaultContext);
  if (!countable(context, options.max_sequences, page)) return overflow();
  if (context > h.context)
    return Error{ErrorKind::usage, "invalid_value", "the context is longer than the one the model was trained for",
                 "--context"};

  Plan plan;
  plan.ceiling = ceiling.bytes;
  plan.ceiling_source = ceiling.source;
  plan.model_context = h.context;
  plan.bytes_per_token_read = bytes_per_token_read;
  plan.parts = {{"weights", weight_bytes,
                 backend.device_memory() ? "on the device" : "mapped from the file, shared between processes"},
                {"workspace", backend.workspace_bytes(step_rows(backend, options), widest_tensor(h), h.vocabulary),
                 "intermediates of one step"},
                {"program", kProgramBytes, "code, tokenizer, requests, HTTP buffers"}};
  if (const DraftNeeds* draft = options.draft) {
    const int64_t work =
        backend.workspace_bytes(step_rows(backend, options), widest_tensor(draft->h), draft->h.vocabulary);
    plan.parts.push_back({"draft", draft->weight_bytes + work, "weights and workspace of the model that drafts"});
  }
  const int64_t fixed = plan.total();
  const std::vector<CacheGroup> groups = all_groups(h, options);

  const int64_t sequences = std::min(options.max_sequences, kDefaultFullSequences);
  const Room wanted{context, round_up(context * sequences, page)};
  const int64_t least = asked ? context : std::min<int64_t>(context, kSmallestContext);
  const std::optional<int64_t> least_bytes = cache_bytes(groups, backend, round_up(least, page));
  if (!least_bytes || !cache_bytes(groups, backend, wanted.tokens)) return overflow();
  const std::optional<Room> room = fit(groups, backend, wanted, least, ceiling.bytes - fixed);
  if (!room) return does_not_fit(fixed + *least_bytes, plan, options);

  plan.context = static_cast<int32_t>(room->context);
  plan.cache_tokens = room->tokens;
  plan.sequences = static_cast<int32_t>(room->tokens / round_up(room->context, page));
  plan.parts.push_back({"cache", *cache_bytes(groups, backend, room->tokens),
                        fmt::format("keys and values as {}, shared by all sequences", name_of(options.cache_type))});
  return plan;
}

void add_roofline(Plan& plan, double bandwidth_gb_s) {
  plan.bandwidth_gb_s = bandwidth_gb_s;
  if (plan.bytes_per_token_read > 0)
    plan.roofline_tokens_per_s = bandwidth_gb_s * 1e9 / static_cast<double>(plan.bytes_per_token_read);
}

}  // namespace martlet
