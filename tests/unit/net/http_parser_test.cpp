#include "net/http_parser.h"

#include <gtest/gtest.h>

namespace martlet::net {
namespace {

struct Parsed {
  HttpParser::State state;
  int status = 0;
  HttpRequest request;
  std::string rest;
};

// Feeds `bytes` in pieces of `step`, as a network may.
Parsed parse(const std::string& bytes, size_t step, const HttpParserLimits& limits = {}) {
  HttpParser parser(limits);
  std::string buffer;
  for (size_t i = 0; i < bytes.size(); i += step) {
    buffer += bytes.substr(i, step);
    const auto before = parser.state();
    parser.advance(buffer);
    if (before == HttpParser::State::head && parser.state() == HttpParser::State::body) parser.advance(buffer);
    if (parser.state() == HttpParser::State::refused) return {parser.state(), parser.refusal().status, {}, buffer};
    if (parser.state() == HttpParser::State::done) {
      return {parser.state(), 0, parser.request(), buffer + bytes.substr(std::min(bytes.size(), i + step))};
    }
  }
  return {parser.state()};
}

int refusal(const std::string& bytes) {
  const int whole = parse(bytes, bytes.size()).status, single = parse(bytes, 1).status;
  EXPECT_EQ(whole, single);
  return whole;
}

const std::string kPost = "POST /x HTTP/1.1\r\nHost: a\r\n";

TEST(HttpParser, ReadsARequestInPiecesOfAnySize) {
  const std::string bytes = "POST /v1/x?y=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET";
  for (const size_t step : {size_t{1}, size_t{7}, bytes.size()}) {
    const Parsed parsed = parse(bytes, step);
    ASSERT_EQ(parsed.state, HttpParser::State::done);
    EXPECT_EQ(parsed.request.method, "POST");
    EXPECT_EQ(parsed.request.path, "/v1/x");
    EXPECT_EQ(parsed.request.query, "y=1");
    EXPECT_EQ(parsed.request.body, "hello");
    EXPECT_EQ(parsed.rest, "GET");
    EXPECT_TRUE(parsed.request.keep_alive);
  }
}

TEST(HttpParser, SkipsEmptyLinesBeforeARequest) {
  for (const size_t step : {size_t{1}, size_t{100}}) {
    EXPECT_EQ(parse("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", step).state, HttpParser::State::done);
    EXPECT_EQ(parse("\r\n@\n", step).state, HttpParser::State::refused);
  }
}

TEST(HttpParser, ReadsChunks) {
  const std::string bytes = kPost + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
  for (const size_t step : {size_t{1}, bytes.size()}) {
    const Parsed parsed = parse(bytes, step);
    ASSERT_EQ(parsed.state, HttpParser::State::done);
    EXPECT_EQ(parsed.request.body, "abcde");
  }
}

TEST(HttpParser, ReadsChunkExtensionsAndTrailersAndDropsThem) {
  const std::string head = kPost + "Transfer-Encoding: chunked\r\n\r\n";
  const std::string body = "03;a=b;c=\"d e\"\r\nabc\r\n00 ;x\r\nX-Sum: 1\r\n\r\nGET";
  for (const size_t step : {size_t{1}, size_t{9}, size_t{1000}}) {
    const Parsed parsed = parse(head + body, step);
    ASSERT_EQ(parsed.state, HttpParser::State::done);
    EXPECT_EQ(parsed.request.body, "abc");
    EXPECT_EQ(parsed.rest, "GET");
  }
}

TEST(HttpFaults, D6_HeaderLimits) {
  std::string many = kPost;
  for (int i = 0; i < 101; ++i) many += "X-" + std::to_string(i) + ": y\r\n";
  EXPECT_EQ(refusal(many + "\r\n"), 431);
  EXPECT_EQ(refusal(kPost + "X: " + std::string(65 << 10, 'y') + "\r\n\r\n"), 431);
  EXPECT_EQ(refusal("GET /" + std::string(8 << 10, 'x') + " HTTP/1.1\r\nHost: a\r\n\r\n"), 414);
  const Parsed fits = parse("GET /" + std::string((8 << 10) - 1, 'x') + " HTTP/1.1\r\nHost: a\r\n\r\n", 1000);
  EXPECT_EQ(fits.state, HttpParser::State::done);
}

TEST(HttpFaults, D6_BodyLimitIsRefusedBeforeTheBodyIsRead) {
  HttpParserLimits limits;
  limits.body_bytes = 10;
  EXPECT_EQ(parse(kPost + "Content-Length: 11\r\n\r\n", 1, limits).status, 413);
  EXPECT_EQ(parse(kPost + "Content-Length: 99999999999999999999\r\n\r\n", 1, limits).state, HttpParser::State::refused);
  EXPECT_EQ(parse(kPost + "Transfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n0\r\n\r\n", 1, limits).status, 413);
  EXPECT_EQ(parse(kPost + "Content-Length: 10\r\n\r\n0123456789", 1, limits).state, HttpParser::State::done);
}

TEST(HttpFaults, D7_ChunkSizes) {
  const std::string head = kPost + "Transfer-Encoding: chunked\r\n\r\n";
  for (const char* chunk :
       {"-2\r\nab\r\n0\r\n\r\n", "FFFFFFFFFFFFFFFF\r\nab\r\n", "FFFFFFFFFFFFFFFFF\r\nab\r\n", "0x3\r\nabc\r\n0\r\n\r\n",
        "zz\r\n\r\n", " 3\r\nabc\r\n0\r\n\r\n", "+3\r\nabc\r\n0\r\n\r\n", "3\nabc\r\n0\r\n\r\n", "3\r\nabc\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n", "3;a=\"b\r\nabc\"\n0\r\n\r\n", "3 a\r\nabc\r\n0\r\n\r\n",
        "3;\x01\r\nabc\r\n0\r\n\r\n", "0\r\nX\x7f: y\r\n\r\n", "\r\n\r\n", "3\r\nabc\rX0\r\n\r\n"}) {
    const int status = refusal(head + chunk);
    EXPECT_TRUE(status == 400 || status == 413) << chunk << " " << status;
  }
  EXPECT_EQ(refusal(head + "FFFFFFFFFFFFFFFFF\r\nab\r\n"), 400) << "no number of 64 bits";
  EXPECT_EQ(refusal(head + "3;" + std::string(9 << 10, 'x')), 400);
  EXPECT_EQ(refusal(head + "0\r\n" + std::string(5 << 10, 'x') + "\r\n" + std::string(5 << 10, 'x')), 400);
}

TEST(HttpFaults, D7_AmbiguousLengths) {
  for (const char* fields :
       {"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        "Content-Length: 3\r\nContent-Length: 3\r\n", "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 3, 3\r\n", "Content-Length: +3\r\n", "Content-Length: -3\r\n", "Content-Length: 0x3\r\n",
        "Content-Length:\r\n", "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: identity\r\n", "Transfer-Encoding: xchunked\r\n", "Transfer-Encoding : chunked\r\n"}) {
    EXPECT_EQ(refusal(kPost + fields + "\r\nabc"), 400) << fields;
  }
}

TEST(HttpFaults, D7_LinesEndWithCrLf) {
  for (const char* bytes :
       {"GET / HTTP/1.1\nHost: a\n\n", "GET / HTTP/1.1\r\nHost: a\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n X: folded\r\n\r\n"}) {
    EXPECT_EQ(refusal(bytes), 400) << bytes;
  }
  EXPECT_EQ(refusal(std::string("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 29)), 400);
}

TEST(HttpFaults, D7_Hosts) {
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  EXPECT_EQ(refusal("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(refusal("GET / HTTP/3.0\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(parse("GET / HTTP/1.0\r\n\r\n", 1).state, HttpParser::State::done);
}

TEST(HttpFaults, D7_EmptyForwardedForIsIgnored) {
  EXPECT_EQ(parse("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For:\r\n\r\n", 1).state, HttpParser::State::done);
}

}  // namespace
}  // namespace martlet::net
