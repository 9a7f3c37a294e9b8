#include "server/field.h"

#include <cmath>

#include <fmt/format.h>

namespace martlet::server {

namespace json = boost::json;

namespace {

Error invalid(std::string text, const std::string& name) {
  return bad_field("invalid_value", std::move(text), name);
}

// The value as an integer: also 5.0, which some languages write for 5. Nothing when it is none, or beyond 64 bits.
std::optional<int64_t> whole(const json::value& value) {
  if (value.is_int64()) return value.get_int64();
  if (!value.is_double()) return std::nullopt;
  const double d = value.get_double();
  return std::trunc(d) == d && std::fabs(d) < 9e18 ? std::optional(static_cast<int64_t>(d)) : std::nullopt;
}

}  // namespace

Error unsupported(const std::string& name) {
  return bad_field("unsupported_parameter", "this parameter, or this value of it, is not supported", name);
}

Result<double> read_number(const json::value& value, const std::string& name, double low, double high) {
  if (value.is_number()) {
    const double d = value.to_number<double>();
    if (d >= low && d <= high) return d;
  }
  return invalid(fmt::format("must be a number from {} to {}", low, high), name);
}

Result<int64_t> read_integer(const json::value& value, const std::string& name, int64_t low, int64_t high) {
  const std::optional<int64_t> read = whole(value);
  if (read && *read >= low && *read <= high) return *read;
  return invalid(fmt::format("must be an integer from {} to {}", low, high), name);
}

Result<bool> read_boolean(const json::value& value, const std::string& name) {
  if (value.is_bool()) return value.get_bool();
  return invalid("must be true or false", name);
}

Result<std::string> read_string(const json::value& value, const std::string& name) {
  if (value.is_string()) return std::string(value.get_string());
  return invalid("must be a string", name);
}

Result<std::vector<Token>> read_tokens(const json::value& value, const std::string& name, int32_t vocabulary) {
  if (!value.is_array()) return invalid("must be an array of token ids", name);
  const json::array& array = value.get_array();
  std::vector<Token> out;
  out.reserve(array.size());
  for (const json::value& element : array) {
    const std::optional<int64_t> id = element.is_int64() ? whole(element) : std::nullopt;
    if (!id || *id < 0 || *id >= vocabulary) {
      return bad_field("invalid_token_id", fmt::format("must be an integer from 0 to {}", vocabulary - 1),
                       fmt::format("{}[{}]", name, out.size()));
    }
    out.push_back(static_cast<Token>(*id));
  }
  return out;
}

}  // namespace martlet::server
