#include "cli/chat/text_file.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/utf8.h"

namespace martlet::cli {
namespace {

constexpr size_t kMaxBytes = 64 << 20;

Error failed(const char* code, const char* text, const std::string& path) {
  return {ErrorKind::io, code, text, path};
}

Result<std::string> read_all(std::FILE* file, const std::string& path) {
  std::string text;
  std::vector<char> block(64 << 10);
  while (const size_t count = std::fread(block.data(), 1, block.size(), file)) {
    text.append(block.data(), count);
    if (text.size() > kMaxBytes)
      return Error{ErrorKind::usage, "text_too_long", "the text is longer than 64 MiB", path};
  }
  if (std::ferror(file)) return failed("io_error", "the text could not be read", path);
  if (const size_t at = utf8::find_invalid(text); at != std::string::npos)
    return Error{ErrorKind::usage, "invalid_utf8", "the text is not valid UTF-8", path + "@" + std::to_string(at)};
  return text;
}

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  if (path == "-") return read_all(stdin, path);
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::not_found)
    return failed("file_not_found", "the file cannot be read: check the path", path);
  if (kind != std::filesystem::file_type::regular)
    return failed("not_regular_file", "this is no regular file, or cannot be looked at", path);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return failed("file_not_found", "the file cannot be read: check the path", path);
  return read_all(file.get(), path);
}

}  // namespace martlet::cli
