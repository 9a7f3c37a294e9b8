#pragma once

// A completion request of the OpenAI API, checked: every field of the body honoured or refused by name.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <boost/json/value.hpp>

#include "base/error.h"
#include "martlet/request.h"

namespace martlet::server {

enum class Endpoint : unsigned { chat = 1, text = 2 };

inline constexpr int32_t kMaxTopLogprobs = 20;
inline constexpr int32_t kMaxChoices = 16;  // n
inline constexpr size_t kMaxStops = 16;
inline constexpr size_t kMaxStopBytes = 1024;

struct ApiRequest {
  std::string model = "default";
  boost::json::array messages;          // chat: each with role and content as text, ready for the template
  boost::json::value prompt;            // text: as sent
  boost::json::object template_kwargs;  // chat
  SamplingParameters sampling;
  std::optional<int32_t> max_tokens;
  int32_t n = 1, priority = 0;
  bool stream = false, include_usage = false, echo = false, ignore_eos = false, logprobs = false;
  std::optional<int32_t> top_logprobs;
  std::optional<Speculation> speculation;
  std::vector<std::string> stop;
  std::vector<Token> stop_tokens;
  std::optional<std::chrono::duration<double>> keep_alive;  // seconds; negative: until its memory is wanted
};

struct ApiPolicy {
  bool template_kwargs = false;  // chat_template_kwargs is honoured
};

// Errors: ErrorKind::request with the field's name in `where`; `unsupported_parameter` for what is not honoured.
Result<ApiRequest> parse_api_request(boost::json::object body, Endpoint endpoint, const ApiPolicy& policy);

}  // namespace martlet::server
