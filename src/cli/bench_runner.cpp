#include "cli/bench_runner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

namespace martlet::cli {
namespace {

// Of a context, so many tokens are computed: whole pages of every backend.
constexpr int32_t kComputedTokens = 512;

}  // namespace

Result<std::unique_ptr<BenchRunner>> BenchRunner::open(const std::shared_ptr<const ModelFile>& file, Backend& backend,
                                                       int32_t sequences, int32_t tokens, CacheType cache_type,
                                                       int32_t chunk) {
  MARTLET_ASSIGN(const Hyperparameters h, read_hyperparameters(*file));
  const int32_t pages_each = (tokens + backend.page_tokens() - 1) / backend.page_tokens();
  MARTLET_ASSIGN(std::unique_ptr<Model> model, Model::create(file, h, backend, sequences * pages_each, cache_type));
  return std::unique_ptr<BenchRunner>(new BenchRunner(backend, std::move(model), pages_each, chunk));
}

Token BenchRunner::random_token() {
  return static_cast<Token>(random_() % static_cast<uint32_t>(model_->hyperparameters().vocabulary));
}

Status BenchRunner::step(std::span<const Token> tokens, int32_t batch, int32_t first, int32_t rows,
                         const Sampling& sampling) {
  const auto sequences = static_cast<size_t>(batch);
  std::vector<int32_t> positions, starts(1, 0), page_starts(1, 0), outputs;
  std::vector<Page> pages;
  for (int32_t s = 0; s < batch; ++s) {
    for (int32_t i = 0; i < rows; ++i) positions.push_back(first + i);
    starts.push_back((s + 1) * rows);
    outputs.push_back((s + 1) * rows - 1);
    for (int32_t p = 0; p < pages_each_; ++p) pages.push_back(s * pages_each_ + p);
    page_starts.push_back(static_cast<int32_t>(pages.size()));
  }
  const std::vector<int32_t> lengths(sequences, first + rows);
  const PageTable table{page_starts, pages};
  std::vector<Choice> choices(sequences, Choice{.sampling = sampling});
  for (size_t s = 0; s < sequences; ++s) {
    choices[s].sampling.seed = s;
    choices[s].sampling.draw = static_cast<uint64_t>(first);
  }
  const Batch flat{.tokens = tokens,
                   .positions = positions,
                   .starts = starts,
                   .context_lengths = lengths,
                   .groups = {&table, 1},
                   .copies = {},
                   .outputs = outputs};
  chosen_.resize(sequences);
  const Ticket ticket = backend_.submit(model_->id(), flat, choices, [&] { return model_->forward(backend_); });
  MARTLET_TRY(backend_.wait(ticket, chosen_, {}));
  return model_->intact();
}

Status BenchRunner::fill(int32_t tokens) {
  std::vector<Token> prompt(static_cast<size_t>(tokens));
  for (Token& token : prompt) token = random_token();
  for (int32_t done = 0; done < tokens;) {
    const int32_t rows = std::min(tokens - done, chunk_);
    MARTLET_TRY(step(std::span(prompt).subspan(static_cast<size_t>(done), static_cast<size_t>(rows)), 1, done, rows));
    done += rows;
  }
  return {};
}

// Every position of every sequence has keys and values of its own, as users' sequences do, but they are copies of the
// first few: speed does not depend on what they are.
Status BenchRunner::fill_contexts(int32_t batch, int32_t context) {
  const int32_t computed = std::min(context, kComputedTokens);
  MARTLET_TRY(fill(computed));
  const auto pages_of = [&](int32_t tokens) { return (tokens + backend_.page_tokens() - 1) / backend_.page_tokens(); };
  std::vector<std::byte> bytes(static_cast<size_t>(backend_.page_bytes(model_->id(), 0)));
  for (int32_t from = 0; from < pages_of(computed); ++from) {
    backend_.read_page(model_->id(), 0, from, bytes);
    for (int32_t s = 0; s < batch; ++s) {
      for (int32_t to = from; to < pages_of(context); to += pages_of(computed))
        backend_.write_page(model_->id(), 0, s * pages_each_ + to, bytes);
    }
  }
  return {};
}

Result<Speed> BenchRunner::repeat(int32_t repeats, int64_t tokens, const std::function<Status()>& once) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> speeds;
  for (int32_t i = 0; i < repeats; ++i) {
    const Clock::time_point begin = Clock::now();
    MARTLET_TRY(once());
    speeds.push_back(static_cast<double>(tokens) / std::chrono::duration<double>(Clock::now() - begin).count());
  }
  const double count = static_cast<double>(repeats);
  const double mean = std::accumulate(speeds.begin(), speeds.end(), 0.0) / count;
  double squares = 0;
  for (const double speed : speeds) squares += (speed - mean) * (speed - mean);
  return Speed{mean, repeats > 1 ? std::sqrt(squares / (count - 1)) : 0};
}

Result<Speed> BenchRunner::prefill(int32_t tokens, int32_t repeats) {
  return repeat(repeats, tokens, [&] { return fill(tokens); });
}

Result<Speed> BenchRunner::decode(int32_t batch, int32_t context, int32_t tokens, int32_t repeats,
                                  const Sampling& sampling) {
  return repeat(repeats, int64_t{batch} * tokens, [&]() -> Status {
    std::vector<Token> next(static_cast<size_t>(batch));
    for (Token& token : next) token = random_token();
    for (int32_t i = 0; i < tokens; ++i) {
      MARTLET_TRY(step(next, batch, context + i, 1, sampling));
      for (size_t s = 0; s < next.size(); ++s) next[s] = chosen_[s].token;
    }
    return {};
  });
}

}  // namespace martlet::cli
