#include "server/origin.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace martlet::server {
namespace {

bool all_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

// 127.a.b.c in plain decimal; other spellings of addresses are nobody's honest Host.
bool is_loopback_v4(std::string_view host) {
  int parts = 0;
  for (size_t begin = 0; begin <= host.size(); ++parts) {
    const size_t end = std::min(host.find('.', begin), host.size());
    const std::string_view part = host.substr(begin, end - begin);
    if (part.empty() || part.size() > 3 || !all_digits(part) || std::stoi(std::string(part)) > 255) return false;
    if (parts == 0 && part != "127") return false;
    begin = end + 1;
  }
  return parts == 4;
}

}  // namespace

bool is_local_host(std::string_view host) {
  const size_t bracket = host.starts_with('[') ? host.find(']') : 0;
  if (bracket == host.npos) return false;
  const size_t colon = host.find(':', bracket);
  if (colon != host.npos && !all_digits(host.substr(colon + 1))) return false;
  std::string name(host.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name == "localhost" || name == "[::1]" || is_loopback_v4(name);
}

bool is_local_origin(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return is_local_host(origin.substr(scheme.size()));
  }
  return false;
}

}  // namespace martlet::server
