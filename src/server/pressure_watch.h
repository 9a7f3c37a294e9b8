#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "net/memory_pressure.h"

namespace martlet::server {

// Asks a source again and again how short memory is, on a thread of its own, and says what to do.
class PressureWatch {
 public:
  using React = std::function<void(net::MemoryPressure, const net::PressureResponse::Advice&)>;

  PressureWatch(std::shared_ptr<net::PressureSource> source, std::chrono::milliseconds interval, React react);
  ~PressureWatch();
  PressureWatch(const PressureWatch&) = delete;
  PressureWatch& operator=(const PressureWatch&) = delete;

 private:
  void run(std::chrono::milliseconds interval);

  std::shared_ptr<net::PressureSource> source_;
  React react_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace martlet::server
