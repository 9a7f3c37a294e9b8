#pragma once

// What a socket that does not block has for us at this moment.

#include <string_view>

#include <boost/asio/ip/tcp.hpp>

namespace martlet::net {

inline constexpr size_t kReadNowBytes = 64u << 10;

struct Received {
  boost::system::error_code error;
  std::string_view bytes;  // empty with an error
  // All that was there has been taken: the next read need not try before it waits.
  bool drained() const { return !error && bytes.size() < kReadNowBytes; }
};

// At most kReadNowBytes, which are valid until the next wait of this thread: a thousand waiting connections share one
// buffer, which is filled and emptied between two waits.
Received read_now(boost::asio::ip::tcp::socket& socket);

// There is nothing to read, or no room to write, now.
bool would_block(boost::system::error_code error);

}  // namespace martlet::net
