#pragma once

// A connection to a server: a socket, or TLS on one. Everything here runs on the one thread of its io_context.

#include <array>
#include <memory>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/error.h"
#include "net/read_now.h"

namespace martlet::net {

// Whom connections through TLS trust. At least TLS 1.2, and never without a certificate that is valid for the host.
class TlsClient {
 public:
  // `ca_file`: PEM certificates to trust; empty: those that the system trusts. Errors: ErrorKind::io, "bad_ca_file".
  static Result<std::shared_ptr<TlsClient>> create(const std::string& ca_file);
  ~TlsClient();

 private:
  friend class Wire;
  struct State;
  explicit TlsClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class Wire {
 public:
  explicit Wire(boost::asio::io_context& io);
  ~Wire();

  boost::asio::ip::tcp::socket& socket() { return socket_; }
  // Begins TLS on the connected socket: no error once `host`, a name or an IP address, has shown its certificate.
  boost::asio::awaitable<boost::system::error_code> secure(TlsClient& client, const std::string& host);
  using Parts = std::array<boost::asio::const_buffer, 2>;
  // Writes what can be written without waiting, and returns what is left: nothing also where no more can be written at
  // all, which the next read shows.
  Parts write_now(Parts parts);
  boost::asio::awaitable<boost::system::error_code> write(Parts parts);
  // What came; nothing and no error: ask again. The bytes are valid until the next wait of this thread.
  boost::asio::awaitable<Received> read();
  // The peer has neither spoken nor hung up.
  bool is_quiet();
  void close();

 private:
  struct Tls;
  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<Tls> tls_;  // null: plain
  bool drained_ = false;      // the last read took all that there was: the next one need not try before it waits
};

}  // namespace martlet::net
