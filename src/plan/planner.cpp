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

// Code, libraries, stacks and what the allocator keeps of a running program without a model, measured.
constexpr int64_t kProgramBytes = int64_t{16} << 20;
// One part in so many of a device's free memory is left to its driver, for kernels, graphs and the matrix library.
constexpr int64_t kDeviceReserve = 32;
// A context below this is of no use to anybody; nothing smaller is chosen.
constexpr int32_t kSmallestContext = 512;

int64_t device_ceiling(int64_t bytes) {
  return bytes - bytes / kDeviceReserve;
}

int64_t round_up(int64_t tokens, int64_t page) {
  return (tokens + page - 1) / page * page;
}

Error overflow() {
  return {ErrorKind::memory, "plan_overflow",
          "the cache that these flags ask for cannot be counted, let alone held; lower --context, --streams or "
          "--max-sequences",
          ""};
}

double gibibytes(int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

Error does_not_fit(const Plan& plan, int64_t least_tokens, int64_t least_bytes, const PlanOptions& options) {
  std::string need;
  for (const PlanPart& part : plan.parts) {
    if (!part.on_host) need += fmt::format("{} {:.2f}, ", part.name, gibibytes(part.bytes));
  }
  std::string change = options.streams > 1 ? "--context or --streams" : "--context";
  if (options.prompt_cache > 0) change += " or --prompt-cache";
  return {ErrorKind::memory, "does_not_fit",
          fmt::format("the model needs {:.2f} GiB ({}cache of {} tokens {:.2f}) and {:.2f} GiB may be used ({}): lower "
                      "{}, raise --memory, or take a smaller {}",
                      gibibytes(plan.total() + least_bytes), need, least_tokens, gibibytes(least_bytes),
                      gibibytes(plan.ceiling), plan.ceiling_source, change, options.draft ? "model or draft" : "model"),
          ""};
}

// Bytes of one page of all the model's caches.
std::optional<int64_t> page_bytes(const Hyperparameters& h, CacheType type, const Backend& backend) {
  Checked sum = uint64_t{0};
  for (const CacheGroup& group : cache_groups(h, type, 0)) {
    const std::optional<int64_t> page = backend.cache_page_bytes(group);
    if (!page) return std::nullopt;
    sum = sum + static_cast<uint64_t>(*page);
  }
  if (!sum.within(std::numeric_limits<int64_t>::max() / 2)) return std::nullopt;
  return static_cast<int64_t>(*sum.get());
}

// Bytes of `tokens` tokens, which are whole pages.
std::optional<int64_t> cache_bytes(int64_t page_bytes, int64_t page, int64_t tokens) {
  const Checked bytes = Checked(static_cast<uint64_t>(page_bytes)) * static_cast<uint64_t>(tokens / page);
  if (!bytes.within(std::numeric_limits<int64_t>::max() / 2)) return std::nullopt;
  return static_cast<int64_t>(*bytes.get());
}

// Every sequence may ask for its full context; page ids are 32 bits.
bool countable(int64_t context, int64_t sequences, int64_t page_tokens) {
  return context <= std::numeric_limits<int32_t>::max() - page_tokens &&
         context * sequences / page_tokens <= std::numeric_limits<int32_t>::max();
}

// What is wanted of the cache, and what it cannot do with less than.
struct Wish {
  int64_t context, streams;
  int64_t least_context, least_streams;
  int64_t prompt_tokens = 0;  // of the prompt cache, beside the streams

  int64_t least_tokens(int64_t page) const { return round_up(least_context, page) * least_streams + prompt_tokens; }
};

Wish wish_of(const Hyperparameters& h, const PlanOptions& options) {
  const int32_t context = options.context > 0 ? options.context : std::min(h.context, options.longest_context);
  Wish wish{context, options.streams, context, options.streams};
  if (options.context == 0) wish.least_context = std::min(context, kSmallestContext);
  if (options.streams == 0) {
    wish.streams = std::min(options.max_sequences, kDefaultFullSequences);
    wish.least_streams = 1;
  }
  return wish;
}

// Fills in context and tokens for `affordable` tokens of cache, which are whole pages and enough for the least.
void fit(Plan& plan, const Wish& wish, int64_t affordable, int64_t page) {
  const int64_t for_streams = affordable - wish.prompt_tokens;
  const int64_t context = std::min(wish.context, for_streams / wish.least_streams / page * page);
  const bool whole = round_up(wish.context, page) * wish.least_streams <= for_streams;
  plan.context = static_cast<int32_t>(whole ? wish.context : context);
  const int64_t stream = round_up(plan.context, page);
  const int64_t tokens = std::min(stream * wish.streams, for_streams);
  plan.sequences = static_cast<int32_t>(tokens / stream);
  plan.cache_tokens = tokens + wish.prompt_tokens;
}

// All but the cache, for sequences of `context` tokens.
void add_fixed_parts(Plan& plan, const ModelNeeds& model, const Backend& backend, const PlanOptions& options,
                     int32_t context) {
  const bool apart = backend.device_memory().has_value();
  const StepLimits limits = step_limits(backend, options, context);
  const auto workspace = [&](const ModelNeeds& of) { return backend.workspace_bytes(limits, step_widths(of.h)); };
  plan.parts = {
      {"weights", model.weight_bytes, apart ? "on the device" : "mapped from the file, shared between processes"},
      {.name = "tokenizer", .bytes = model.text_bytes, .note = "vocabulary and merges", .on_host = apart},
      {"workspace", workspace(model), "intermediates of one step"}};
  if (const ModelNeeds* draft = options.draft) {
    plan.parts.push_back(
        {"draft", draft->weight_bytes + workspace(*draft), "weights and workspace of the model that drafts"});
  }
  plan.parts.push_back({"program", kProgramBytes, "code, libraries, stacks", true, apart});
  if (options.server_bytes > 0)
    plan.parts.push_back({"server", options.server_bytes, "requests and answers", true, apart});
}

// What is left goes to copies, as far as they want it.
void add_copies(Plan& plan, const ModelNeeds& model, const PlanOptions& options) {
  const int64_t wanted = model.copy_bytes + (options.draft ? options.draft->copy_bytes : 0);
  plan.copies = std::min(wanted, plan.ceiling - plan.total());
  if (wanted == 0) return;
  const bool all = plan.copies == wanted;
  plan.parts.push_back(
      {"copies", plan.copies,
       fmt::format("weights as halves, for long prompts: {}",
                   all ? "all of them" : fmt::format("as many as fit, all take {:.2f} GiB", gibibytes(wanted)))});
}

}  // namespace

