#include <algorithm>
#include <cassert>

#include "backend/cuda/operators.h"

namespace martlet::cuda {
namespace {

// Whether the largest logit is all that is asked for: the device finds it. Everything else the host chooses.
bool takes_best(const Choice& choice) {
  return choice.score < 0 && choice.top < 0 && !choice.allowed && choice.adjust.empty() && choice.q.empty() &&
         choice.sampling.temperature < kGreedyTemperature;
}

}  // namespace

// Makes room for the answers to a step's choices.
void CudaBackend::expect(std::span<const Choice> choices) {
  choices_.assign(choices.begin(), choices.end());
  tops_.assign(choices.size() + 1, 0);
  for (size_t i = 0; i < choices.size(); ++i)
    tops_[i + 1] = tops_[i] + static_cast<size_t>(std::max(0, choices[i].top));
  chosen_.assign(choices.size(), {});
  top_.resize(tops_.back());
}

// Queues the choice of every output row's best token, a few rows at a time where logits are not there yet, and chooses
// the others at once: that waits for the device.
Status CudaBackend::choose(const Tensor& logits) {
  const Buffer& buffer = buffer_of(logits);
  if (!buffer.product) values(logits);
  const auto columns = static_cast<int32_t>(logits.columns);
  for (int64_t first = 0; first < logits.rows; first += kFewRows) {
    const int64_t rows = std::min<int64_t>(kFewRows, logits.rows - first);
    const float* from = buffer.values.as<float>() + first * columns;
    Block slice;
    if (!buffer.values) {
      slice = memory_.take(rows * columns * static_cast<int64_t>(sizeof(float)));
      multiply(buffer.product, first, rows, slice.as<float>());
      from = slice.as<float>();
    }
    best_token(stream_, from, static_cast<int32_t>(rows), columns, best_scratch_.data(), best_.as<Best>() + first);
    if (!capturing_) MARTLET_TRY(choose_on_host(from, columns, first, rows));
  }
  return {};
}

Status CudaBackend::choose_on_host(const float* logits, int64_t columns, int64_t first, int64_t rows) {
  const auto end = static_cast<size_t>(first + rows);
  const int64_t row_bytes = columns * static_cast<int64_t>(sizeof(float));
  std::vector<size_t> wanted;
  for (auto i = static_cast<size_t>(first); i < end && i < choices_.size(); ++i) {
    if (!takes_best(choices_[i])) wanted.push_back(i);
  }
  if (wanted.empty()) return {};
  if (host_logits_.size() < kFewRows * row_bytes) {
    host_logits_ = Memory();
    MARTLET_ASSIGN(host_logits_, Memory::allocate(Place::pinned, kFewRows * row_bytes));
  }
  for (size_t begin = 0; begin < wanted.size(); begin += kFewRows) {
    const size_t count = std::min<size_t>(kFewRows, wanted.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      const float* row = logits + (static_cast<int64_t>(wanted[begin + i]) - first) * columns;
      stream_.check(cudaMemcpyAsync(host_logits_.data() + static_cast<int64_t>(i) * row_bytes, row,
                                    static_cast<size_t>(row_bytes), cudaMemcpyDeviceToHost, stream_.handle));
    }
    MARTLET_TRY(check(cudaStreamSynchronize(stream_.handle), "computing a step"));
    for (size_t i = 0; i < count; ++i) {
      const size_t at = wanted[begin + i];
      chosen_[at] =
          chooser_.choose({host_logits_.as<float>() + static_cast<int64_t>(i) * columns, static_cast<size_t>(columns)},
                          choices_[at], std::span(top_).subspan(tops_[at], tops_[at + 1] - tops_[at]));
    }
  }
  return {};
}

// Waits for the step and takes the device's answers.
Status CudaBackend::finish_step() {
  if (!running_) return {};
  running_ = false;
  if (!broken_) return broken_;
  stream_.check(cudaStreamSynchronize(stream_.handle));
  if (stream_.error != cudaSuccess) {
    broken_ = check(stream_.error, "computing a step");
    return broken_;
  }
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (!takes_best(choices_[i])) continue;
    const Best& best = best_.as<Best>()[i];
    chosen_[i] = {};
    chosen_[i].numeric_error = best.invalid != 0;
    if (best.invalid == 0) chosen_[i].token = best.token;
  }
  return {};
}

Status CudaBackend::wait([[maybe_unused]] Ticket ticket, std::span<Chosen> chosen, std::span<TokenLogprob> top) {
  assert(static_cast<int64_t>(ticket) == ticket_);
  const Status finished = finish_step();
  if (!status_) return status_;
  if (!finished) return finished;
  assert(chosen.size() == chosen_.size() && top.size() == top_.size());
  std::copy(chosen_.begin(), chosen_.end(), chosen.begin());
  std::copy(top_.begin(), top_.end(), top.begin());
  return {};
}

}  // namespace martlet::cuda
