#pragma once

// The scheduler on the fake backend without a thread: steps when told, and takes as long as the test says.

#include <functional>

#include "engine/harness.h"

namespace martlet {

class ManualEngine {
 public:
  struct Shape {
    int32_t page_tokens = 4, pages = 64, context = 128, max_sequences = 32, prefill_chunk = 512;
    double tpot_target = 0;
    int32_t states = 0;
  };
  explicit ManualEngine(const Shape& shape, Speculator* speculator = nullptr)
      : scheduler({.page_tokens = shape.page_tokens,
                   .pages = shape.pages,
                   .states = shape.states,
                   .context = shape.context,
                   .max_sequences = shape.max_sequences,
                   .prefill_chunk = shape.prefill_chunk,
                   .max_rows = shape.prefill_chunk + 2 * shape.max_sequences,
                   .tpot_target = shape.tpot_target},
                  speculator),
        backend_(shape.page_tokens, shape.pages, std::make_shared<FakeControls>(), shape.states) {}

  std::shared_ptr<RecordingSink> submit(Request request) {
    auto sink = std::make_shared<RecordingSink>();
    submit(std::move(request), sink);
    return sink;
  }
  RequestId submit(Request request, const std::shared_ptr<RequestSink>& sink) {
    scheduler.submit({++ids_, std::move(request), sink, now += std::chrono::milliseconds(1)});
    return ids_;
  }

  // One step; null when there was nothing to do.
  const Step* step() {
    Step* step = scheduler.next();
    if (!step) return nullptr;
    Batch batch = step->batch;
    if (tamper) tamper(batch);
    const Ticket ticket = backend_.submit({}, batch, step->choices, [] { return Outputs{}; });
    const Status status = backend_.wait(ticket, step->chosen, step->top);
    scheduler.commit(*step, status, step_seconds(step->rows()));
    return step;
  }
  int run() {
    int steps = 0;
    while (step()) ++steps;
    return steps;
  }

  std::function<double(int32_t rows)> step_seconds = [](int32_t rows) { return 1e-3 + 1e-4 * rows; };
  std::function<void(Batch& batch)> tamper;  // what a bug would do to a step; empty: nothing
  Scheduler scheduler;
  Clock::time_point now{};  // of the next arrival

 private:
  FakeBackend backend_;
  RequestId ids_ = 0;
};

}  // namespace martlet
