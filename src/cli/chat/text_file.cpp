#include "cli/chat/text_file.h"

#include <fstream>
#include <iostream>
#include <vector>

#include "base/utf8.h"

namespace martlet::cli {
namespace {

constexpr size_t kMaxBytes = 64 << 20;

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& in = path == "-" ? std::cin : file;
  if (!in) return Error{ErrorKind::io, "file_not_found", "the file cannot be read: check the path", path};
  std::string text;
  std::vector<char> block(64 << 10);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
    text.append(block.data(), static_cast<size_t>(in.gcount()));
    if (text.size() > kMaxBytes)
      return Error{ErrorKind::usage, "text_too_long", "the text is longer than 64 MiB", path};
  }
  if (const size_t at = utf8::find_invalid(text); at != std::string::npos)
    return Error{ErrorKind::usage, "invalid_utf8", "the text is not valid UTF-8", path + "@" + std::to_string(at)};
  return text;
}

}  // namespace martlet::cli
