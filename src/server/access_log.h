#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "base/error.h"

namespace spdlog {
class logger;
}

namespace martlet::server {

// How a completion ended: `outcome` is "complete", "client_left" or an error's code.
struct CompletionReport {
  std::string_view id, model, outcome;
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  double queued = 0, first_token = 0, took = 0;  // seconds; 0 where it did not come to that
};

// What the server writes to stderr: text for people on a terminal, one JSON object a line otherwise. Routes stand for
// paths; no key, prompt or other user bytes come near it.
class AccessLog {
 public:
  // `live_line`: a line that is redrawn stands on the same terminal, to be wiped before anything is written.
  explicit AccessLog(bool json, bool live_line = false);
  // `id`: the request's, which its answer carries too; empty when there was no readable request.
  void request(std::string_view id, const char* route, int status, std::chrono::nanoseconds took);
  void completion(const CompletionReport& report);
  void note(std::string_view text);  // fixed words
  void failure(const Error& error);  // of our own: kind internal, io, model

 private:
  std::shared_ptr<spdlog::logger> logger_;
  bool json_;
};

}  // namespace martlet::server
