#include "bench/spec_trial.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

namespace martlet::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Collects the answers of all streams.
class Gathering {
 public:
  explicit Gathering(size_t streams) : streams_(streams) {}

  class Sink final : public RequestSink {
   public:
    Sink(Gathering& gathering, size_t stream) : gathering_(gathering), stream_(stream) {}
    void on_tokens(std::span<const Emitted> tokens) override { gathering_.take(stream_, tokens); }
    void on_finish(const Finish& finish) override { gathering_.end(stream_, finish); }

   private:
    Gathering& gathering_;
    size_t stream_;
  };

  Result<SpecTrial> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_ == streams_.size(); });
    SpecTrial trial;
    double seconds = 0;
    int64_t counted = 0;
    Clock::time_point first = Clock::time_point::max(), last = Clock::time_point::min();
    for (Stream& stream : streams_) {
      if (stream.finish->error) return *stream.finish->error;
      const Usage& usage = stream.finish->usage;
      trial.tokens += usage.output_tokens;
      trial.steps += usage.decode_steps;
      trial.drafted += usage.drafts.drafted_tokens();
      trial.accepted += usage.drafts.accepted_tokens();
      first = std::min(first, stream.first);
      last = std::max(last, stream.last);
      counted += std::max(0, usage.output_tokens - 1);  // the first token comes out of the prefill
      trial.outputs.push_back(std::move(stream.tokens));
    }
    seconds = std::chrono::duration<double>(last - first).count();
    trial.tokens_per_s = seconds > 0 ? static_cast<double>(counted) / seconds : 0;
    return trial;
  }

 private:
  struct Stream {
    std::vector<Token> tokens;
    Clock::time_point first, last;
    std::optional<Finish> finish;
  };

  void take(size_t stream, std::span<const Emitted> tokens) {
    const std::lock_guard lock(mutex_);
    Stream& to = streams_[stream];
    if (to.tokens.empty()) to.first = Clock::now();
    to.last = Clock::now();
    for (const Emitted& emitted : tokens) to.tokens.push_back(emitted.token);
  }
  void end(size_t stream, const Finish& finish) {
    const std::lock_guard lock(mutex_);
    streams_[stream].finish = finish;
    ++ended_;
    changed_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Stream> streams_;
  size_t ended_ = 0;
};

}  // namespace

Result<SpecTrial> run_trial(Engine& engine, const std::vector<Request>& requests) {
  // Held by the sinks' references until every request has ended.
  Gathering gathering(requests.size());
  std::optional<Error> refused;
  for (size_t i = 0; i < requests.size(); ++i) {
    auto sink = std::make_shared<Gathering::Sink>(gathering, i);
    if (refused) {
      sink->on_finish({FinishReason::cancelled, std::nullopt, {}});
      continue;
    }
    if (const Result<RequestId> id = engine.submit(requests[i], sink); !id) {
      refused = id.error();
      sink->on_finish({FinishReason::error, *refused, {}});
    }
  }
  return gathering.wait();
}

}  // namespace martlet::bench
