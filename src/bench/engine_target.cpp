#include "bench/engine_target.h"

#include <unistd.h>

#include <mutex>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace martlet::bench {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

// Filled on the engine's thread; wakes the one that waits for the end, unless that has left.
class Sink final : public RequestSink {
 public:
  Sink(asio::io_context& io, std::shared_ptr<asio::steady_timer> wake, Clock::time_point begin)
      : io_(&io), wake_(std::move(wake)), begin_(begin) {}

  void on_tokens(std::span<const Emitted> tokens) override {
    const double now = std::chrono::duration<double>(Clock::now() - begin_).count();
    for (const Emitted& e : tokens) {
      if (e.stop) continue;
      if (tokens_.empty()) first_ = now;
      last_ = now;
      tokens_.push_back(e.token);
    }
  }
  void on_finish(const Finish& finish) override {
    const std::lock_guard lock(mutex_);
    finish_ = finish;
    if (io_) asio::post(*io_, [wake = wake_] { wake->cancel(); });
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    io_ = nullptr;
  }
  bool ended() {
    const std::lock_guard lock(mutex_);
    return finish_.has_value();
  }
  // Once it has ended.
  void fill(Measurement& m) const {
    m.first_token = first_;
    m.last_token = last_;
    m.prompt_tokens = finish_->usage.prompt_tokens;
    m.cached_tokens = finish_->usage.cached_tokens;
    m.output_tokens = finish_->usage.output_tokens;
    m.finish_reason = finish_->reason == FinishReason::length ? "length" : "stop";
    if (finish_->error) m.error = finish_->error->code;
    if (m.error.empty() && tokens_.empty()) m.error = "no text";
  }
  std::span<const Token> tokens() const { return tokens_; }

 private:
  std::mutex mutex_;
  asio::io_context* io_;
  std::shared_ptr<asio::steady_timer> wake_;
  const Clock::time_point begin_;
  double first_ = 0, last_ = 0;
  std::vector<Token> tokens_;
  std::optional<Finish> finish_;
};

// The coroutine may be dropped while its request runs.
struct Waiting {
  Engine& engine;
  std::shared_ptr<Sink> sink;
  RequestId id = 0;
  ~Waiting() {
    sink->leave();
    if (!sink->ended()) engine.cancel(id);
  }
};

class EngineInstance : public Instance {
 public:
  explicit EngineInstance(LocalModel model) : model_(std::move(model)) {}
  int process() const override { return ::getpid(); }

  asio::awaitable<Measurement> ask(asio::io_context& io, const Ask& what, Clock::time_point begin) override {
    Measurement m;
    m.sent = std::chrono::duration<double>(Clock::now() - begin).count();
    Result<std::vector<Token>> prompt = model_.encode(what.prompt);
    if (!prompt) {
      m.error = prompt.error().code;
      co_return m;
    }
    Request request;
    request.prompt = std::move(*prompt);
    request.sampling.temperature = 0;
    request.max_tokens = what.max_tokens;
    request.stop_tokens = model_.stop_tokens;
    const auto wake = std::make_shared<asio::steady_timer>(io, Clock::time_point::max());
    Waiting waiting{*model_.engine, std::make_shared<Sink>(io, wake, begin)};
    const Result<RequestId> id = model_.engine->submit(std::move(request), waiting.sink);
    if (!id) {
      m.error = id.error().code;
      co_return m;
    }
    waiting.id = *id;
    while (!waiting.sink->ended()) co_await wake->async_wait(asio::as_tuple(asio::use_awaitable));
    waiting.sink->fill(m);
    m.text = model_.decode(waiting.sink->tokens());
    co_return m;
  }

 private:
  LocalModel model_;
};

}  // namespace

Result<std::unique_ptr<Instance>> EngineTarget::start(const StopAsked&) {
  MARTLET_ASSIGN(LocalModel model, open_());
  return std::unique_ptr<Instance>(std::make_unique<EngineInstance>(std::move(model)));
}

}  // namespace martlet::bench
