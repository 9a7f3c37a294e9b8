#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace martlet::gateway {

class Dispatcher;

// What /metrics shows of a gateway. Labels are names of the configuration, routes and outcomes: nothing a client wrote.
class Metrics {
 public:
  explicit Metrics(std::vector<std::string> upstreams);
  ~Metrics();

  // `route`: lives as long as this.
  void request(const char* route, int status, std::chrono::nanoseconds took);
  // One attempt at an upstream: "answered", "failed", "refused", "abandoned", "cut" (failed inside its answer).
  void attempt(size_t upstream, const char* outcome);
  void failover(size_t from);
  void queued(std::chrono::nanoseconds waited);
  void first_byte(size_t upstream, std::chrono::nanoseconds since_arrival);  // the queue included
  void restarted(size_t upstream);
  void acceptance(size_t upstream, double share, bool drafting);
  void memory(double used, int level);
  // The text of /metrics, with what the dispatcher knows now.
  std::string text(const Dispatcher& dispatcher, int connections);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace martlet::gateway
