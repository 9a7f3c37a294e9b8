#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "server/memory_report.h"

namespace martlet {
struct EngineStats;
}

namespace martlet::server {

// Everything that /metrics shows. Thread-safe. Labels are routes and statuses, never anything that a user wrote.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  void request(const char* route, int status, std::chrono::nanoseconds took);
  void first_token(std::chrono::nanoseconds after);  // from the request's arrival
  void next_token(std::chrono::nanoseconds after);   // from the token before it in its answer
  void output_token(std::chrono::nanoseconds each);  // mean time between the tokens of one answer
  // The text of /metrics, with the figures of the engines and of memory as they are now.
  std::string text(const EngineStats& engine, const MemoryReport& memory, int connections);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace martlet::server
