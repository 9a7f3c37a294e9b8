#include "net/http_response_parser.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

namespace martlet::net {

namespace http = boost::beast::http;

namespace {

constexpr size_t kHeadBytes = 64u << 10;
constexpr size_t kChunkLineBytes = 8u << 10;
constexpr std::string_view kHeadEnd = "\r\n\r\n";

bool same_text(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

size_t count(const HttpAnswerHead& head, std::string_view name) {
  return std::count_if(head.fields.begin(), head.fields.end(),
                       [&](const HttpField& field) { return same_text(field.name, name); });
}

}  // namespace

std::string_view HttpAnswerHead::field(std::string_view name) const {
  for (const HttpField& f : fields) {
    if (same_text(f.name, name)) return f.value;
  }
  return {};
}

HttpResponseParser::State HttpResponseParser::parse_head(std::string& buffer) {
  const size_t end = buffer.find(kHeadEnd);
  if (std::min(end, buffer.size()) > kHeadBytes) return State::malformed;
  if (end == buffer.npos) return State::head;
  http::response_parser<http::empty_body> parser;
  parser.header_limit(kHeadBytes + kHeadEnd.size());
  parser.body_limit(std::numeric_limits<uint64_t>::max());
  parser.skip(true);  // the body is ours to read
  boost::beast::error_code ec;
  parser.put(boost::asio::buffer(buffer.data(), end + kHeadEnd.size()), ec);
  buffer.erase(0, end + kHeadEnd.size());
  if (ec || !parser.is_header_done()) return State::malformed;
  const auto& message = parser.get();
  if (message.result_int() < 200) return message.result_int() == 101 ? State::malformed : State::head;
  head_.status = static_cast<int>(message.result_int());
  for (const auto& field : message) {
    head_.fields.push_back({std::string(field.name_string()), std::string(field.value())});
  }
  keep_alive_ = message.keep_alive();
  return choose_framing(message.version() == 11);
}

HttpResponseParser::State HttpResponseParser::choose_framing(bool http11) {
  const size_t lengths = count(head_, "content-length"), codings = count(head_, "transfer-encoding");
  if (lengths > 1 || codings > 1 || (lengths && codings)) return State::malformed;
  if (head_.status == 204 || head_.status == 304) return State::done;
  if (codings > 0) {
    if (!http11 || !same_text(head_.field("transfer-encoding"), "chunked")) return State::malformed;
    chunks_.emplace(std::numeric_limits<size_t>::max(), kChunkLineBytes);
    return State::body;
  }
  if (lengths == 0) return keep_alive_ = false, State::body;
  const std::string_view length = head_.field("content-length");
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bytes);
  if (error != std::errc{} || end != length.data() + length.size()) return State::malformed;
  left_ = bytes;
  return bytes == 0 ? State::done : State::body;
}

HttpResponseParser::State HttpResponseParser::advance(std::string& buffer, std::string& body) {
  while (state_ == State::head) {
    const size_t before = buffer.size();
    state_ = parse_head(buffer);
    if (state_ == State::head && buffer.size() == before) return state_;
  }
  if (state_ != State::body) return state_;
  if (chunks_) {
    const ChunkedDecoder::State chunks = chunks_->advance(buffer, body);
    if (chunks == ChunkedDecoder::State::more) return state_;
    return state_ = chunks == ChunkedDecoder::State::done ? State::done : State::malformed;
  }
  const size_t taken = left_ ? static_cast<size_t>(std::min<uint64_t>(*left_, buffer.size())) : buffer.size();
  body.append(buffer, 0, taken);
  buffer.erase(0, taken);
  if (left_ && (*left_ -= taken) == 0) state_ = State::done;
  return state_;
}

HttpResponseParser::State HttpResponseParser::end_of_input() {
  const bool until_close = state_ == State::body && !chunks_ && !left_;
  if (state_ != State::done) state_ = until_close ? State::done : State::malformed;
  return state_;
}

}  // namespace martlet::net
