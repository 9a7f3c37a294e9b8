#include "net/download.h"

#include <gtest/gtest.h>

namespace martlet {
namespace {

TEST(Address, F7_ClassOfLiterals) {
  const auto reach = [](const char* host) { return classify_literal(host); };
  for (const char* host : {"127.0.0.1", "127.255.0.9", "::1", "[::1]", "::ffff:127.0.0.1", "64:ff9b::7f00:1"})
    EXPECT_EQ(reach(host), AddressClass::loopback) << host;
  for (const char* host : {"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fd00::1",
                           "::ffff:10.0.0.1", "2002:0a00:0001::1"})
    EXPECT_EQ(reach(host), AddressClass::private_network) << host;
  for (const char* host :
       {"169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "fe80::1", "[fe80::1%25eth0]", "ff02::1"})
    EXPECT_EQ(reach(host), AddressClass::special) << host;
  for (const char* host : {"1.1.1.1", "172.32.0.1", "172.15.0.1", "2606:4700::1111", "example.org", ""})
    EXPECT_EQ(reach(host), AddressClass::public_internet) << host;
}

TEST(Url, Origins) {
  EXPECT_EQ(origin_of("https://Hub.Example/a/b?c"), "https://hub.example:443");
  EXPECT_EQ(origin_of("http://127.0.0.1:8080"), "http://127.0.0.1:8080");
  EXPECT_NE(origin_of("https://hub.example"), origin_of("http://hub.example"));
  EXPECT_NE(origin_of("https://hub.example"), origin_of("https://hub.example:444"));
  EXPECT_NE(origin_of("https://hub.example"), origin_of("https://hub.example.evil.test"));
  for (const char* bad : {"file:///etc/passwd", "ftp://x/", "https://user@hub.example/", "", "hub.example", "//x"})
    EXPECT_EQ(origin_of(bad), "") << bad;
  EXPECT_EQ(origin_of("http://2130706433/"), "http://127.0.0.1:80") << "a number is an address too";
}

TEST(Url, JoinsLocations) {
  EXPECT_EQ(join_url("https://a.test/x/y", "/z?q=1"), "https://a.test/z?q=1");
  EXPECT_EQ(join_url("https://a.test/x/y", "https://b.test/"), "https://b.test/");
  EXPECT_EQ(join_url("https://a.test/x/y", "//b.test/p"), "https://b.test/p");
}

TEST(Url, EncodesPaths) {
  EXPECT_EQ(encode_path("a b/c#?%d.gguf"), "a%20b/c%23%3F%25d.gguf");
}

TEST(Endpoint, RefusesWhatWouldLeak) {
  EXPECT_EQ(Endpoint::create("ftp://x", "").error().code, "bad_endpoint");
  EXPECT_EQ(Endpoint::create("https://u:p@x", "").error().code, "bad_endpoint");
  EXPECT_EQ(Endpoint::create("https://x", "a\r\nX-Evil: 1").error().code, "bad_token");
  EXPECT_TRUE(Endpoint::create("https://x", "hf_abc"));
}

}  // namespace
}  // namespace martlet
