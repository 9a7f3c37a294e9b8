#pragma once

// HTTP requests and responses as plain data: what handlers see. No HTTP library in sight.

#include <string>
#include <string_view>
#include <vector>

namespace martlet::net {

struct HttpField {
  std::string name;   // as sent
  std::string value;  // without surrounding blanks
};

struct HttpRequest {
  std::string id;      // ours, for logs and the answer's x-request-id: what a client sends by that name is not repeated
  std::string method;  // "POST"
  std::string path;    // "/v1/models", as sent: no percent decoding, so nothing can hide in an escape
  std::string query;   // what follows '?', without it
  std::vector<HttpField> fields;
  std::string body;
  bool http11 = true;             // false: HTTP/1.0, which knows no chunked answers
  bool keep_alive = true;         // the peer wants to reuse the connection
  bool expects_continue = false;  // waits for "100 Continue" before it sends the body
  bool has_body = false;

  // The first field of that name (any case); empty when absent.
  std::string_view field(std::string_view name) const;
  bool has(std::string_view name) const;
  size_t count(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<HttpField> fields;  // beyond content-type, content-length and connection
  bool close = false;             // end the connection after this answer
};

// `{"error":{"message","type","param","code"}}`. `message` is fixed words; an empty `param` becomes null.
std::string error_json(int status, std::string_view code, std::string_view message, std::string_view param = {});
HttpResponse error_response(int status, std::string_view code, std::string_view message, std::string_view param = {});

}  // namespace martlet::net
