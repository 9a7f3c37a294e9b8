#pragma once

// An engine without a model: repeats the prompt (without its first token, the BOS) until max_tokens, one token a step
// to every request, then ends with the stop token.

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "martlet/engine.h"
#include "server/fake_tokenizer.h"

namespace martlet::server {

class FakeEngine final : public Engine {
 public:
  explicit FakeEngine(std::chrono::milliseconds step = std::chrono::milliseconds(0), int32_t context = 4096,
                      Plan plan = {})
      : step_(step), context_(context), plan_(std::move(plan)), thread_([this] { loop(); }) {}
  ~FakeEngine() override {
    stop_ = true;
    thread_.join();
  }

  Result<RequestId> submit(Request request, std::shared_ptr<RequestSink> sink) override {
    std::lock_guard lock(mutex_);
    if (draining_) return Error{ErrorKind::unavailable, "shutting_down", "shutting down", ""};
    if (full) return Error{ErrorKind::unavailable, "queue_full", "the queue is full", ""};
    if (request.prompt.size() > static_cast<size_t>(context_)) {
      return Error{ErrorKind::request, "context_length_exceeded", "too long", "prompt"};
    }
    last_request = request;
    running_[++last_] = {std::move(request), std::move(sink)};
    return last_;
  }
  void cancel(RequestId id) override {
    std::lock_guard lock(mutex_);
    if (running_.count(id)) ++cancelled, running_[id].cancelled = true;
  }
  void drain(double seconds) override {
    std::unique_lock lock(mutex_);
    draining_ = true;
    lock.unlock();
    while (held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    lock.lock();
    while (!running_.empty()) {
      if (std::chrono::steady_clock::now() >= end) {
        for (auto& [id, each] : running_) each.cancelled = true;
      }
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      lock.lock();
    }
  }
  void drop_prompt_cache() override { ++cache_drops; }
  EngineStats stats() const override {
    std::lock_guard lock(mutex_);
    EngineStats out;
    out.running = static_cast<int32_t>(running_.size());
    return out;
  }
  const Plan& plan() const override { return plan_; }
  int32_t context() const override { return context_; }
  int32_t vocabulary() const override { return 258; }

  std::atomic<bool> full{false};
  std::atomic<bool> held{false};  // no request goes on, and the time for a drain does not run, while it is set
  std::atomic<int> cancelled{0}, cache_drops{0};
  Request last_request;  // under no lock: look when nothing is running

 private:
  struct Running {
    Request request;
    std::shared_ptr<RequestSink> sink;
    int32_t given = -1;  // -1: the prompt is not done
    bool cancelled = false;
  };

  static float logprob(int32_t i) { return -0.5f * static_cast<float>(1 + i % 3); }

  Emitted emit(const Running& r, Token token, int32_t i) const {
    Emitted out{token};
    out.logprob = logprob(i);
    for (int32_t k = 0; k < r.request.top_logprobs; ++k) out.top.emplace_back((token + k) % 256, logprob(i) - k);
    return out;
  }

  // One step of one request; the Finish when it ends.
  std::optional<Finish> advance(Running& r, std::vector<Emitted>& out) const {
    const auto& prompt = r.request.prompt;
    Finish finish;
    finish.usage = {.prompt_tokens = static_cast<int32_t>(prompt.size()),
                    .cached_tokens = 3,
                    .miss = PrefixMiss::differs,
                    .output_tokens = r.given};
    if (r.request.speculation) {
      finish.usage.drafts = {.drafted = {4, 3}, .accepted = {4, 1}, .price_seconds = 0.5, .off_seconds = 0.25};
    }
    if (r.cancelled) return finish.reason = FinishReason::cancelled, finish;
    if (r.given < 0) {
      r.given = 0;
      for (size_t i = 1; r.request.prompt_logprobs && i < prompt.size(); ++i) {
        out.push_back(emit(r, prompt[i], static_cast<int32_t>(i)));
        out.back().prompt = true;
      }
      return std::nullopt;
    }
    if (r.given >= r.request.max_tokens) return finish.reason = FinishReason::length, finish;
    const size_t next = static_cast<size_t>(r.given) + 1;
    if (next < prompt.size()) {
      out.push_back(emit(r, prompt[next], r.given++));
      return std::nullopt;
    }
    if (r.request.stop_tokens.empty()) {
      out.push_back(emit(r, 'x', r.given++));
      return std::nullopt;
    }
    out.push_back(emit(r, FakeTokenizer::kEnd, r.given++));
    out.back().stop = true;
    return finish.reason = FinishReason::stop, finish;
  }

  void loop() {
    while (!stop_) {
      if (!held) {
        std::lock_guard lock(mutex_);
        for (auto it = running_.begin(); it != running_.end();) {
          std::vector<Emitted> out;
          const auto finish = advance(it->second, out);
          if (!out.empty()) it->second.sink->on_tokens(out);
          if (finish) it->second.sink->on_finish(*finish);
          it = finish ? running_.erase(it) : std::next(it);
        }
      }
      std::this_thread::sleep_for(step_ + std::chrono::microseconds(50));
    }
  }

  const std::chrono::milliseconds step_;
  const int32_t context_;
  const Plan plan_;
  mutable std::mutex mutex_;
  std::map<RequestId, Running> running_;
  RequestId last_ = 0;
  bool draining_ = false;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace martlet::server
