#pragma once

// What the gateway reads in the bodies that pass through it, and the few members that it writes. Everything else keeps
// its bytes: a prompt is never serialised anew.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace martlet::gateway {

struct RequestFacts {
  std::string model;  // as the client wrote it; "default" when absent
  bool stream = false;
  int64_t prompt_bytes = 0;   // of the messages or the prompt, as JSON
  int64_t answer_tokens = 0;  // the client's limit; 0: none
  uint64_t prefix = 0;        // of the beginning of the messages or the prompt
};

// Errors (ErrorKind::request): those of server::parse_json_body; `unsupported_parameter` for members that would send an
// upstream, or its keys, elsewhere (api_base, api_key), at any depth; `invalid_value`.
Result<RequestFacts> inspect_request(std::string_view body);

// `object` is a valid JSON object; returns it with the member `name` set to `json`: in its place where it stands, else
// in front.
std::string with_member(std::string_view object, std::string_view name, std::string_view json);
// The same where the member stands already; otherwise `object` as it is.
std::string with_member_replaced(std::string_view object, std::string_view name, std::string_view json);

// What an answer, or an event of one, tells beside its text.
struct AnswerFacts {
  bool error = false;         // it is an error object
  std::string error_code;     // of that; may be empty
  int64_t prompt_tokens = 0;  // 0: not said
  int64_t drafted = 0, accepted = 0;
};

// False when `json` is not one JSON object.
bool inspect_answer(std::string_view json, AnswerFacts& out);

}  // namespace martlet::gateway
