#pragma once

// An engine on the fake backend, and sinks that remember what they were told.

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <random>

#include "engine/engine_thread.h"
#include "engine/fake_backend.h"

namespace martlet {

// Milliseconds of a step, where a request must still run when a thread that lost its core comes back to it.
inline constexpr int kUnhurried = 50;

class RecordingSink : public RequestSink {
 public:
  void on_tokens(std::span<const Emitted> tokens) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(finish_) << "a token after the end";
    emitted_.insert(emitted_.end(), tokens.begin(), tokens.end());
    changed_.notify_all();
  }
  void on_finish(const Finish& finish) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(finish_) << "finished twice";
    finish_ = finish;
    changed_.notify_all();
  }

  Finish wait(std::chrono::seconds limit = std::chrono::seconds(60)) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, limit, [this] { return finish_.has_value(); })) << "no end";
    return finish_.value_or(Finish{});
  }
  void wait_for_tokens(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60),
                                  [&] { return emitted_.size() >= count || finish_.has_value(); }));
  }
  bool finished() {
    const std::lock_guard lock(mutex_);
    return finish_.has_value();
  }
  std::vector<Emitted> emitted() {
    const std::lock_guard lock(mutex_);
    return emitted_;
  }
  std::vector<Token> output() {
    std::vector<Token> tokens;
    for (const Emitted& e : emitted())
      if (!e.prompt) tokens.push_back(e.token);
    return tokens;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Emitted> emitted_;
  std::optional<Finish> finish_;
};

struct FakeEngineOptions {
  int32_t page_tokens = 4, pages = 64, context = 128, max_sequences = 32, prefill_chunk = 16, max_queue = 1024,
          max_tenant_requests = 0;
  std::function<Result<std::unique_ptr<Speculator>>(Backend&)> open_speculator;
  std::string remark;  // of the backend
  std::function<void(const std::string&)> note;
};

class FakeEngine {
 public:
  explicit FakeEngine(const FakeEngineOptions& o = {}) : controls(std::make_shared<FakeControls>()) {
    controls->remark = o.remark;
    EngineThread::Parts parts;
    parts.plan.context = o.context;
    parts.scheduler = {.page_tokens = o.page_tokens,
                       .pages = o.pages,
                       .context = o.context,
                       .max_sequences = o.max_sequences,
                       .prefill_chunk = o.prefill_chunk,
                       .max_rows = o.prefill_chunk + o.max_sequences};
    parts.max_queue = o.max_queue;
    parts.max_tenant_requests = o.max_tenant_requests;
    parts.vocabulary = kFakeVocabulary;
    parts.backend = std::make_unique<FakeBackend>(o.page_tokens, o.pages, controls);
    parts.open_model = [](Backend&) -> Result<std::unique_ptr<Model>> {
      return std::unique_ptr<Model>(std::make_unique<FakeModel>());
    };
    parts.open_speculator = o.open_speculator;
    parts.note = o.note;
    parts.weights_intact = [c = controls] { return c->weights_intact.load(); };
    engine = std::move(EngineThread::start(std::move(parts))).value();
  }

  // Submits and expects to be taken.
  RequestId submit(Request request, const std::shared_ptr<RecordingSink>& sink) {
    Result<RequestId> id = engine->submit(std::move(request), sink);
    EXPECT_TRUE(id) << (id ? "" : id.error().line());
    return id ? *id : 0;
  }
  std::shared_ptr<RecordingSink> submit(Request request) {
    auto sink = std::make_shared<RecordingSink>();
    submit(std::move(request), sink);
    return sink;
  }
  // The statistics once `until` holds; they follow the sinks by a moment.
  EngineStats stats_when(const std::function<bool(const EngineStats&)>& until) {
    for (int i = 0; i < 5000; ++i) {
      const EngineStats stats = engine->stats();
      if (until(stats)) return stats;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "statistics never got there";
    return engine->stats();
  }

  std::shared_ptr<FakeControls> controls;
  std::unique_ptr<Engine> engine;
};

inline std::vector<Token> random_tokens(std::mt19937& random, int32_t count) {
  std::vector<Token> tokens(static_cast<size_t>(count));
  for (Token& token : tokens) token = static_cast<Token>(random() % kFakeVocabulary);
  return tokens;
}

inline Request greedy(std::vector<Token> prompt, int32_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.max_tokens = max_tokens;
  return request;
}

}  // namespace martlet
