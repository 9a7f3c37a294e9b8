#pragma once

// A program that this process started and answers for: with all that it starts in turn, and with what it writes.

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace martlet::net {

class ChildProcess {
 public:
  // Starts `command` (found by PATH) in a process group of its own, standard input empty, standard output and error
  // appended to `log`, which is moved to "log.old" when it has grown beyond 16 MiB. On Linux it dies with the thread
  // that starts it. Errors: ErrorKind::io `cannot_open` (the log), `cannot_start`.
  static Result<std::unique_ptr<ChildProcess>> start(const std::vector<std::string>& command, const std::string& log);
  // Kills the group when the program still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Exit status, or 128 + signal, once the program has ended; never waits. What is left of its group is killed then.
  std::optional<int> ended();
  void terminate();  // SIGTERM to the group
  void kill();       // SIGKILL to the group, and waits for the program
  pid_t pid() const { return pid_; }

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_;
  std::optional<int> status_;
};

// Whether the program of a command can be found: by PATH, or where it says when it holds a slash.
bool find_program(const std::string& program);

// A port of 127.0.0.1 that nobody listens on at the moment. Errors: ErrorKind::network `no_port`.
Result<uint16_t> free_port();

}  // namespace martlet::net
