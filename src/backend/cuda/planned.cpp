// What the plan is told of the device's memory, and what of it is taken.

#include <algorithm>

#include "backend/cuda/operators.h"

namespace martlet::cuda {
namespace {

// A step's intermediates come to this many of the widest tensor's rows: see the CPU backend, plus halves of each.
constexpr int64_t kLiveTensors = 4;
constexpr int64_t kLittleBlocks = 1 << 20;  // rounding of each
constexpr int64_t kNarrowest = 64;          // halves are padded to so many columns
constexpr int64_t kTableBytes = 4096;       // that no file holds: RoPE's frequencies

int64_t bytes_of_step(int32_t rows, int64_t widest, int64_t vocabulary) {
  const int64_t logit_rows = std::min<int64_t>(kRowBuckets.back(), std::max(rows, kFewRows));
  const int64_t values = kLiveTensors * rows * std::max(widest, kNarrowest) + logit_rows * vocabulary;
  return values * static_cast<int64_t>(sizeof(float)) + kLittleBlocks;
}

// Pages that the sequences of a step list, those that several share once for each; drafts may lie on one more.
int64_t pages_of(const StepLimits& limits) {
  return limits.sequences * ((int64_t{limits.context} + kPageTokens - 1) / kPageTokens + 1);
}

}  // namespace

int64_t CudaBackend::workspace_bytes(const StepLimits& limits, const StepWidths& widths) const {
  const int64_t widest = std::max({widths.residual, widths.projected, widths.attended, 2 * widths.network});
  const int64_t pages = pages_of(limits);
  const int64_t partial = widths.attended + partial_floats(static_cast<int32_t>(widths.heads), 0);
  int64_t step = taken_bytes(bytes_of_step(limits.rows, widest, widths.vocabulary)) +
                 taken_bytes(StepInput::device_bytes(limits.rows, pages)) +
                 taken_bytes(StepInput::spans_of(limits.rows, pages) * partial * static_cast<int64_t>(sizeof(float)));
  if (invariant_) step += taken_bytes(StepInput::alone_bytes(limits.rows, limits.context));
  // Buffers of the upload are given back before there are steps.
  return start_bytes() + kTableBytes + std::max(step, Uploader::buffer_bytes());
}

int64_t CudaBackend::copy_bytes(const TensorView& view) const {
  return invariant_ ? 0 : taken_bytes(halves_bytes(view));
}

// The step's memory for the weights that are there. The matrix with most rows makes logits.
int64_t CudaBackend::step_bytes() const {
  int64_t widest = 0, vocabulary = 0;
  for (const auto& weight : weights_) {
    if (!weight) continue;
    widest = std::max(widest, weight->columns);
    vocabulary = std::max(vocabulary, weight->rows);
  }
  for (const auto& weight : weights_) {
    if (weight && weight->rows < vocabulary) widest = std::max(widest, weight->rows);
  }
  return bytes_of_step(max_rows_, widest, vocabulary);
}

int64_t CudaBackend::listed_pages(const OpenModel& model) const {
  return limits_.sequences > 0 ? pages_of(limits_) : 2 * int64_t{model.group.pages};
}

// Of what start() has taken, whatever the model.
int64_t CudaBackend::start_bytes() const {
  return blas_workspace_.taken() + unpacked_.taken() + finished_.taken() + choice_scratch_.taken() +
         device_wishes_.taken();
}

std::optional<DeviceMemory> CudaBackend::device_memory() const {
  int64_t held = start_bytes() + partials_.taken() + memory_.taken() + input_.taken() + uploader_.taken();
  for (const auto& model : models_) held += model ? model->cache.taken() : 0;
  for (const auto& weight : weights_) held += weight ? weight->taken() : 0;
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) free = 0;
  return DeviceMemory{static_cast<int64_t>(free), held};
}

}  // namespace martlet::cuda
