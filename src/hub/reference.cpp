#include "hub/reference.h"

#include <algorithm>

namespace martlet {
namespace {

constexpr size_t kMaxPart = 96, kMaxFile = 1024;

bool is_name(std::string_view part) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  // "--" separates the parts of a folder name in the cache, and "." and ".." are folders.
  return !part.empty() && part.size() <= kMaxPart && std::ranges::all_of(part, allowed) &&
         part.find("--") == std::string_view::npos && part.find("..") == std::string_view::npos &&
         part.front() != '.' && part.front() != '-';
}

}  // namespace

bool is_safe_path(std::string_view path) {
  if (path.size() > kMaxFile) return false;
  const auto forbidden = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\'; };
  if (std::ranges::any_of(path, forbidden)) return false;
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool is_hex(std::string_view text, size_t length) {
  const auto digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == length && std::ranges::all_of(text, digit);
}

Result<HubReference> parse_hub_reference(std::string_view text) {
  const std::string_view given = text;
  if (text.starts_with("hf:")) text.remove_prefix(3);
  const size_t slash = text.find('/');
  const size_t colon = text.find(':');
  HubReference reference;
  if (slash != std::string_view::npos && slash < colon) {
    reference.owner = text.substr(0, slash);
    reference.repository = text.substr(slash + 1, colon == std::string_view::npos ? colon : colon - slash - 1);
    if (colon != std::string_view::npos) reference.file = text.substr(colon + 1);
  }
  const bool file_ok = colon == std::string_view::npos || is_safe_path(reference.file);
  if (!is_name(reference.owner) || !is_name(reference.repository) || !file_ok)
    return Error{ErrorKind::usage, "bad_reference", "a model on the hub is written hf:owner/repository[:file]",
                 std::string(given)};
  return reference;
}

}  // namespace martlet
