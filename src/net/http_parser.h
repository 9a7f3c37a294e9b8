#pragma once

// One HTTP/1.x request from bytes, without any I/O: Beast's parser for the head, behind the stricter rules of a server
// that faces strangers. What two parsers on a path might read differently (bare LF, two lengths, length and chunks) is
// refused.

#include <memory>
#include <optional>
#include <string>

#include "net/chunked.h"
#include "net/http_message.h"

namespace martlet::net {

struct HttpParserLimits {
  size_t head_bytes = 64u << 10;   // request line and fields; beyond: 431
  size_t fields = 100;             // beyond: 431
  size_t target_bytes = 8u << 10;  // beyond: 414
  size_t body_bytes = 16u << 20;   // beyond: 413, before the body is read when its length is announced
};

class HttpParser {
 public:
  enum class State {
    head,     // more bytes are needed before the head is complete
    body,     // the head is known (request() without its body); more bytes are needed
    done,     // the whole request is known
    refused,  // refusal() says why; the connection must be closed after it
  };

  explicit HttpParser(const HttpParserLimits& limits);
  ~HttpParser();
  HttpParser(const HttpParser&) = delete;
  HttpParser& operator=(const HttpParser&) = delete;

  // Takes bytes from the front of `buffer` as far as it goes. Stops once at State::body before any byte of the body is
  // taken, so that the caller may refuse the request by its head. Bytes after the request stay in `buffer`.
  State advance(std::string& buffer);
  State state() const { return state_; }

  // Valid from State::body on; the body is filled at State::done.
  HttpRequest& request() { return request_; }
  const HttpResponse& refusal() const { return refusal_; }

 private:
  struct Beast;
  State refuse(int status, std::string_view code, std::string_view message);
  State scan_head(const std::string& buffer);
  State parse_head(std::string& buffer);
  State check_head();
  State parse_body(std::string& buffer);

  HttpParserLimits limits_;
  State state_ = State::head;
  size_t scanned_ = 0;  // bytes of the head that scan_head has seen
  size_t line_begin_ = 0;
  size_t lines_ = 0;
  size_t head_end_ = 0;                   // length of the head once it is complete
  std::optional<ChunkedDecoder> chunks_;  // of a chunked body
  size_t body_left_ = 0;                  // of a body whose length was announced
  HttpRequest request_;
  HttpResponse refusal_;
  std::unique_ptr<Beast> beast_;
};

}  // namespace martlet::net
