#include "net/http_response_parser.h"

#include <gtest/gtest.h>

namespace martlet::net {
namespace {

using State = HttpResponseParser::State;

struct Outcome {
  State state = State::head;
  int status = 0;
  std::string body, rest;
  bool keep_alive = false;
};

// `bytes` in pieces of `cut`; `closed`: the peer closes after them.
Outcome parse(const std::string& bytes, size_t cut, bool closed = false) {
  HttpResponseParser parser;
  Outcome out;
  for (size_t at = 0; at < bytes.size() && out.state != State::malformed; at += cut) {
    out.rest += bytes.substr(at, cut);
    if (out.state != State::done) out.state = parser.advance(out.rest, out.body);
  }
  if (closed && out.state != State::malformed) out.state = parser.end_of_input();
  out.status = parser.head().status;
  out.keep_alive = parser.keep_alive();
  return out;
}

void expect_body(const std::string& bytes, bool closed, const std::string& body, bool keep_alive) {
  for (const size_t cut : {size_t{1}, size_t{3}, bytes.size()}) {
    const Outcome out = parse(bytes, cut, closed);
    EXPECT_EQ(out.state, State::done) << bytes;
    EXPECT_EQ(out.status, 200);
    EXPECT_EQ(out.body, body);
    EXPECT_EQ(out.keep_alive, keep_alive);
  }
}

TEST(HttpResponseParser, KnowsEveryWayInWhichABodyEnds) {
  expect_body("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, "hello", true);
  expect_body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", false, "hello",
              true);
  expect_body("HTTP/1.0 200 OK\r\n\r\nhello", true, "hello", false);
  expect_body("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, "", true);
  expect_body("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", false,
              "x", false);
}

TEST(HttpResponseParser, LeavesWhatFollowsAlone) {
  const Outcome out = parse("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP", 100);
  EXPECT_EQ(out.body, "x");
  EXPECT_EQ(out.rest, "HTTP");
}

TEST(HttpResponseParser, RefusesWhatIsUnclear) {
  for (const char* bytes : {
           "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
           "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
           "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n",
           "HTTP/1.1 101 Switching Protocols\r\n\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
           "220 smtp\r\n\r\n",
           "HTTP/1.1 2 OK\r\n\r\n",
       }) {
    EXPECT_EQ(parse(bytes, 1000).state, State::malformed) << bytes;
  }
}

TEST(HttpResponseParser, ABodyThatIsCutIsNoBody) {
  for (const char* bytes :
       {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "HTTP/1.1 200", ""}) {
    EXPECT_EQ(parse(bytes, 1000, true).state, State::malformed) << bytes;
  }
}

TEST(HttpResponseParser, BoundsTheHead) {
  EXPECT_EQ(parse("HTTP/1.1 200 OK\r\nX: " + std::string(70'000, 'x'), 1000).state, State::malformed);
}

}  // namespace
}  // namespace martlet::net
