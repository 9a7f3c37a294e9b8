#include "server/access_log.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "base/printable.h"

namespace martlet::server {
namespace {

std::string quoted(std::string_view text) {
  return boost::json::serialize(boost::json::value(text));
}

using Base = spdlog::sinks::ansicolor_stderr_sink_mt;

// A pipe whose reader has stopped, or a terminal that is held, would stop the server with it: a line that cannot be
// written at once is lost, and the next one that can be says how many were. A pipe that poll() calls writable takes
// PIPE_BUF bytes, more than any line has.
class Sink final : public Base {
 public:
  explicit Sink(bool json) : json_(json) {}

  void log(const spdlog::details::log_msg& line) override {
    pollfd standard_error{STDERR_FILENO, POLLOUT, 0};
    if (poll(&standard_error, 1, 0) == 0) {
      ++lost_;
      return;
    }
    if (const int64_t lost = lost_.exchange(0)) {
      const std::string text =
          json_ ? fmt::format(R"("event":"log lines lost","count":{})", lost) : fmt::format("{} log lines lost", lost);
      Base::log({line.logger_name, spdlog::level::warn, text});
    }
    Base::log(line);
  }

 private:
  const bool json_;
  std::atomic<int64_t> lost_{0};
};

}  // namespace

AccessLog::AccessLog(bool json, bool live_line) : json_(json) {
  auto sink = std::make_shared<Sink>(json);
  logger_ = std::make_shared<spdlog::logger>("serve", std::move(sink));
  const std::string wipe = live_line ? "\r\x1b[K" : "";
  logger_->set_pattern(json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})" : wipe + "%H:%M:%S.%e %^%l%$ %v");
  logger_->flush_on(spdlog::level::info);
}

void AccessLog::request(std::string_view id, const char* route, int status, std::chrono::nanoseconds took) {
  const double milliseconds = std::chrono::duration<double, std::milli>(took).count();
  const auto level = status >= 500 ? spdlog::level::warn : spdlog::level::info;
  if (json_) {
    logger_->log(level, R"("event":"request","id":{},"route":{},"status":{},"ms":{:.3f})", quoted(id), quoted(route),
                 status, milliseconds);
  } else {
    logger_->log(level, "{} {} {} {:.1f} ms", id, route, status, milliseconds);
  }
}

void AccessLog::completion(const CompletionReport& r) {
  if (json_) {
    logger_->info(R"("event":"completion","id":{},"model":{},"outcome":{},"prompt_tokens":{},"cached_tokens":{},)"
                  R"("output_tokens":{},"queued_ms":{:.3f},"first_token_ms":{:.3f},"ms":{:.3f})",
                  quoted(r.id), quoted(r.model), quoted(r.outcome), r.prompt_tokens, r.cached_tokens, r.output_tokens,
                  r.queued * 1e3, r.first_token * 1e3, r.took * 1e3);
  } else {
    logger_->info("{} {} {}: {} tokens ({} cached) in, {} out, first after {:.1f} ms, {:.1f} ms", r.id,
                  printable(r.model), r.outcome, r.prompt_tokens, r.cached_tokens, r.output_tokens, r.first_token * 1e3,
                  r.took * 1e3);
  }
}

void AccessLog::note(std::string_view text) {
  if (json_) {
    logger_->info(R"("event":{})", quoted(text));
  } else {
    logger_->info("{}", text);
  }
}

void AccessLog::failure(const Error& error) {
  if (json_) {
    logger_->error(R"("event":"error","code":{},"text":{})", quoted(error.code), quoted(error.text));
  } else {
    logger_->error("{}", error.line());
  }
}

}  // namespace martlet::server
