#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "martlet/request.h"

namespace martlet {

using Clock = std::chrono::steady_clock;

struct Submission {
  RequestId id = 0;
  Request request;
  std::shared_ptr<RequestSink> sink;
  Clock::time_point submitted;
};

// What other threads want from the engine's thread. The one place where they meet.
class Mailbox {
 public:
  // Requests that wait for admission, here and in the scheduler, are at most `max_queue`.
  explicit Mailbox(int32_t max_queue) : max_queue_(max_queue) {}

  struct Mail {
    std::vector<Submission> submissions;
    std::vector<RequestId> cancels;  // after the submissions
    bool cancel_all = false;
    bool stop = false;
  };

  // From any thread. Errors: `queue_full`, or whatever close() was given. On success the request has its id.
  Result<RequestId> submit(Request request, std::shared_ptr<RequestSink> sink);
  void cancel(RequestId id);
  void cancel_all();
  void close(Error why);  // submit fails from now on; the first reason stays
  void stop();
  uint64_t submitted() const;

  // From the engine's thread. `queued`: requests in the scheduler's own queue.
  Mail take(int32_t queued);
  void wait(std::chrono::milliseconds timeout);  // until there is mail

 private:
  bool empty() const;

  const int32_t max_queue_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  Mail mail_;
  std::optional<Error> closed_;
  int64_t queued_ = 0;  // in the scheduler when mail was last taken, that mail included
  uint64_t submitted_ = 0;
};

}  // namespace martlet
