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

void add_head_line(std::string& head, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) head += part;
  head += "\r\n";
}

std::string response_head(const HttpResponse& response, Framing framing, bool keep_alive) {
  std::string out;
  out.reserve(kUsualHeadBytes);
  const auto line = [&](std::initializer_list<std::string_view> parts) { add_head_line(out, parts); };
  line({"HTTP/1.1 ", std::to_string(response.status), " ", reason(response.status)});
  line({"content-type: ", response.content_type});
  if (framing == Framing::length) line({"content-length: ", std::to_string(response.body.size())});
  if (framing == Framing::chunked) line({"transfer-encoding: chunked"});
  for (const HttpField& field : response.fields) line({field.name, ": ", field.value});
  line({keep_alive ? "connection: keep-alive" : "connection: close"});
  line({});
  return out;
}

std::string chunk(std::string_view bytes) {
  std::string out = fmt::format("{:x}\r\n", bytes.size());
  out += bytes;
  return out += "\r\n";
}

}  // namespace martlet::net
