// Request bodies: the JSON of every route, from bytes to checked parameters. Whatever comes out of an error must be
// fit to send: a status, and a message that is valid UTF-8.

#include <cstdlib>

#include "base/utf8.h"
#include "server/api_request.h"
#include "server/error_response.h"
#include "server/json_body.h"

namespace {

void check(const martlet::Error& error) {
  const martlet::net::HttpResponse response = martlet::server::error_response(error);
  if (response.status < 400 || response.status > 599 || !martlet::utf8::valid(response.body)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace martlet::server;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const Endpoint endpoint : {Endpoint::chat, Endpoint::text}) {
    auto parsed = parse_json_body(body);
    if (!parsed) return check(parsed.error()), 0;
    const auto request = parse_api_request(std::move(*parsed), endpoint, {.template_kwargs = true});
    if (!request) check(request.error());
  }
  return 0;
}
