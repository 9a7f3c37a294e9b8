#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <new>
#include <string>
#include <system_error>

#include "backend/cpu/cores.h"
#include "backend/cpu/operators.h"

namespace martlet {
namespace {

constexpr int kMaxThreads = 1024;  // more than any machine has cores for, less than exhausts its process table

}  // namespace

Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuOptions& options) {
  const cpu::Level* level = options.level;
  if (!level) {
    MARTLET_ASSIGN(level, cpu::choose_level());
  }
  if (options.threads < 0 || options.threads > kMaxThreads)
    return Error{ErrorKind::usage, "invalid_value", "must be from 0 (found out) to " + std::to_string(kMaxThreads),
                 "--threads"};
  const int threads = options.threads > 0 ? options.threads : cpu::usable_cores();
  try {
    return std::unique_ptr<Backend>(std::make_unique<cpu::CpuBackend>(options, *level, threads));
  } catch (const std::system_error&) {
    return Error{ErrorKind::io, "no_threads", "the system has no more threads for this program: lower --threads",
                 "--threads"};
  }
}

namespace cpu {
namespace {

// Rows whose logits are there at once.
constexpr int64_t kLogitRows = 32;

Error out_of_memory() {
  return {ErrorKind::memory, "out_of_memory", "the system has no memory for this step; use smaller prefill chunks", ""};
}

}  // namespace

CpuBackend::CpuBackend(const CpuOptions& options, const Level& level, int threads)
    : level_(level),
      max_rows_(options.max_rows),
      exact_(options.f32_activations),
      pool_(threads),
      workers_(static_cast<size_t>(threads)) {}

std::string CpuBackend::device() const {
  return std::string(level_.name) + ", " + std::to_string(pool_.threads()) +
         (pool_.threads() == 1 ? " thread" : " threads");
}

// One block for each kind of tensor: the residual stream before and after an operator, projections, queries that are
// turned, what attention gives, the network's inside (gate and up are never there as a whole), and what matrices read
// in quantized form, which takes less than a third of it. Where tensors share a block it is less.
int64_t CpuBackend::workspace_bytes(const StepLimits& limits, const StepWidths& widths) const {
  const int64_t read = widths.residual + widths.attended + widths.network;
  const int64_t columns =
      2 * widths.residual + widths.projected + 2 * widths.attended + widths.network + (exact_ ? read : read / 3);
  const int64_t values = limits.rows * columns + std::min<int64_t>(limits.rows, kLogitRows) * widths.vocabulary;
  const int64_t widest = std::max({widths.residual, widths.attended, widths.network});
  constexpr int64_t kLargeHead = 256;  // how large heads are is not known here
  const int64_t worker = gate_up_bytes() + level_.linear->scratch_bytes(widest) + row_bytes(widest) +
                         attention_scratch_bytes(kLargeHead, kLargeHead);
  return values * static_cast<int64_t>(sizeof(float)) + worker * pool_.threads() + kPartialBytes;
}

int64_t CpuBackend::row_bytes(int64_t columns) const {
  return columns * static_cast<int64_t>(sizeof(float)) * (exact_ ? kLinearTile : 1);
}

// Gives each worker at least that much of one kind of scratch; false when the system has no memory.
bool CpuBackend::reserve(Mapping Worker::*part, int64_t bytes) {
  for (Worker& worker : workers_) {
    if ((worker.*part).size() >= bytes) continue;
    worker.*part = Mapping(bytes);
    if (!(worker.*part).data()) return false;
  }
  return true;
}

Result<ModelId> CpuBackend::open(std::span<const CacheGroup> groups) {
  auto model = std::make_unique<OpenModel>();
  for (const CacheGroup& group : groups) {
    if (group.kind != CacheGroup::Kind::paged)
      return Error{ErrorKind::model, "unsupported_cache", "the CPU backend keeps no states of recurrent layers", ""};
    MARTLET_TRY(check_cache_type(*this, group.type));
    MARTLET_ASSIGN(PagedCache cache, PagedCache::create(group));
    model->caches.push_back(std::move(cache));
    if (!reserve(&Worker::attention, attention_scratch_bytes(group.key_size, group.value_size))) return out_of_memory();
  }
  if (!reserve(&Worker::gate_up, gate_up_bytes())) return out_of_memory();
  models_.push_back(std::move(model));
  return static_cast<ModelId>(models_.size() - 1);
}

void CpuBackend::close(ModelId model) {
  outputs_ = {};
  rotations_.clear();
  for (std::optional<StoredWeight>& weight : weights_) {
    if (weight && weight->model == model) weight.reset();
  }
  models_[static_cast<size_t>(model)].reset();
}

Result<Weight> CpuBackend::upload(ModelId model, std::span<const TensorView> stacked, const UploadOptions& options) {
  MARTLET_ASSIGN(StoredWeight weight, store_weight(model, stacked, options));
  if (!reserve(&Worker::linear, level_.linear->scratch_bytes(weight.columns)) ||
      !reserve(&Worker::rows, row_bytes(weight.columns)))
    return out_of_memory();
  weights_.push_back(std::move(weight));
  return Weight{static_cast<int32_t>(weights_.size() - 1)};
}

Ticket CpuBackend::submit(ModelId model, const Batch& batch, std::span<const Choice> choices,
                          FunctionRef<Outputs()> forward) {
  assert(batch.rows() <= max_rows_ && choices.size() == batch.outputs.size());
  model_ = models_[static_cast<size_t>(model)].get();
  batch_ = &batch;
  outputs_ = {};
  rotations_.clear();
  status_ = Status();
  try {
    start_step(batch);
    outputs_ = forward();
    choose(choices);
  } catch (const std::bad_alloc&) {
    outputs_ = {};
    status_ = out_of_memory();
  }
  batch_ = nullptr;
  return static_cast<Ticket>(++ticket_);
}

// Which sequence each row belongs to, which tokens the rows hold, and pages copied before they are written to.
void CpuBackend::start_step(const Batch& batch) {
  row_sequences_.resize(static_cast<size_t>(batch.rows()));
  for (int32_t s = 0; s < batch.sequences(); ++s) {
    const auto first = batch.starts[static_cast<size_t>(s)], end = batch.starts[static_cast<size_t>(s) + 1];
    std::fill(row_sequences_.begin() + first, row_sequences_.begin() + end, s);
    assert(first == end ||
           batch.positions[static_cast<size_t>(end) - 1] < batch.context_lengths[static_cast<size_t>(s)]);
  }
  tokens_.assign(batch.tokens.begin(), batch.tokens.end());
  for (Token& token : tokens_) {
    if (token < 0) token = chosen_[static_cast<size_t>(-1 - token)].token;
  }
  // Slots beyond PageCopy::tokens are nobody's, and go along.
  for (const PageCopy& copy : batch.copies) {
    const PagedCache& cache = model_->caches[static_cast<size_t>(copy.group)];
    std::ranges::copy(cache.page(copy.from), cache.page(copy.to).begin());
  }
}

// Logits of a few rows at a time, each row by one thread.
void CpuBackend::choose(std::span<const Choice> choices) {
  const auto count = static_cast<int64_t>(choices.size());
  std::vector<size_t> tops(choices.size() + 1, 0);
  for (size_t i = 0; i < choices.size(); ++i) tops[i + 1] = tops[i] + static_cast<size_t>(std::max(0, choices[i].top));
  chosen_.assign(choices.size(), {});
  top_.resize(tops.back());
  if (count == 0) return;
  const Tensor& logits = outputs_.logits;
  const Buffer& buffer = buffer_of(logits);
  const bool there = static_cast<bool>(buffer.values);
  Block slice;
  if (!there) slice = memory_.take(std::min(count, kLogitRows) * logits.columns * static_cast<int64_t>(sizeof(float)));
  for (int64_t first = 0; first < count; first += kLogitRows) {
    const int64_t rows = std::min(kLogitRows, count - first);
    const float* values = there ? buffer.values.floats() + first * logits.columns : slice.floats();
    if (!there) multiply(prepare(buffer.deferred, first, rows), slice.floats(), logits.columns);
    std::atomic<bool> no_memory{false};  // no exception may leave a worker
    pool_.run(rows, [&](int worker, int64_t begin, int64_t end) {
      try {
        for (int64_t r = begin; r < end; ++r) {
          const auto i = static_cast<size_t>(first + r);
          chosen_[i] = workers_[static_cast<size_t>(worker)].chooser.choose(
              {values + r * logits.columns, static_cast<size_t>(logits.columns)}, choices[i],
              std::span(top_).subspan(tops[i], tops[i + 1] - tops[i]));
        }
      } catch (const std::bad_alloc&) {
        no_memory = true;
      }
    });
    if (no_memory) throw std::bad_alloc();
  }
}

Status CpuBackend::wait(Ticket ticket, std::span<Chosen> chosen, std::span<TokenLogprob> top) {
  assert(static_cast<int64_t>(ticket) == ticket_);
  if (!status_) return status_;
  assert(chosen.size() == chosen_.size() && top.size() == top_.size());
  std::copy(chosen_.begin(), chosen_.end(), chosen.begin());
  std::copy(top_.begin(), top_.end(), top.begin());
  return {};
}

Outputs& CpuBackend::outputs(Ticket ticket) {
  assert(static_cast<int64_t>(ticket) == ticket_);
  return outputs_;
}

int64_t CpuBackend::page_bytes(ModelId model, int32_t group) const {
  return models_[static_cast<size_t>(model)]->caches[static_cast<size_t>(group)].page_bytes();
}

void CpuBackend::read_page(ModelId model, int32_t group, Page page, std::span<std::byte> out) {
  std::ranges::copy(models_[static_cast<size_t>(model)]->caches[static_cast<size_t>(group)].page(page), out.begin());
}

void CpuBackend::write_page(ModelId model, int32_t group, Page page, std::span<const std::byte> bytes) {
  const std::span<std::byte> to = models_[static_cast<size_t>(model)]->caches[static_cast<size_t>(group)].page(page);
  assert(bytes.size() == to.size());
  std::ranges::copy(bytes, to.begin());
}

void CpuBackend::discard(ModelId model, int32_t group, std::span<const Page> pages) {
  const PagedCache& cache = models_[static_cast<size_t>(model)]->caches[static_cast<size_t>(group)];
  std::vector<Page> sorted(pages.begin(), pages.end());
  std::ranges::sort(sorted);
  // Neighbours go together: a system page between two of them would stay otherwise.
  for (size_t first = 0, end = 0; first < sorted.size(); first = end) {
    end = first + 1;
    while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) ++end;
    const std::span<std::byte> from = cache.page(sorted[first]);
    give_back({from.data(), from.size() * (end - first)});
  }
}

}  // namespace cpu
}  // namespace martlet
