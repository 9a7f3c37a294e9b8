#include "net/read_now.h"

#include <array>

#include <boost/asio/buffer.hpp>

namespace martlet::net {

namespace asio = boost::asio;

Received read_now(asio::ip::tcp::socket& socket) {
  static thread_local std::array<char, kReadNowBytes> bytes;
  Received out;
  const size_t size = socket.read_some(asio::buffer(bytes), out.error);
  if (!out.error) out.bytes = {bytes.data(), size};
  return out;
}

bool would_block(boost::system::error_code error) {
  return error == asio::error::would_block || error == asio::error::try_again;
}

}  // namespace martlet::net
