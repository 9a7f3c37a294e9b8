#pragma once

// The chunked transfer coding (RFC 9112, 7.1) of one body, read to the letter and however the network cuts it. Chunk
// extensions and trailer fields are checked for their bytes and thrown away, as the RFC allows.

#include <string>
#include <string_view>

namespace martlet::net {

class ChunkedDecoder {
 public:
  enum class State {
    more,       // more bytes are needed
    done,       // the last chunk and its trailer have been read
    malformed,  // the bytes are no chunked body
    too_large,  // the body would exceed its limit
  };

  // `body_bytes` bounds the decoded body; `line_bytes` one chunk's size line, and the whole trailer.
  ChunkedDecoder(size_t body_bytes, size_t line_bytes) : body_bytes_(body_bytes), line_bytes_(line_bytes) {}

  // Takes from the front of `buffer` what it understands, appending the chunks' bytes to `body`. Bytes after the body
  // stay in `buffer`. Not to be called again once it has answered anything but State::more.
  State advance(std::string& buffer, std::string& body);

 private:
  enum class Part { size_line, data, data_end, trailer };
  State take_line(std::string_view line, size_t body_size);
  State size_line(std::string_view line, size_t body_size);

  size_t body_bytes_, line_bytes_;
  size_t trailer_bytes_ = 0;
  size_t chunk_left_ = 0;
  Part part_ = Part::size_line;
};

}  // namespace martlet::net
