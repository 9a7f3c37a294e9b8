#pragma once

// What the benchmark compares: engines that it starts, reaches or holds, and one instance of each that answers.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "base/error.h"
#include "bench/result.h"

namespace martlet::bench {

struct Ask {
  std::string prompt;
  int max_tokens = 0;
  std::function<void()> first_text;  // called once the answer has begun, by those who can tell; never null
};

// Something that answers, ready to. Stops when it goes.
class Instance {
 public:
  virtual ~Instance() = default;
  // Times of the measurement are seconds since `begin`; `offered` and `prompt` are the caller's to set. A refusal or a
  // broken stream is in Measurement::error.
  virtual boost::asio::awaitable<Measurement> ask(boost::asio::io_context& io, const Ask& what,
                                                  std::chrono::steady_clock::time_point begin) = 0;
  // The process whose tree does the work; 0 where it is not ours to look at.
  virtual int process() const { return 0; }
};

// Whether the user wants no more: asked again and again.
using StopAsked = std::function<bool()>;

class Target {
 public:
  explicit Target(EngineInfo info) : info_(std::move(info)) {}
  virtual ~Target() = default;

  const EngineInfo& info() const { return info_; }
  void set_weight_bytes(double bytes_per_token) { info_.weight_bytes_per_token = bytes_per_token; }
  // Comes up for each turn: its first request is cold, and there can be several at once.
  virtual bool starts() const { return true; }
  // Errors: ErrorKind::io or ::network, with the log where there is one.
  virtual Result<std::unique_ptr<Instance>> start(const StopAsked& stop) = 0;

 protected:
  EngineInfo info_;
};

}  // namespace martlet::bench
