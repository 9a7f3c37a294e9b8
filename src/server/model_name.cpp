#include "server/model_name.h"

#include <algorithm>
#include <charconv>
namespace martlet::server {
namespace {

Error invalid_path() {
  return {ErrorKind::request, "invalid_path", "this is no model's name", "model"};
}

}  // namespace

Status check_model_name(std::string_view name) {
  const bool control = std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (control || name.find('\\') != name.npos) return invalid_path();
  for (size_t begin = 0; begin <= name.size();) {  // "a..b" is a name, "a/../b" a path
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return invalid_path();
    begin = end + 1;
  }
  return {};
}

Result<std::string> decode_model_name(std::string_view escaped) {
  std::string out;
  for (size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] != '%') {
      out += escaped[i];
      continue;
    }
    const std::string_view digits = escaped.substr(i + 1, 2);
    unsigned code = 0;
    const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    // A dot needs no escape: who escapes it has something in mind.
    if (ec != std::errc() || digits.size() != 2 || end != digits.data() + 2 || code == '.') return invalid_path();
    out += static_cast<char>(code);
    i += 2;
  }
  MARTLET_TRY(check_model_name(out));
  return out;
}

Error model_not_found() {
  return {ErrorKind::request, "model_not_found", "no model of this name is served; GET /v1/models lists them", "model"};
}

}  // namespace martlet::server
