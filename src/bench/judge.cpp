#include "bench/judge.h"

#include <algorithm>
#include <utility>

namespace martlet::bench {
namespace {

constexpr size_t kAhead = 64;  // answers, of which many are the same, that the engine has at hand

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

Status Judge::submit(Encoded encoded, Verdict& verdict) {
  encoded.tokens.resize(std::min(encoded.tokens.size(), static_cast<size_t>(engine_.context())));
  if (encoded.answer < 1 || encoded.answer >= encoded.tokens.size()) return {};  // nothing to judge
  Request request;
  request.prompt = std::move(encoded.tokens);
  request.sampling.temperature = 0;
  request.max_tokens = 0;
  request.prompt_logprobs = true;
  request.top_logprobs = 1;
  const auto sink = std::make_shared<Scores>(encoded.answer);
  std::future<Result<Quality>> result = sink->result();
  MARTLET_TRY(engine_.submit(std::move(request), sink));
  verdict.pending = std::move(result);
  return {};
}

Result<Judge::Verdict*> Judge::verdict(const std::string& prompt, const std::string& answer) {
  const auto [known, fresh] = verdicts_.try_emplace({prompt, answer});
  if (!fresh) return &known->second;
  MARTLET_ASSIGN(Encoded encoded, encode_(prompt, answer));
  MARTLET_TRY(submit(std::move(encoded), known->second));
  return &known->second;
}

Status Judge::prepare(const std::string& prompt, const std::string& answer) {
  MARTLET_TRY(verdict(prompt, answer));
  return {};
}

Result<Quality> Judge::judge(const std::string& prompt, const std::string& answer) {
  MARTLET_ASSIGN(Verdict* const found, verdict(prompt, answer));
  if (found->pending.valid()) {
    MARTLET_ASSIGN(found->quality, found->pending.get());
  }
  return found->quality;
}

Status judge_runs(std::vector<Run>& runs, const std::vector<std::string>& prompts, Judge& judge,
                  const std::function<void(size_t, size_t)>& progress, const std::function<bool()>& stop) {
  struct Item {
    Run* run;
    const Measurement* answer;
  };
  std::vector<Item> items;
  for (Run& run : runs) {
    for (const Measurement& m : run.requests)
      if (m.ok() && static_cast<size_t>(m.prompt) < prompts.size()) items.push_back({&run, &m});
  }
  const auto prompt_of = [&](const Item& item) { return prompts[static_cast<size_t>(item.answer->prompt)]; };
  Quality sum;  // of the present run, whose figure is known once its last answer is judged
  for (size_t done = 0, ahead = 0; done < items.size() && !stop(); ++done) {
    progress(done, items.size());
    for (; ahead < std::min(items.size(), done + kAhead); ++ahead)
      MARTLET_TRY(judge.prepare(prompt_of(items[ahead]), items[ahead].answer->text));
    const Item& item = items[done];
    MARTLET_ASSIGN(const Quality quality, judge.judge(prompt_of(item), item.answer->text));
    sum.tokens += quality.tokens;
    sum.good += quality.good;
    const bool last = done + 1 == items.size() || items[done + 1].run != item.run;
    if (last) item.run->quality = std::exchange(sum, {});
  }
  return {};
}

}  // namespace martlet::bench
