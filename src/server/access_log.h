#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "base/error.h"

namespace spdlog {
class logger;
}

namespace martlet::server {

// What the server writes to stderr: text for people on a terminal, one JSON object a line otherwise. Routes stand for
// paths; no key, prompt or other user bytes come near it.
class AccessLog {
 public:
  explicit AccessLog(bool json);
  void request(const char* route, int status, std::chrono::nanoseconds took);
  void note(std::string_view text);  // fixed words
  void failure(const Error& error);  // of our own: kind internal, io, model

 private:
  std::shared_ptr<spdlog::logger> logger_;
  bool json_;
};

}  // namespace martlet::server
