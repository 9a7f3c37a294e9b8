#include "net/chunked.h"

#include <algorithm>
#include <charconv>

namespace martlet::net {
namespace {

bool printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c == '\t' || (c >= 0x20 && c != 0x7f); });
}

}  // namespace

// "1A" or "1A;name=value": hexadecimal digits, then nothing or an extension.
ChunkedDecoder::State ChunkedDecoder::size_line(std::string_view line, size_t body_size) {
  const std::string_view digits = line.substr(0, line.find_first_of("; \t"));
  const std::string_view extension = line.substr(digits.size());
  const size_t begin = extension.find_first_not_of(" \t");
  if (!printable(extension) || (!extension.empty() && (begin == extension.npos || extension[begin] != ';'))) {
    return State::malformed;
  }
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), chunk_left_, 16);
  if (error != std::errc{} || end != digits.data() + digits.size()) return State::malformed;
  if (chunk_left_ > body_bytes_ - body_size) return State::too_large;
  part_ = chunk_left_ > 0 ? Part::data : Part::trailer;
  return State::more;
}

// A line without its CR LF.
ChunkedDecoder::State ChunkedDecoder::take_line(std::string_view line, size_t body_size) {
  if (part_ == Part::size_line) return size_line(line, body_size);
  if (part_ == Part::data_end) return part_ = Part::size_line, State::more;
  if (line.empty()) return State::done;
  trailer_bytes_ += line.size();
  return printable(line) ? State::more : State::malformed;
}

ChunkedDecoder::State ChunkedDecoder::advance(std::string& buffer, std::string& body) {
  const std::string_view bytes = buffer;
  size_t used = 0;
  State state = State::more;
  while (state == State::more) {
    if (part_ == Part::data) {
      const size_t taken = std::min(chunk_left_, bytes.size() - used);
      body += bytes.substr(used, taken);
      used += taken;
      chunk_left_ -= taken;
      if (chunk_left_ > 0) break;
      part_ = Part::data_end;
    }
    // A line that is too long, or has a CR inside, is refused before its end has come.
    const std::string_view line = bytes.substr(used, bytes.find('\n', used) - used);
    const bool ended = used + line.size() < bytes.size();
    const size_t cr = line.find('\r'), limit = part_ == Part::data_end ? 1 : line_bytes_ - trailer_bytes_;
    if (line.size() > limit || (cr == line.npos ? ended : cr + 1 != line.size())) {
      state = State::malformed;
    } else if (ended) {
      used += line.size() + 1;
      state = take_line(line.substr(0, cr), body.size());
    } else {
      break;
    }
  }
  buffer.erase(0, used);
  return state;
}

}  // namespace martlet::net
