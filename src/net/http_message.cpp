#include "net/http_message.h"

#include <algorithm>
#include <cctype>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

namespace martlet::net {
namespace {

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

struct ErrorType {
  int status;
  const char* type;
};

// The `type` that OpenAI clients expect beside a status.
constexpr ErrorType kErrorTypes[] = {
    {401, "authentication_error"},
    {403, "permission_error"},
    {404, "not_found_error"},
    {429, "rate_limit_error"},
};

const char* error_type(int status) {
  for (const ErrorType& row : kErrorTypes) {
    if (row.status == status) return row.type;
  }
  return status < 500 ? "invalid_request_error" : "server_error";
}

}  // namespace

std::string_view HttpRequest::field(std::string_view name) const {
  for (const HttpField& f : fields) {
    if (same_name(f.name, name)) return f.value;
  }
  return {};
}

bool HttpRequest::has(std::string_view name) const {
  return count(name) > 0;
}

size_t HttpRequest::count(std::string_view name) const {
  return std::count_if(fields.begin(), fields.end(), [&](const HttpField& f) { return same_name(f.name, name); });
}

std::string error_json(int status, std::string_view code, std::string_view message, std::string_view param) {
  boost::json::object error{{"message", message}, {"type", error_type(status)}, {"param", nullptr}, {"code", code}};
  if (!param.empty()) error["param"] = param;
  return boost::json::serialize(boost::json::object{{"error", std::move(error)}});
}

HttpResponse error_response(int status, std::string_view code, std::string_view message, std::string_view param) {
  HttpResponse out;
  out.status = status;
  out.body = error_json(status, code, message, param);
  return out;
}

}  // namespace martlet::net
