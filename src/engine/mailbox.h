#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
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
  // Requests that are open, from submit() to ended(), are at most `max_open`, and `max_tenant` of one tenant unless
  // that is 0.
  explicit Mailbox(int64_t max_open, int32_t max_tenant = 0) : max_open_(max_open), max_tenant_(max_tenant) {}

  struct Mail {
    std::vector<Submission> submissions;
    std::vector<RequestId> cancels;  // after the submissions
    bool cancel_all = false;
    bool drop_cache = false;
    bool stop = false;
  };

  // From any thread. Errors: `queue_full`, `tenant_limit`, or whatever close() was given. On success the request has
  // its id.
  Result<RequestId> submit(Request request, std::shared_ptr<RequestSink> sink);
  void cancel(RequestId id);
  void cancel_all();
  void drop_cache();
  void close(Error why);  // submit fails from now on; the first reason stays
  void stop();
  uint64_t submitted() const;

  // From the engine's thread.
  Mail take();
  void ended(std::span<const int32_t> tenants);  // of requests that are over
  void wait(std::chrono::milliseconds timeout);  // until there is mail

 private:
  bool empty() const;

  const int64_t max_open_;
  const int32_t max_tenant_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  Mail mail_;
  std::optional<Error> closed_;
  int64_t open_ = 0;
  std::unordered_map<int32_t, int32_t> open_of_tenant_;
  uint64_t submitted_ = 0;
};

}  // namespace martlet
