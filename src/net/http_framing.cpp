#include "net/http_framing.h"

#include <fmt/format.h>

namespace martlet::net {
namespace {

struct Reason {
  int status;
  const char* phrase;
};

constexpr Reason kReasons[] = {
    {200, "OK"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {508, "Loop Detected"},
};

const char* reason(int status) {
  for (const Reason& row : kReasons) {
    if (row.status == status) return row.phrase;
  }
  return "";
}

}  // namespace

std::string response_head(const HttpResponse& response, Framing framing, bool keep_alive) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\ncontent-type: {}\r\n", response.status, reason(response.status),
                                response.content_type);
  if (framing == Framing::length) out += fmt::format("content-length: {}\r\n", response.body.size());
  if (framing == Framing::chunked) out += "transfer-encoding: chunked\r\n";
  for (const HttpField& field : response.fields) out += field.name + ": " + field.value + "\r\n";
  out += keep_alive ? "connection: keep-alive\r\n" : "connection: close\r\n";
  return out + "\r\n";
}

std::string chunk(std::string_view bytes) {
  std::string out = fmt::format("{:x}\r\n", bytes.size());
  out += bytes;
  return out += "\r\n";
}

}  // namespace martlet::net
