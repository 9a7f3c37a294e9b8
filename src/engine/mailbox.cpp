#include "engine/mailbox.h"

#include <utility>

#include "base/out_of_memory.h"

namespace martlet {

Result<RequestId> Mailbox::submit(Request request, std::shared_ptr<RequestSink> sink) {
  const std::lock_guard lock(mutex_);
  if (closed_) return *closed_;
  if (open_ >= max_open_)
    return Error{ErrorKind::unavailable, "queue_full", "too many requests are waiting; try again later", ""};
  int32_t& of_tenant = open_of_tenant_[request.tenant];
  if (max_tenant_ > 0 && of_tenant >= max_tenant_)
    return Error{ErrorKind::unavailable, "tenant_limit", "this API key has too many requests open; try again later",
                 ""};
  mail_.submissions.push_back({submitted_ + 1, std::move(request), std::move(sink), Clock::now()});
  ++open_, ++of_tenant;
  arrived_.notify_one();
  return ++submitted_;
}

void Mailbox::cancel(RequestId id) {
  insist([&] {
    const std::lock_guard lock(mutex_);
    mail_.cancels.push_back(id);
    arrived_.notify_one();
  });
}

void Mailbox::cancel_all() {
  const std::lock_guard lock(mutex_);
  mail_.cancel_all = true;
  arrived_.notify_one();
}

void Mailbox::drop_cache() {
  const std::lock_guard lock(mutex_);
  mail_.drop_cache = true;
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
  return std::exchange(mail_, {});
}

void Mailbox::ended(std::span<const int32_t> tenants) {
  if (tenants.empty()) return;
  const std::lock_guard lock(mutex_);
  for (const int32_t tenant : tenants) --open_, --open_of_tenant_[tenant];
}

bool Mailbox::empty() const {
  return mail_.submissions.empty() && mail_.cancels.empty() && !mail_.cancel_all && !mail_.drop_cache && !mail_.stop;
}

void Mailbox::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, timeout, [this] { return !empty(); });
}

}  // namespace martlet
