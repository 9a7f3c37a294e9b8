#pragma once

// The processes that the gateway starts: kept running, restarted with growing pauses, stopped when memory is short.

#include <memory>
#include <vector>

#include "gateway/core.h"
#include "net/child_process.h"

namespace martlet::gateway {

class Supervisor {
 public:
  explicit Supervisor(Core& core);
  ~Supervisor();

  // Errors: ErrorKind::io when the folder for logs cannot be made.
  Status prepare();
  // I/O thread: begins to look after every instance that has a command.
  void start();
  // Whether upstreams whose memory is unbounded may run. I/O thread.
  void allow_unbounded(bool allowed) { allowed_ = allowed; }
  // Asks all programs to end, gives them their time, ends them. Once core.closing is set on the I/O thread.
  void stop();

 private:
  struct Worker;
  boost::asio::awaitable<void> look_after(Worker& worker);
  boost::asio::awaitable<void> run_once(Worker& worker);
  boost::asio::awaitable<void> retire(Worker& worker);
  boost::asio::awaitable<void> pause(std::chrono::milliseconds time);
  bool launch(Worker& worker);
  std::string log_of(const Worker& worker) const;
  bool wanted(const Worker& worker) const;
  bool runs(const Worker& worker) const;

  Core& core_;
  std::vector<std::unique_ptr<Worker>> workers_;
  bool allowed_ = true;
};

}  // namespace martlet::gateway
