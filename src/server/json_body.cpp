#include "server/json_body.h"

#include <charconv>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>

#include "base/utf8.h"
#include "server/json_events.h"

namespace martlet::server {

namespace json = boost::json;

namespace {

constexpr size_t kMaxDepth = 64;
// A value of two bytes ("1,") costs up to a hundred as an object in memory. This many are more than any request needs:
// 128 prompts of 8,192 token ids.
constexpr size_t kMaxValues = 1 << 20;

// Builds the value and refuses what Boost.JSON lets pass: a key that comes twice, a number that overflows to infinity.
struct Handler : JsonEvents {
  explicit Handler(json::storage_ptr given) : memory(std::move(given)) {}

  bool on_document_begin(error_code&) { return stack.reset(memory), true; }
  bool on_object_begin(error_code& ec) { return keys.emplace_back(), count(ec); }
  bool on_object_end(size_t n, error_code&) { return keys.pop_back(), stack.push_object(n), true; }
  bool on_array_begin(error_code& ec) { return count(ec); }
  bool on_array_end(size_t n, error_code&) { return stack.push_array(n), true; }
  bool on_key_part(string_view s, size_t, error_code&) {
    return key.append(s.data(), s.size()), stack.push_chars(s), true;
  }
  bool on_key(string_view s, size_t, error_code& ec) {
    key.append(s.data(), s.size());
    if (!keys.back().insert(std::exchange(key, {})).second) return ec = json::error::syntax, false;
    return stack.push_key(s), true;
  }
  bool on_string_part(string_view s, size_t, error_code&) { return stack.push_chars(s), true; }
  bool on_string(string_view s, size_t, error_code& ec) { return stack.push_string(s), count(ec); }
  bool on_int64(int64_t i, string_view, error_code& ec) { return stack.push_int64(i), count(ec); }
  bool on_uint64(uint64_t u, string_view, error_code& ec) { return stack.push_uint64(u), count(ec); }
  bool on_double(double d, string_view, error_code& ec) {
    if (!std::isfinite(d)) return ec = json::error::exponent_overflow, false;
    return stack.push_double(d), count(ec);
  }
  bool on_bool(bool b, error_code& ec) { return stack.push_bool(b), count(ec); }
  bool on_null(error_code& ec) { return stack.push_null(), count(ec); }

  bool count(error_code& ec) {
    if (++values > kMaxValues) ec = json::error::array_too_large;
    return !ec;
  }

  const json::storage_ptr memory;
  json::value_stack stack;
  // Of each object that is open. Ordered: keys made to share one hash value would cost a hash table quadratic time.
  std::vector<std::set<std::string>> keys;
  std::string key;
  size_t values = 0;
};

Error error_at(const char* code, const char* text, size_t offset) {
  return {ErrorKind::request, code, std::string(text) + "; offset " + std::to_string(offset), ""};
}

// Offset of an escape that is one half of a surrogate pair without the other, or npos. Escapes stand in strings only.
size_t find_lone_surrogate(std::string_view body) {
  const auto unit = [&](size_t at) {
    unsigned code = 0;
    if (body.substr(at, 2) == "\\u" && at + 6 <= body.size()) {
      std::from_chars(body.data() + at + 2, body.data() + at + 6, code, 16);
    }
    return code;
  };
  const auto is_high = [](unsigned code) { return code >= 0xD800 && code < 0xDC00; };
  const auto is_low = [](unsigned code) { return code >= 0xDC00 && code < 0xE000; };
  for (size_t at = body.find('\\'); at != body.npos;) {
    const unsigned code = unit(at);
    if (is_low(code) || (is_high(code) && !is_low(unit(at + 6)))) return at;
    at = body.find('\\', at + (is_high(code) ? 12 : 2));
  }
  return body.npos;
}

Error parse_error(const json::error_code& ec, size_t offset) {
  if (ec == json::error::too_deep) return error_at("json_too_deep", "the body nests more than 64 levels", offset);
  if (ec == json::error::array_too_large)
    return error_at("json_too_large", "the body holds more than 1048576 values", offset);
  return error_at("invalid_json", "the body is not one valid JSON object", offset);
}

}  // namespace

Result<json::object> parse_json_body(std::string_view body, json::storage_ptr memory) {
  if (const size_t bad = utf8::find_invalid(body); bad != body.npos) {
    return error_at("invalid_utf8", "the body is not valid UTF-8", bad);
  }
  if (const size_t lone = find_lone_surrogate(body); lone != body.npos) {
    return error_at("invalid_utf8", "the body escapes half of a surrogate pair", lone);
  }
  json::parse_options options;
  options.max_depth = kMaxDepth;
  json::basic_parser<Handler> parser(options, std::move(memory));
  json::error_code ec;
  const size_t used = parser.write_some(false, body.data(), body.size(), ec);
  if (ec) return parse_error(ec, used);
  if (used < body.size()) return error_at("invalid_json", "something follows the JSON object", used);
  json::value value = parser.handler().stack.release();
  if (!value.is_object()) return error_at("invalid_json", "the body is not a JSON object", 0);
  return std::move(value.get_object());
}

}  // namespace martlet::server
