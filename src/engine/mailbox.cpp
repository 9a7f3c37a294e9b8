#include "engine/mailbox.h"

#include <utility>

namespace martlet {

Result<RequestId> Mailbox::submit(Request request, std::shared_ptr<RequestSink> sink) {
  const std::lock_guard lock(mutex_);
  if (closed_) return *closed_;
  if (queued_ + static_cast<int64_t>(mail_.submissions.size()) >= max_queue_)
    return Error{ErrorKind::unavailable, "queue_full", "too many requests are waiting; try again later", ""};
  const RequestId id = ++submitted_;
  mail_.submissions.push_back({id, std::move(request), std::move(sink), Clock::now()});
  arrived_.notify_one();
  return id;
}

void Mailbox::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  mail_.cancels.push_back(id);
  arrived_.notify_one();
}

void Mailbox::cancel_all() {
  const std::lock_guard lock(mutex_);
  mail_.cancel_all = true;
  arrived_.notify_one();
}

void Mailbox::close(Error why) {
  const std::lock_guard lock(mutex_);
  if (!closed_) closed_ = std::move(why);
}

void Mailbox::stop() {
  const std::lock_guard lock(mutex_);
  mail_.stop = true;
  arrived_.notify_one();
}

uint64_t Mailbox::submitted() const {
  const std::lock_guard lock(mutex_);
  return submitted_;
}

Mailbox::Mail Mailbox::take() {
  const std::lock_guard lock(mutex_);
  queued_ += static_cast<int64_t>(mail_.submissions.size());
  return std::exchange(mail_, {});
}

void Mailbox::set_queued(int32_t queued) {
  const std::lock_guard lock(mutex_);
  queued_ = queued;
}

bool Mailbox::empty() const {
  return mail_.submissions.empty() && mail_.cancels.empty() && !mail_.cancel_all && !mail_.stop;
}

void Mailbox::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, timeout, [this] { return !empty(); });
}

}  // namespace martlet
