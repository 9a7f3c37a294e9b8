#include "gateway/body.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parse.hpp>

#include "server/error_response.h"
#include "server/json_body.h"

namespace martlet::gateway {

namespace json = boost::json;

namespace {

constexpr size_t kUsualDocument = 4096;  // bytes that most bodies and answers take in memory when they are parsed
constexpr size_t kPrefixBytes = 512;     // enough to tell system prompts apart, and the same in every turn of a chat

// A member of an object: offsets of its value, or of where a first member would stand.
struct Place {
  size_t begin = 0, end = 0;
  bool found = false, empty = true;
};

// The functions below walk valid JSON only.
size_t skip_blanks(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(" \t\r\n", at), text.size());
}

size_t skip_string(std::string_view text, size_t at) {
  for (++at; text[at] != '"'; ++at) at += text[at] == '\\';
  return at + 1;
}

size_t skip_value(std::string_view text, size_t at) {
  if (text[at] == '"') return skip_string(text, at);
  if (text[at] != '{' && text[at] != '[') return std::min(text.find_first_of(",}] \t\r\n", at), text.size());
  for (int depth = 0;;) {
    const char c = text[at];
    at = c == '"' ? skip_string(text, at) : at + 1;
    depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    if (depth == 0) return at;
  }
}

// Escapes spell the same key differently.
bool is_key(std::string_view quoted, std::string_view name) {
  if (quoted.find('\\') == quoted.npos) return quoted.substr(1, quoted.size() - 2) == name;
  return json::parse(quoted).as_string() == name;
}

Place find_member(std::string_view object, std::string_view name) {
  Place out;
  size_t at = skip_blanks(object, object.find('{') + 1);
  out.begin = out.end = at;
  while (object[at] != '}') {
    out.empty = false;
    const size_t key_end = skip_string(object, at);
    const size_t value = skip_blanks(object, object.find(':', key_end) + 1), end = skip_value(object, value);
    if (is_key(object.substr(at, key_end - at), name)) return {value, end, true, false};
    at = skip_blanks(object, end);
    if (object[at] == ',') at = skip_blanks(object, at + 1);
  }
  return out;
}

std::string replace(std::string_view text, const Place& place, std::string_view with) {
  std::string out(text.substr(0, place.begin));
  out += with;
  return out += text.substr(place.end);
}

// The path of the first member that a proxy must not pass on. Inside a JSON schema's "properties" a name is the user's
// own word.
std::optional<std::string> forbidden(const json::value& value, const std::string& path, bool names_are_free) {
  constexpr std::array<std::string_view, 2> kForbidden = {"api_base", "api_key"};
  if (const json::object* object = value.if_object()) {
    for (const auto& member : *object) {
      const std::string_view key(member.key());
      if (!names_are_free && std::find(kForbidden.begin(), kForbidden.end(), key) != kForbidden.end()) {
        return path + std::string(key);
      }
      if (auto found = forbidden(member.value(), path, key == "properties" && !names_are_free)) return found;
    }
  } else if (const json::array* array = value.if_array()) {
    for (const json::value& item : *array) {
      if (auto found = forbidden(item, path, false)) return found;
    }
  }
  return std::nullopt;
}

Result<int64_t> answer_limit(const json::object& body) {
  for (const char* name : {"max_completion_tokens", "max_tokens"}) {
    const json::value* value = body.if_contains(name);
    if (!value || value->is_null()) continue;
    json::error_code ec;
    const int64_t tokens = value->is_number() ? value->to_number<int64_t>(ec) : -1;
    // What it means is for the upstream to say; here it only has to be a count.
    if (ec || tokens < 0) return server::bad_field("invalid_value", "must be a number of tokens", name);
    return tokens;
  }
  return 0;
}

const json::value* member(const json::value* object, const char* name) {
  const json::object* members = object ? object->if_object() : nullptr;
  return members ? members->if_contains(name) : nullptr;
}

int64_t number_in(const json::value* object, const char* name) {
  const json::value* found = member(object, name);
  if (!found || !found->is_number()) return 0;
  json::error_code ec;
  const int64_t number = found->to_number<int64_t>(ec);
  return ec || number < 0 ? 0 : number;
}

}  // namespace

Result<RequestFacts> inspect_request(std::string_view body) {
  std::array<unsigned char, kUsualDocument> buffer;
  json::monotonic_resource memory(buffer.data(), buffer.size());
  MARTLET_ASSIGN(const json::object object, server::parse_json_body(body, &memory));
  if (auto path = forbidden(object, "", false)) {
    return server::bad_field("unsupported_parameter", "a request must not choose the upstream's address or key", *path);
  }
  RequestFacts out;
  out.model = "default";
  if (const json::value* model = object.if_contains("model"); model && !model->is_null()) {
    if (!model->is_string()) return server::bad_field("invalid_value", "must be a string", "model");
    out.model = std::string(model->as_string());
  }
  if (const json::value* stream = object.if_contains("stream"); stream && !stream->is_null()) {
    if (!stream->is_bool()) return server::bad_field("invalid_value", "must be true or false", "stream");
    out.stream = stream->as_bool();
  }
  MARTLET_ASSIGN(out.answer_tokens, answer_limit(object));
  for (const char* name : {"messages", "prompt"}) {
    const Place place = find_member(body, name);
    if (!place.found) continue;
    const std::string_view text = body.substr(place.begin, place.end - place.begin);
    out.prompt_bytes = static_cast<int64_t>(text.size());
    out.prefix = std::hash<std::string_view>()(text.substr(0, kPrefixBytes));
  }
  return out;
}

std::string with_member_replaced(std::string_view object, std::string_view name, std::string_view json) {
  const Place place = find_member(object, name);
  return place.found ? replace(object, place, json) : std::string(object);
}

std::string with_member(std::string_view object, std::string_view name, std::string_view json) {
  const Place place = find_member(object, name);
  if (place.found) return replace(object, place, json);
  std::string member = "\"" + std::string(name) + "\":" + std::string(json);
  if (!place.empty) member += ',';
  const size_t at = object.find('{') + 1;
  return replace(object, {at, at}, member);
}

bool inspect_answer(std::string_view text, AnswerFacts& out) {
  std::array<unsigned char, kUsualDocument> buffer;
  json::monotonic_resource memory(buffer.data(), buffer.size());
  json::error_code ec;
  const json::value value = json::parse(text, ec, &memory);
  if (ec || !value.is_object()) return false;
  const json::value* error = value.get_object().if_contains("error");
  out.error = error && !error->is_null();
  const json::value* code = error && error->is_object() ? error->get_object().if_contains("code") : nullptr;
  if (code && code->is_string()) out.error_code = code->get_string();
  // OpenAI's usage, Martlet's beside it, and llama-server's timings.
  const json::value *usage = member(&value, "usage"), *details = member(usage, "completion_tokens_details");
  const json::value* timings = member(&value, "timings");
  if (const int64_t tokens = number_in(usage, "prompt_tokens")) out.prompt_tokens = tokens;
  const int64_t accepted = number_in(details, "accepted_prediction_tokens");
  const int64_t rejected = number_in(details, "rejected_prediction_tokens");
  const int64_t martlets = number_in(details, "drafted_tokens");
  const int64_t drafted = number_in(timings, "draft_n");
  if (accepted + rejected > 0) out.drafted = accepted + rejected, out.accepted = accepted;
  if (martlets > 0) out.drafted = martlets, out.accepted = number_in(details, "accepted_tokens");
  if (drafted > 0) out.drafted = drafted, out.accepted = number_in(timings, "draft_n_accepted");
  return true;
}

}  // namespace martlet::gateway
