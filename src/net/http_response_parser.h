#pragma once

// One HTTP/1.x answer from bytes, without any I/O: the client's side of http_parser.h, as strict about what two parsers
// might read differently. The body is handed on as it comes, so an answer costs no more memory than one read.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/chunked.h"
#include "net/http_message.h"

namespace martlet::net {

struct HttpAnswerHead {
  int status = 0;
  std::vector<HttpField> fields;
  std::string_view field(std::string_view name) const;  // the first of that name (any case); empty when absent
};

class HttpResponseParser {
 public:
  enum class State {
    head,       // more bytes are needed before the head is complete
    body,       // the head is known; more bytes of the body are to come
    done,       // the whole answer is known
    malformed,  // these bytes are no HTTP answer, or one whose length is unclear
  };

  // Takes bytes from the front of `buffer` and appends those of the body to `body`. A head larger than 64 KiB is
  // malformed; answers with status 1xx are skipped.
  State advance(std::string& buffer, std::string& body);
  // The peer has closed its side: done when that is how this body ends, malformed otherwise.
  State end_of_input();
  const HttpAnswerHead& head() const { return head_; }  // from State::body on
  bool keep_alive() const { return keep_alive_; }       // the connection may serve another request after this answer

 private:
  State parse_head(std::string& buffer);
  State choose_framing(bool http11);

  State state_ = State::head;
  HttpAnswerHead head_;
  std::optional<ChunkedDecoder> chunks_;
  std::optional<uint64_t> left_;  // of a body whose length was announced; neither this nor chunks: until the close
  bool keep_alive_ = false;
};

}  // namespace martlet::net
