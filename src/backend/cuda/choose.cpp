#include <algorithm>
#include <cassert>
#include <cmath>

#include "backend/cuda/operators.h"

namespace martlet::cuda {
namespace {

constexpr float kBinsOfUnit = 64;  // bins of candidates in a logit, or in a factor of e of the weight

// Whether the largest logit is all that is asked for: the device finds it.
bool takes_best(const Choice& choice) {
  return choice.score < 0 && choice.top < 0 && !choice.allowed && choice.adjust.empty() && choice.q.empty() &&
         choice.sampling.temperature < kGreedyTemperature;
}

// What the device is to find of a row for a choice that takes an excerpt: as much as Chooser::draw() will ask for.
Wish wish_of(const Sampling& sampling, int32_t row) {
  Wish wish = {.row = row,
               .until = Wish::Until::nothing,
               .random = uniform(sampling.seed, sampling.draw),
               .inverse_temperature = 1 / sampling.temperature,
               .bins = kBinsOfUnit / sampling.temperature};
  if (sampling.top_k > 0) {
    wish.until = Wish::Until::count;
    wish.amount = sampling.top_k;
    wish.bins = kBinsOfUnit;
  } else if (sampling.top_p < 1) {
    wish.until = Wish::Until::mass;
    wish.amount = sampling.top_p;
  } else if (sampling.min_p > 0) {
    wish.until = Wish::Until::reach;
    wish.amount = -sampling.temperature * std::log(sampling.min_p * (1 - 1e-5));
  }
  return wish;
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
  // All rows of a graph at once: what this leaves of each is read after the replay.
  const int64_t at_once = buffer.values ? kChosenRows : kFewRows;
  for (int64_t first = 0; first < logits.rows; first += at_once) {
    const int64_t rows = std::min(at_once, logits.rows - first);
    const float* from = buffer.values.as<float>() + first * columns;
    Block slice;
    if (!buffer.values) {
      slice = memory_.take(rows * columns * static_cast<int64_t>(sizeof(float)));
      multiply(buffer.product, first, rows, slice.as<float>());
      from = slice.as<float>();
    }
    best_token(stream_, from, static_cast<int32_t>(rows), columns, choice_scratch_.data(), best_.as<Best>() + first);
    if (!capturing_) MARTLET_TRY(choose_on_host(from, columns, first, rows));
  }
  return {};
}

// Chooses what the best token does not answer, from excerpts where they are enough, else from whole rows.
Status CudaBackend::choose_on_host(const float* logits, int64_t columns, int64_t first, int64_t rows) {
  const auto end = static_cast<size_t>(first + rows);
  std::vector<size_t> drawn, whole;
  for (auto i = static_cast<size_t>(first); i < end && i < choices_.size(); ++i) {
    if (takes_best(choices_[i])) continue;
    const bool excerpt = columns <= kMostExcerptColumns && takes_excerpt(choices_[i], columns);
    (excerpt ? drawn : whole).push_back(i);
  }
  if (!drawn.empty()) MARTLET_TRY(draw_from_excerpts(logits, columns, first, drawn, whole));
  return whole.empty() ? Status() : choose_from_rows(logits, columns, first, whole);
}

// Rows whose excerpts do not do are added to `whole`.
Status CudaBackend::draw_from_excerpts(const float* logits, int64_t columns, int64_t first,
                                       std::span<const size_t> drawn, std::vector<size_t>& whole) {
  bool candidates = false;
  for (size_t i = 0; i < drawn.size(); ++i) {
    const Wish wish =
        wish_of(choices_[drawn[i]].sampling, static_cast<int32_t>(static_cast<int64_t>(drawn[i]) - first));
    wishes_.as<Wish>()[i] = wish;
    candidates |= wish.until != Wish::Until::nothing;
  }
  stream_.check(cudaMemcpyAsync(device_wishes_.data(), wishes_.data(), drawn.size() * sizeof(Wish),
                                cudaMemcpyHostToDevice, stream_.handle));
  make_excerpts(stream_, logits, static_cast<int32_t>(columns), choice_scratch_.data(), device_wishes_.as<Wish>(),
                static_cast<int32_t>(drawn.size()), candidates, excerpts_.as<Excerpt>());
  stream_.check(cudaStreamSynchronize(stream_.handle));
  MARTLET_TRY(check(stream_.error, "computing a step"));
  for (size_t i = 0; i < drawn.size(); ++i) {
    Chosen& chosen = chosen_[drawn[i]] = {};
    chosen.numeric_error = best_.as<Best>()[drawn[i]].invalid != 0;
    if (chosen.numeric_error) continue;
    const auto token = chooser_.draw(excerpts_.as<Excerpt>()[i], choices_[drawn[i]].sampling);
    if (token)
      chosen.token = *token;
    else
      whole.push_back(drawn[i]);
  }
  return {};
}

Status CudaBackend::choose_from_rows(const float* logits, int64_t columns, int64_t first,
                                     std::span<const size_t> whole) {
  const int64_t row_bytes = columns * static_cast<int64_t>(sizeof(float));
  if (host_logits_.size() < kFewRows * row_bytes) {
    host_logits_ = Memory();
    MARTLET_ASSIGN(host_logits_, Memory::allocate(Place::pinned, kFewRows * row_bytes));
  }
  for (size_t begin = 0; begin < whole.size(); begin += kFewRows) {
    const size_t count = std::min<size_t>(kFewRows, whole.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      const float* row = logits + (static_cast<int64_t>(whole[begin + i]) - first) * columns;
      stream_.check(cudaMemcpyAsync(host_logits_.data() + static_cast<int64_t>(i) * row_bytes, row,
                                    static_cast<size_t>(row_bytes), cudaMemcpyDeviceToHost, stream_.handle));
    }
    MARTLET_TRY(check(cudaStreamSynchronize(stream_.handle), "computing a step"));
    for (size_t i = 0; i < count; ++i) {
      const size_t at = whole[begin + i];
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
