#include "server/pressure_watch.h"

#include <utility>

#include "base/out_of_memory.h"

namespace martlet::server {

PressureWatch::PressureWatch(std::shared_ptr<net::PressureSource> source, std::chrono::milliseconds interval,
                             React react)
    : source_(std::move(source)), react_(std::move(react)), thread_([this, interval] { run(interval); }) {}

PressureWatch::~PressureWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void PressureWatch::run(std::chrono::milliseconds interval) {
  net::PressureResponse response;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, interval, [this] { return stopping_; })) {
    if_memory_allows([&] {
      const net::MemoryPressure level = source_->read();
      react_(level, response.update(level, std::chrono::steady_clock::now()));
    });
  }
}

}  // namespace martlet::server
