#include "server/access_log.h"

#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

namespace martlet::server {
namespace {

std::string quoted(std::string_view text) {
  return boost::json::serialize(boost::json::value(text));
}

}  // namespace

AccessLog::AccessLog(bool json, bool live_line) : json_(json) {
  auto sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>();
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
