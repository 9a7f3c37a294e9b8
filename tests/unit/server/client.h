#pragma once

// A blocking HTTP client of a few lines for tests: raw bytes out, everything back until the server closes.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <string>

#include <boost/json/parse.hpp>

namespace martlet::server {

class Client {
 public:
  explicit Client(uint16_t port, int timeout_s = 10) {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    timeval timeout{timeout_s, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  ~Client() { close(); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void reset() {
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  void send(const std::string& bytes) {
    [[maybe_unused]] auto n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Until the server closes, or `enough` is there.
  std::string receive(const std::string& enough = {}) {
    std::string out;
    char buffer[4096];
    while (enough.empty() || out.find(enough) == out.npos) {
      const auto n = ::recv(fd_, buffer, sizeof buffer, 0);
      if (n <= 0) break;
      out.append(buffer, static_cast<size_t>(n));
    }
    return out;
  }

 private:
  int fd_ = -1;
};

struct Answer {
  int status = 0;
  std::string head, body;
  boost::json::value json() const { return boost::json::parse(body); }
  // Value at "a/b/0/c", or null.
  boost::json::value at(std::string_view pointer) const {
    boost::json::error_code ec;
    const boost::json::value value = json();
    const boost::json::value* found = value.find_pointer(pointer, ec);
    return found ? *found : boost::json::value();
  }
};

inline std::string dechunk(const std::string& body) {
  std::string out;
  for (size_t at = 0; at < body.size();) {
    const size_t size = std::stoul(body.substr(at), nullptr, 16);
    if (size == 0) break;
    at = body.find("\r\n", at) + 2;
    out += body.substr(at, size);
    at += size + 2;
  }
  return out;
}

inline Answer parse_answer(const std::string& bytes) {
  Answer out;
  const size_t end = bytes.find("\r\n\r\n");
  if (end == bytes.npos || bytes.size() < 12) return out;
  out.head = bytes.substr(0, end + 2);
  out.body = bytes.substr(end + 4);
  out.status = std::stoi(bytes.substr(9, 3));
  if (out.head.find("transfer-encoding: chunked") != out.head.npos) out.body = dechunk(out.body);
  return out;
}

inline std::string request_bytes(const std::string& method, const std::string& path, const std::string& body = {},
                                 const std::string& fields = {}) {
  std::string out = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + fields;
  if (!body.empty()) {
    out += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    if (fields.find("Content-Type") == fields.npos) out += "Content-Type: application/json\r\n";
  }
  return out + "\r\n" + body;
}

inline Answer ask(uint16_t port, const std::string& method, const std::string& path, const std::string& body = {},
                  const std::string& fields = {}) {
  Client client(port);
  client.send(request_bytes(method, path, body, fields));
  return parse_answer(client.receive());
}

}  // namespace martlet::server
