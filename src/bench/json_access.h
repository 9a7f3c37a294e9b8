#pragma once

// Members of JSON that others wrote: what is missing, or of another type, reads as nothing.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

#include <boost/json.hpp>

namespace martlet::bench {

namespace json = boost::json;

inline const json::value* find(const json::value* from, std::string_view name) {
  if (!from || !from->is_object()) return nullptr;
  return from->get_object().if_contains(json::string_view(name.data(), name.size()));
}

// 0 for what is no number, or below it.
inline int integer(const json::value* v) {
  json::error_code code;
  const int64_t n = v && v->is_number() ? v->to_number<int64_t>(code) : 0;
  return code ? 0 : static_cast<int>(std::clamp<int64_t>(n, 0, std::numeric_limits<int>::max()));
}

// Lives as long as the value.
inline std::string_view string_of(const json::value* v) {
  return v && v->is_string() ? std::string_view(v->get_string().data(), v->get_string().size()) : std::string_view();
}

}  // namespace martlet::bench
