#include "gateway/answer.h"

#include <algorithm>
#include <array>

#include "net/http_call.h"
#include "server/error_response.h"

namespace martlet::gateway {
namespace {

// 508: a gateway among the upstreams says that the request goes in circles.
constexpr std::array kPassedOn = {400, 405, 409, 413, 414, 415, 422, 431, 508};
// The model's file is damaged: not what was asked for is at fault.
constexpr std::string_view kModelInvalid = "model_invalid";

// Words that a client may see, whoever wrote the error.
Error public_error(const Error& error) {
  if (error.code != "upstream_disconnected") return error;
  return {error.kind, error.code, "the upstream closed the connection before its answer was complete", ""};
}

}  // namespace

Verdict verdict_of(int status, std::string_view error_code) {
  if (status >= 200 && status < 300) return Verdict::answer;
  if (std::find(kPassedOn.begin(), kPassedOn.end(), status) != kPassedOn.end()) {
    return error_code == kModelInvalid ? Verdict::fail : Verdict::pass_on;
  }
  if (status == 429 || status == 503) return Verdict::busy;
  return status >= 400 && status < 500 ? Verdict::refuse : Verdict::fail;
}

Error verdict_error(Verdict verdict, int status) {
  const std::string with = " (status " + std::to_string(status) + ")";
  switch (verdict) {
    case Verdict::busy:
      return {ErrorKind::network, "upstream_busy", "the upstream has no room" + with, ""};
    case Verdict::refuse:
      return {ErrorKind::network, "upstream_refused",
              "the upstream refuses the gateway's key, model name or path" + with, ""};
    case Verdict::answer:
    case Verdict::pass_on:
    case Verdict::fail:
      break;
  }
  return {ErrorKind::network, "upstream_error", "the upstream failed" + with, ""};
}

bool says_nothing_of_health(const Error& error) {
  return error.code == "upstream_busy" || error.code == "upstream_refused" || error.code == net::kAnswerTooLarge;
}

net::HttpResponse upstream_error_response(const Error& error) {
  if (error.kind != ErrorKind::network) return server::error_response(error);
  if (error.code == "upstream_busy") {
    return server::error_response({ErrorKind::unavailable, error.code, "every upstream is busy; try again soon", ""});
  }
  const int status = error.code == "upstream_timeout" ? 504 : 502;
  return net::error_response(status, error.code, public_error(error).text);
}

net::HttpResponse refusal_response(int status, std::string_view body, const AnswerFacts& facts) {
  if (!facts.error) {
    return net::error_response(status, "upstream_refused_request", "the upstream refuses this request");
  }
  net::HttpResponse out;
  out.status = status;
  out.body = body;
  return out;
}

std::string cut_event(const Error& error) {
  return net::error_json(502, error.code, public_error(error).text);
}

}  // namespace martlet::gateway
