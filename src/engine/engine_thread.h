#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "backend/backend.h"
#include "engine/cache_file.h"
#include "engine/mailbox.h"
#include "engine/scheduler.h"
#include "martlet/engine.h"
#include "model/model.h"

namespace martlet {

// The engine: one thread that owns the backend and the model and calls them alone, and a mailbox in front of it.
class EngineThread final : public Engine {
 public:
  struct Parts {
    Plan plan;
    SchedulerOptions scheduler;
    int32_t max_queue = 0;            // requests that wait beside those that run
    int32_t max_tenant_requests = 0;  // 0: no limit of its own
    int32_t vocabulary = 0;
    std::unique_ptr<Backend> backend;
    // Opens the model; called on the engine's thread, as everything is that touches the backend.
    std::function<Result<std::unique_ptr<Model>>(Backend&)> open_model;
    // Opens what drafts, once the model is open; empty: nothing does.
    std::function<Result<std::unique_ptr<Speculator>>(Backend&)> open_speculator;
    // Where the prompt cache is kept between runs, if it is; its page_bytes are found out.
    std::optional<CacheFile> cache_file;
    std::function<void(const std::string&)> note;  // may be empty
    // False once the bytes that the weights are read from can no longer be trusted. Asked after every step and, when
    // idle, a few times a second: must be cheap.
    std::function<bool()> weights_intact;
  };

  static Result<std::unique_ptr<Engine>> start(Parts parts);
  ~EngineThread() override;

  Result<RequestId> submit(Request request, std::shared_ptr<RequestSink> sink) override;
  void cancel(RequestId id) override { mailbox_.cancel(id); }
  void drain(double seconds) override;
  void drop_prompt_cache() override { mailbox_.drop_cache(); }
  EngineStats stats() const override;
  const Plan& plan() const override { return parts_.plan; }
  int32_t context() const override { return parts_.plan.context; }
  int32_t vocabulary() const override { return parts_.vocabulary; }

 private:
  explicit EngineThread(Parts parts);
  void run(std::promise<Status>& opened);
  bool turn();     // mail, and a step; false: stop
  bool receive();  // false: stop
  bool step();     // false: nothing to do
  Status open();
  Status open_within_memory();
  void close();
  void report();  // to whoever asks for statistics or wants to submit
  // Drops what only makes answers faster, one thing at a time: the draft model, then cached prompts. False: that was
  // the last.
  bool give_way();
  void relieve();
  void restore_cache();
  void save_cache();
  void note(const std::string& text);
  void check_weights();
  void fail(const Error& error);  // ends every request; no more are taken

  Parts parts_;
  Mailbox mailbox_;
  Scheduler scheduler_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Speculator> speculator_;
  std::optional<Error> failure_;
  int32_t starved_ = 0;  // times in a row that there was no memory for a step

  mutable std::mutex mutex_;  // guards stats_
  std::condition_variable changed_;
  EngineStats stats_;
  std::thread thread_;
};

// What submit checks before a request reaches the engine's thread.
Status validate(const Request& request, int32_t context, int32_t vocabulary, bool drafts);

}  // namespace martlet