Ceiling memory_ceiling(int64_t flag, const Backend& backend) {
  const std::optional<DeviceMemory> device = backend.device_memory();
  if (!device) return memory_ceiling(flag);
  const int64_t free = device_ceiling(device->free + device->held);
  return flag > 0 && flag < free ? Ceiling{flag, "--memory"} : Ceiling{free, "free on the device"};
}

Ceiling size_ceiling(int64_t bytes, const Backend& backend) {
  if (backend.device_memory()) return {device_ceiling(bytes), "device less reserve"};
  return {machine_ceiling(bytes), "machine less reserve"};
}

StepLimits step_limits(const Backend& backend, const PlanOptions& options, int32_t context) {
  const auto rows = static_cast<int32_t>(
      std::min<int64_t>(backend.max_rows(), int64_t{options.prefill_chunk} + options.max_sequences));
  return {.rows = rows, .sequences = options.max_sequences, .context = context};
}

int32_t pool_pages(const Plan& plan, const Backend& backend) {
  return static_cast<int32_t>(plan.cache_tokens / backend.page_tokens());
}

namespace {

Result<Plan> plan_exactly(const ModelNeeds& model, const Backend& backend, const Ceiling& ceiling,
                          const PlanOptions& options) {
  MARTLET_TRY(check_cache_type(backend, options.cache_type));
  const int64_t page = backend.page_tokens();
  Wish wish = wish_of(model.h, options);
  if (!countable(wish.context, std::max(options.max_sequences, options.streams), page)) return overflow();
  if (wish.context > model.h.context)
    return Error{ErrorKind::usage, "invalid_value", "the context is longer than the one the model was trained for",
                 "--context"};
  std::optional<int64_t> one_page = page_bytes(model.h, options.cache_type, backend);
  // A draft model keeps halves.
  if (options.draft && one_page) {
    const std::optional<int64_t> draft_page = page_bytes(options.draft->h, CacheType::f16, backend);
    one_page = draft_page ? std::optional(*one_page + *draft_page) : std::nullopt;
  }
  if (!one_page || *one_page == 0) return overflow();
  wish.prompt_tokens = (options.prompt_cache + *one_page - 1) / *one_page * page;

  Plan plan;
  plan.ceiling = ceiling.bytes;
  plan.ceiling_source = ceiling.source;
  plan.wanted_context = static_cast<int32_t>(wish.context);
  plan.model_context = model.h.context;
  plan.bytes_per_token_read = model.bytes_per_token_read;
  plan.cache_bytes_per_token = *one_page / page;
  add_fixed_parts(plan, model, backend, options, plan.wanted_context);
  const std::optional<int64_t> least_bytes = cache_bytes(*one_page, page, wish.least_tokens(page));
  if (!least_bytes || !cache_bytes(*one_page, page, round_up(wish.context, page) * wish.streams)) return overflow();
  const int64_t left = ceiling.bytes - plan.total();
  if (left < *least_bytes) return does_not_fit(plan, wish.least_tokens(page), *least_bytes, options);
  fit(plan, wish, left / *one_page * page, page);
  if (plan.cache_tokens / page > std::numeric_limits<int32_t>::max()) return overflow();

  const int64_t prompts = wish.prompt_tokens / page * *one_page;
  plan.parts.push_back(
      {"cache", plan.cache_tokens / page * *one_page - prompts,
       fmt::format("keys and values as {}, shared by all sequences; what they leave free keeps earlier prompts",
                   name_of(options.cache_type))});
  if (prompts > 0) plan.parts.push_back({"prompt cache", prompts, "keys and values of earlier prompts"});
  add_copies(plan, model, options);
  return plan;
}

// Flags that cost no context, each tried by itself.
std::string what_would_fit(const ModelNeeds& model, const Backend& backend, const Ceiling& ceiling,
                           const PlanOptions& options) {
  PlanOptions q8 = options, q4 = options, one = options;
  q8.cache_type = CacheType::q8;
  q4.cache_type = CacheType::q4;
  one.max_sequences = std::max(options.streams, 1);
  const auto fits = [&](const PlanOptions& changed) {
    return static_cast<bool>(plan_exactly(model, backend, ceiling, changed));
  };
  std::string out;
  if (fits(q8))
    out = "--cache-type q8";
  else if (fits(q4))
    out = "--cache-type q4";
  if (fits(one)) out += fmt::format("{}--max-sequences {}", out.empty() ? "" : " or ", one.max_sequences);
  return out.empty() ? "" : "; it would fit with " + out;
}

}  // namespace

Result<Plan> make_plan(const ModelNeeds& model, const Backend& backend, const Ceiling& ceiling,
                       const PlanOptions& options) {
  Result<Plan> plan = plan_exactly(model, backend, ceiling, options);
  if (plan || plan.error().code != "does_not_fit") return plan;
  Error error = plan.error();
  error.text += what_would_fit(model, backend, ceiling, options);
  return error;
}

void add_roofline(Plan& plan, double bandwidth_gb_s) {
  plan.bandwidth_gb_s = bandwidth_gb_s;
  plan.roofline_tokens_per_s = plan.roofline_at(0);
}

}  // namespace martlet
