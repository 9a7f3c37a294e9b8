#include "net/wire.h"

#include <algorithm>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace martlet::net {

// As in http_connection.cpp: every co_await stands alone in its statement (g++ 12).

namespace asio = boost::asio;
namespace ssl = asio::ssl;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr size_t kRecordSize = 16u << 10;  // the most that one record of TLS holds

}  // namespace

struct TlsClient::State {
  ssl::context context{ssl::context::tls_client};
};

TlsClient::TlsClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
TlsClient::~TlsClient() = default;

Result<std::shared_ptr<TlsClient>> TlsClient::create(const std::string& ca_file) {
  auto state = std::make_unique<State>();
  ssl::context& context = state->context;
  error_code error;
  context.set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1, error);
  if (!error) context.set_verify_mode(ssl::verify_peer, error);
  if (!error && ca_file.empty()) context.set_default_verify_paths(error);
  if (!error && !ca_file.empty()) context.load_verify_file(ca_file, error);
  if (error) return Error{ErrorKind::io, "bad_ca_file", "the certificates to trust cannot be read", ca_file};
  return std::shared_ptr<TlsClient>(new TlsClient(std::move(state)));
}

struct Wire::Tls {
  Tls(tcp::socket& socket, ssl::context& context) : stream(socket, context) {}
  ssl::stream<tcp::socket&> stream;
  // Of its own: a record may be half there while others are read.
  std::array<char, kRecordSize> bytes;
};

Wire::Wire(asio::io_context& io) : socket_(io) {}
Wire::~Wire() = default;

asio::awaitable<error_code> Wire::secure(TlsClient& client, const std::string& host) {
  tls_ = std::make_unique<Tls>(socket_, client.state_->context);
  error_code error;
  asio::ip::make_address(host, error);
  const bool is_name = error.failed();
  SSL* handle = tls_->stream.native_handle();
  if (is_name && SSL_set_tlsext_host_name(handle, host.c_str()) != 1) co_return asio::error::invalid_argument;
  tls_->stream.set_verify_callback(ssl::host_name_verification(host), error);
  if (error) co_return error;
  const auto [shaken] = co_await tls_->stream.async_handshake(ssl::stream_base::client, kTuple);
  co_return shaken;
}

Wire::Parts Wire::write_now(Parts parts) {
  if (tls_) return parts;
  error_code error;
  size_t sent = socket_.write_some(parts, error);
  if (error && !would_block(error)) return {};
  for (asio::const_buffer& part : parts) {
    const size_t of_this = std::min(sent, part.size());
    part += of_this;
    sent -= of_this;
  }
  return parts;
}

asio::awaitable<error_code> Wire::write(Parts parts) {
  if (tls_) {
    const auto [error, size] = co_await asio::async_write(tls_->stream, parts, kTuple);
    co_return error;
  }
  const auto [error, size] = co_await asio::async_write(socket_, parts, kTuple);
  co_return error;
}

asio::awaitable<Received> Wire::read() {
  if (tls_) {
    const auto [error, size] = co_await tls_->stream.async_read_some(asio::buffer(tls_->bytes), kTuple);
    co_return Received{error, {tls_->bytes.data(), size}};
  }
  Received received;
  if (!drained_) received = read_now(socket_);
  if (drained_ || would_block(received.error)) {
    const auto [waited] = co_await socket_.async_wait(tcp::socket::wait_read, kTuple);
    received = waited ? Received{waited, {}} : read_now(socket_);
  }
  drained_ = received.drained();
  if (would_block(received.error)) received = {};
  co_return received;
}

bool Wire::is_quiet() {
  if (tls_) {
    // What came with the last record is not in the socket any more.
    SSL* handle = tls_->stream.native_handle();
    if (SSL_has_pending(handle) == 1 || BIO_ctrl_pending(SSL_get_rbio(handle)) > 0) return false;
  }
  char byte;
  error_code error;
  socket_.receive(asio::buffer(&byte, 1), asio::socket_base::message_peek, error);
  return would_block(error);
}

void Wire::close() {
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace martlet::net
