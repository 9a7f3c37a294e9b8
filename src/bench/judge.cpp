#include "bench/judge.h"

#include <algorithm>
#include <future>

namespace martlet::bench {
namespace {

class Scores final : public RequestSink {
 public:
  explicit Scores(size_t from) : from_(from) {}
  void on_tokens(std::span<const Emitted> tokens) override {
    for (const Emitted& e : tokens) {
      // The first token of the prompt has no score, so the k-th score is of token k + 1.
      if (!e.prompt || ++position_ < from_) continue;
      ++quality_.tokens;
      if (e.top.empty() || e.logprob >= e.top.front().second - kQualityMargin) ++quality_.good;
    }
  }
  void on_finish(const Finish& finish) override {
    if (finish.error) return done_.set_value(*finish.error);
    done_.set_value(quality_);
  }
  std::future<Result<Quality>> result() { return done_.get_future(); }

 private:
  const size_t from_;
  size_t position_ = 0;
  Quality quality_;
  std::promise<Result<Quality>> done_;
};

}  // namespace

Result<Quality> Judge::score(const Encoded& encoded) {
  Request request;
  request.prompt = encoded.tokens;
  request.sampling.temperature = 0;
  request.max_tokens = 0;
  request.prompt_logprobs = true;
  request.top_logprobs = 1;
  const auto sink = std::make_shared<Scores>(encoded.answer);
  std::future<Result<Quality>> result = sink->result();
  MARTLET_TRY(engine_.submit(std::move(request), sink));
  return result.get();
}

Result<Quality> Judge::judge(const std::string& prompt, const std::string& answer) {
  const auto [known, fresh] = known_.try_emplace({prompt, answer});
  if (!fresh) return known->second;
  MARTLET_ASSIGN(const Encoded encoded, encode_(prompt, answer));
  if (encoded.answer < 1 || encoded.answer >= encoded.tokens.size()) return known->second;  // nothing to judge
  MARTLET_ASSIGN(known->second, score(encoded));
  return known->second;
}

Status judge_runs(std::vector<Run>& runs, const std::vector<std::string>& prompts, Judge& judge,
                  const std::function<void(size_t, size_t)>& progress, const std::function<bool()>& stop) {
  size_t done = 0, total = 0;
  for (const Run& run : runs) total += run.requests.size();
  for (Run& run : runs) {
    Quality sum;
    for (const Measurement& m : run.requests) {
      if (stop()) return {};
      progress(done++, total);
      if (!m.ok() || static_cast<size_t>(m.prompt) >= prompts.size()) continue;
      MARTLET_ASSIGN(const Quality quality, judge.judge(prompts[static_cast<size_t>(m.prompt)], m.text));
      sum.tokens += quality.tokens;
      sum.good += quality.good;
    }
    run.quality = sum;
  }
  return {};
}

}  // namespace martlet::bench
