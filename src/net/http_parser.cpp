#include "net/http_parser.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

namespace martlet::net {

namespace http = boost::beast::http;
using boost::beast::error_code;

namespace {
// A chunk's size line, and a whole trailer: nothing that a client has a use for is longer.
constexpr size_t kChunkLineBytes = 8u << 10;
}  // namespace

struct HttpParser::Beast {
  http::request_parser<http::string_body> parser;
};

HttpParser::HttpParser(const HttpParserLimits& limits) : limits_(limits), beast_(std::make_unique<Beast>()) {
  beast_->parser.header_limit(static_cast<uint32_t>(limits.head_bytes));
  beast_->parser.body_limit(limits.body_bytes);
}

HttpParser::~HttpParser() = default;

HttpParser::State HttpParser::refuse(int status, std::string_view code, std::string_view message) {
  refusal_ = error_response(status, code, message);
  refusal_.close = true;
  return state_ = State::refused;
}

HttpParser::State HttpParser::advance(std::string& buffer) {
  if (state_ == State::head) {
    // Empty lines before a request are allowed (RFC 9112, 2.2): some clients end a body with one.
    while (lines_ == 0 && buffer.starts_with("\r\n")) {
      buffer.erase(0, 2);
      scanned_ = 0;  // the CR may have come, and been seen, alone
    }
    scan_head(buffer);
    if (state_ == State::head && head_end_ > 0) parse_head(buffer);
    return state_;
  }
  return state_ == State::body ? parse_body(buffer) : state_;
}

// Finds the end of the head, holding every line to the rules that Beast does not enforce, as the bytes come in.
HttpParser::State HttpParser::scan_head(const std::string& buffer) {
  for (; scanned_ < buffer.size(); ++scanned_) {
    if (scanned_ >= limits_.head_bytes) {
      return refuse(431, "header_too_large", "The request's header is too large.");
    }
    const unsigned char c = buffer[scanned_];
    if (lines_ == 0 && scanned_ > limits_.target_bytes + 32) {
      return refuse(414, "uri_too_long", "The request's address is too long.");
    }
    if (c == '\n') {
      if (scanned_ == 0 || buffer[scanned_ - 1] != '\r')
        return refuse(400, "bad_request", "A line ends without CR LF.");
      if (scanned_ - line_begin_ == 1) return head_end_ = scanned_ + 1, state_;
      line_begin_ = scanned_ + 1;
      if (++lines_ > limits_.fields + 1) return refuse(431, "header_too_large", "The request has too many fields.");
      continue;
    }
    const bool lone_cr = scanned_ > 0 && buffer[scanned_ - 1] == '\r';
    const bool folded = lines_ > 0 && scanned_ == line_begin_ && (c == ' ' || c == '\t');
    const bool control = (c < 0x20 && c != '\t' && c != '\r') || c == 0x7f;
    if (lone_cr || folded || control) return refuse(400, "bad_request", "The request's header is malformed.");
  }
  return state_;
}

HttpParser::State HttpParser::parse_head(std::string& buffer) {
  error_code ec;
  beast_->parser.put(boost::asio::buffer(buffer.data(), head_end_), ec);
  buffer.erase(0, head_end_);
  if (ec == http::error::body_limit) {
    return refuse(413, "body_too_large", "The request's body is too large.");
  }
  if (ec == http::error::header_limit) return refuse(431, "header_too_large", "The request's header is too large.");
  if ((ec && ec != http::error::need_more) || !beast_->parser.is_header_done()) {
    return refuse(400, "bad_request", "The request's header is malformed.");
  }
  const auto& head = beast_->parser.get();
  const std::string_view target(head.target().data(), head.target().size());
  const size_t question = target.find('?');
  request_.method = std::string(head.method_string());
  request_.path = std::string(target.substr(0, question));
  if (question != target.npos) request_.query = std::string(target.substr(question + 1));
  for (const auto& field : head) {
    request_.fields.push_back({std::string(field.name_string()), std::string(field.value())});
  }
  request_.http11 = head.version() == 11;
  request_.keep_alive = head.keep_alive();
  if (target.size() > limits_.target_bytes) return refuse(414, "uri_too_long", "The request's address is too long.");
  return check_head();
}

HttpParser::State HttpParser::check_head() {
  const size_t lengths = request_.count("content-length"), codings = request_.count("transfer-encoding");
  const size_t hosts = request_.count("host");
  std::string coding(request_.field("transfer-encoding"));
  std::transform(coding.begin(), coding.end(), coding.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string_view length = request_.field("content-length");
  const bool digits = std::all_of(length.begin(), length.end(), [](unsigned char c) { return std::isdigit(c); });
  if (lengths > 1 || (lengths && codings) || !digits || (lengths && length.empty())) {
    return refuse(400, "bad_request", "The length of the request's body is not clear.");
  }
  if (codings > 1 || (codings && (coding != "chunked" || !request_.http11))) {
    return refuse(400, "bad_request", "The request's transfer coding is not supported.");
  }
  if (hosts > 1 || (hosts == 0 && request_.http11)) return refuse(400, "bad_request", "The request needs one Host.");
  if (request_.path.empty() || (request_.path[0] != '/' && request_.path != "*")) {
    return refuse(400, "bad_request", "The request's address must be a path.");
  }
  std::string expect(request_.field("expect"));
  std::transform(expect.begin(), expect.end(), expect.begin(), [](unsigned char c) { return std::tolower(c); });
  if (!expect.empty() && expect != "100-continue") {
    return refuse(417, "expectation_failed", "The request's Expect field is not supported.");
  }
  request_.expects_continue = !expect.empty() && request_.http11;
  if (codings > 0) chunks_.emplace(limits_.body_bytes, std::min(limits_.head_bytes, kChunkLineBytes));
  // Beast has held the length to the limit; only digits are left.
  std::from_chars(length.data(), length.data() + length.size(), body_left_);
  request_.has_body = chunks_ || body_left_ > 0;
  return state_ = State::body;
}

HttpParser::State HttpParser::parse_body(std::string& buffer) {
  if (!chunks_) {
    const size_t taken = std::min(body_left_, buffer.size());
    request_.body.append(buffer, 0, taken);
    buffer.erase(0, taken);
    body_left_ -= taken;
    return state_ = body_left_ == 0 ? State::done : State::body;
  }
  switch (chunks_->advance(buffer, request_.body)) {
    case ChunkedDecoder::State::more:
      return state_;
    case ChunkedDecoder::State::done:
      return state_ = State::done;
    case ChunkedDecoder::State::too_large:
      return refuse(413, "body_too_large", "The request's body is too large.");
    case ChunkedDecoder::State::malformed:
      break;
  }
  return refuse(400, "bad_request", "The request's body is malformed.");
}

}  // namespace martlet::net
