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

  // From the engine's thread.
  Mail take();                      // what is taken counts as waiting until set_queued()
  void set_queued(int32_t queued);  // requests in the scheduler's own queue, after it has admitted
  void wait(std::chrono::milliseconds timeout);  // until there is mail

 private:
  bool empty() const;

  const int32_t max_queue_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  Mail mail_;
  std::optional<Error> closed_;
  int64_t queued_ = 0;  // waiting outside this mailbox
  uint64_t submitted_ = 0;
};

}  // namespace martlet
