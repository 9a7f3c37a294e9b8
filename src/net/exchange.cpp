#include "net/exchange.h"

#include <utility>

namespace martlet::net {

Exchange::Exchange(HttpRequest request, size_t buffer_limit, std::function<void()> wake)
    : request_(std::move(request)), buffer_limit_(buffer_limit), wake_(std::move(wake)) {}

void Exchange::reply(HttpResponse response) {
  {
    std::lock_guard lock(mutex_);
    if (answered_ || closed_) return;
    status_ = response.status;
    pending_.close = response.close;
    pending_.head = std::move(response);
    answered_ = finished_ = pending_.done = true;
  }
  wake_();
}

void Exchange::begin_stream(HttpResponse head, std::string filler) {
  {
    std::lock_guard lock(mutex_);
    if (answered_ || closed_) return;
    status_ = head.status;
    pending_.head = std::move(head);
    filler_ = std::move(filler);
    answered_ = pending_.stream = true;
  }
  wake_();
}

void Exchange::write(std::string_view piece) {
  {
    std::lock_guard lock(mutex_);
    if (finished_ || closed_ || overflowed_) return;
    // A peer that stops reading must cost a bounded buffer, not the answer's length.
    overflowed_ = stalled_ && !pending_.bytes.empty() && pending_.bytes.size() + piece.size() > buffer_limit_;
    if (!overflowed_) pending_.bytes += piece;
  }
  wake_();
}

void Exchange::end(bool close) {
  {
    std::lock_guard lock(mutex_);
    if (finished_ || closed_) return;
    finished_ = pending_.done = true;
    pending_.close = close;
  }
  wake_();
}

void Exchange::on_close(std::function<void()> callback) {
  {
    std::lock_guard lock(mutex_);
    if (!closed_) {
      callback_ = std::move(callback);
      return;
    }
  }
  callback();
}

bool Exchange::closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

bool Exchange::ended() const {
  std::lock_guard lock(mutex_);
  return finished_;
}

size_t Exchange::waiting() const {
  std::lock_guard lock(mutex_);
  return pending_.bytes.size();
}

void Exchange::on_taken(std::function<void()> callback) {
  std::lock_guard lock(mutex_);
  if (!closed_) taken_ = std::move(callback);
}

bool Exchange::overflowed() const {
  std::lock_guard lock(mutex_);
  return overflowed_;
}

int Exchange::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

Exchange::Output Exchange::take() {
  std::unique_lock lock(mutex_);
  if (overflowed_) {
    lock.unlock();
    close();
    return {};
  }
  Output out = std::exchange(pending_, Output{});
  const std::function<void()> taken = out.bytes.empty() ? nullptr : taken_;
  lock.unlock();
  if (taken) taken();
  return out;
}

void Exchange::stalled(bool waits) {
  std::lock_guard lock(mutex_);
  stalled_ = waits;
}

void Exchange::close() {
  std::function<void()> callback, taken;  // destroyed outside the lock: they may own what owns this exchange
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    taken = std::move(taken_);
    closed_ = true;
    callback = std::move(callback_);
    if (finished_) callback = nullptr;
    callback_ = nullptr;
  }
  if (callback) callback();
}

}  // namespace martlet::net
