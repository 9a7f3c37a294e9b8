// HTTP requests as a network delivers them: the first byte says into how large pieces the rest is cut. However it is
// cut, the verdict must be the same, and a request that was accepted must obey the limits.

#include <cstdlib>
#include <string>

#include "net/http_parser.h"

namespace {

using martlet::net::HttpParser;

struct Verdict {
  HttpParser::State state = HttpParser::State::head;
  std::string body;
  size_t fields = 0;
};

Verdict parse(std::string_view bytes, size_t step, const martlet::net::HttpParserLimits& limits) {
  HttpParser parser(limits);
  std::string buffer;
  for (size_t at = 0; at < bytes.size(); at += step) {
    buffer += bytes.substr(at, step);
    for (auto before = HttpParser::State::refused; before != parser.state();) {
      before = parser.state();
      parser.advance(buffer);
    }
    if (parser.state() == HttpParser::State::refused) return {parser.state(), {}, 0};
    if (parser.state() == HttpParser::State::done) {
      return {parser.state(), parser.request().body, parser.request().fields.size()};
    }
  }
  return {parser.state(), {}, 0};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  martlet::net::HttpParserLimits limits;
  limits.head_bytes = 2048;
  limits.fields = 10;
  limits.target_bytes = 200;
  limits.body_bytes = 500;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Verdict pieces = parse(bytes, data[0] % 64 + 1, limits), whole = parse(bytes, bytes.size() + 1, limits);
  if (pieces.state != whole.state || pieces.body != whole.body) std::abort();
  if (whole.body.size() > limits.body_bytes || whole.fields > limits.fields) std::abort();
  return 0;
}
