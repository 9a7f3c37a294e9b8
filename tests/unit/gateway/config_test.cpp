#include "gateway/config.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace martlet::gateway {
namespace {

constexpr const char* kGood = R"({
  // Comments are allowed.
  "listen": "127.0.0.1:9000",
  "memory_ceiling": "12GiB",
  "pressure": {"warning": 0.7, "critical": 0.9, "calm_ms": 5000},
  "upstreams": [
    {"name": "mlx", "kind": "mlx-lm", "model": "/m", "command": ["mlx_lm.server", "--port", "{port}"],
     "memory": "4GiB", "instances": 2, "when": {"platform": "macos", "accelerator": "metal"},
     "warm_buckets": [512, 1024]},
    {"name": "far", "kind": "openai", "model": "m", "url": "http://[::1]:81/base/v1/", "standby": true,
     "drafts": true, "drafts_off": {"speculation": "off"}}
  ]
})";

TEST(Config, ReadsEverything) {
  const auto config = parse_config(kGood, "g.json");
  ASSERT_TRUE(config) << config.error().line();
  EXPECT_EQ(config->port, 9000);
  EXPECT_EQ(config->memory_ceiling, int64_t{12} << 30);
  EXPECT_EQ(config->pressure.calm, std::chrono::seconds(5));
  ASSERT_EQ(config->upstreams.size(), 2u);
  const UpstreamConfig& mlx = config->upstreams[0];
  EXPECT_EQ(mlx.kind, UpstreamKind::mlx_lm);
  EXPECT_TRUE(mlx.supervised());
  EXPECT_FALSE(mlx.bounded) << "an MLX server's memory grows with its prompts";
  EXPECT_EQ(mlx.health, "/health");
  EXPECT_EQ(mlx.when.platform, Platform::macos);
  EXPECT_EQ(mlx.warm_buckets, (std::vector<int64_t>{512, 1024}));
  const UpstreamConfig& far = config->upstreams[1];
  EXPECT_EQ(far.host, "::1");
  EXPECT_EQ(far.port, 81);
  EXPECT_EQ(far.base, "/base");
  EXPECT_EQ(far.health, "/v1/models");
  EXPECT_EQ(far.drafts_off_json, "\"off\"");
  EXPECT_EQ(served_models(*config), std::vector<std::string>{"default"});
}

TEST(Config, AnHttpsUrlHasItsOwnPort) {
  const auto config = parse_config(
      R"({"upstreams": [{"name": "a", "kind": "openai", "model": "m", "url": "https://h/v1", "tls_ca": "ca.pem"}]})",
      "g");
  ASSERT_TRUE(config) << config.error().line();
  EXPECT_TRUE(config->upstreams[0].tls);
  EXPECT_EQ(config->upstreams[0].port, 443);
  EXPECT_EQ(config->upstreams[0].tls_ca, "ca.pem");
}

TEST(Config, TakesKeysFromTheEnvironment) {
  ::setenv("GATEWAY_TEST_KEY", "secret", 1);
  const char* text = R"({"api_keys": ["env:GATEWAY_TEST_KEY"],
    "upstreams": [{"name": "a", "kind": "openai", "model": "m", "url": "http://h"}]})";
  const auto config = parse_config(text, "g.json");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->api_keys, std::vector<std::string>{"secret"});
  ::unsetenv("GATEWAY_TEST_KEY");
  EXPECT_FALSE(parse_config(text, "g.json"));
}

TEST(Config, CommentsAreBlanksThatKeepTheirLines) {
  const auto config = parse_config(R"(/* over
    two lines */{"listen": "127.0.0.1:9000", // not "this"
    "upstreams": [{"name": "a", "kind": "openai", "model": "a /* \" // b", /**/ "url": "http://h"}]} // end)",
                                   "g.json");
  ASSERT_TRUE(config) << config.error().line();
  EXPECT_EQ(config->upstreams[0].model, "a /* \" // b");
  EXPECT_EQ(parse_config("/* one\ntwo */ {\n\"x\": 1}", "g.json").error().where, "g.json:3");
  EXPECT_FALSE(parse_config("{} /* no end", "g.json"));
  EXPECT_FALSE(parse_config("/*_d*//*_s\0\n}", "g.json"));
}

struct Bad {
  const char* text;
  int line;
  const char* says;
};

void PrintTo(const Bad& bad, std::ostream* out) {
  *out << bad.says;
}

class BadConfig : public testing::TestWithParam<Bad> {};

TEST_P(BadConfig, IsRefusedWithItsLine) {
  const auto config = parse_config(GetParam().text, "g.json");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, "bad_config");
  EXPECT_EQ(config.error().where, "g.json:" + std::to_string(GetParam().line));
  EXPECT_NE(config.error().text.find(GetParam().says), std::string::npos) << config.error().text;
}

#define UPSTREAM(rest) "{\"upstreams\": [\n{\"name\": \"a\", \"model\": \"m\",\n" rest "}]}"
INSTANTIATE_TEST_SUITE_P(
    All, BadConfig,
    testing::Values(
        Bad{"", 1, "not JSON"}, Bad{"{", 1, "not JSON"}, Bad{"{}\n{}", 2, "follows"}, Bad{"[]", 1, "object"},
        Bad{"{}", 1, "needs upstreams"}, Bad{"{\n\"x\": 1}", 2, "not known"},
        Bad{"{\"queue\": 1,\n\"queue\": 2}", 2, "twice"}, Bad{"{\"queue\":\n \"5\"}", 2, "queue: must be an integer"},
        Bad{"{\"queue\": 1e99}", 1, "integer"}, Bad{"{\"listen\": \"8080\"}", 1, "ADDRESS:PORT"},
        Bad{"{\"memory_ceiling\": \"12 parsecs\"}", 1, "bytes"}, Bad{"{\"api_keys\": [\"a b\"]}", 1, "printable"},
        Bad{UPSTREAM("\"kind\": \"vllm\""), 3, "must be one of"},
        Bad{UPSTREAM("\"url\": \"http://h\""), 2, "needs a kind"},
        Bad{UPSTREAM("\"kind\": \"openai\""), 2, "needs a url or a command"},
        Bad{UPSTREAM("\"kind\": \"openai\", \"url\": \"ftp://h\""), 3, "http or https"},
        Bad{UPSTREAM("\"kind\": \"openai\", \"url\": \"http://h\", \"tls_ca\": \"f\""), 3, "is for https"},
        Bad{UPSTREAM("\"kind\": \"openai\", \"url\": \"http://u@h\""), 3, "user name"},
        Bad{UPSTREAM("\"kind\": \"openai\", \"url\": \"http://h\", \"instances\": 2"), 3,
            "upstreams.instances: is for"},
        Bad{UPSTREAM("\"kind\": \"openai\", \"url\": \"http://h\", \"memory\": 2"), 3, "that the gateway starts"},
        Bad{UPSTREAM("\"kind\": \"openai\", \"url\": \"http://h\",\n\"timeouts\": {\"stop_ms\": 2}"), 4,
            "timeouts.stop_ms"},
        Bad{UPSTREAM("\"kind\": \"martlet\", \"api_key\": \"k\""), 3, "needs none"},
        Bad{UPSTREAM("\"kind\": \"openai\", \"url\": \"http://h\", \"context\": -1"), 3, "upstreams.context: must be"},
        Bad{UPSTREAM("\"kind\": \"martlet\", \"instances\": 2"), 3, "upstreams.instances"},
        Bad{UPSTREAM("\"kind\": \"mlx-lm\", \"memory\": 1, \"command\": [\"x\"]"), 2, "{port}"},
        Bad{UPSTREAM("\"kind\": \"mlx-lm\", \"command\": [\"x\", \"{port}\"]"), 2, "needs memory"},
        Bad{UPSTREAM("\"kind\": \"openai\", \"url\": \"http://h\", \"warm_buckets\": [600]"), 3, "power of two"},
        Bad{UPSTREAM("\"kind\": \"openai\", \"url\": \"http://h\", \"gateway_tokenizes\": true"), 2, "needs file"},
        Bad{UPSTREAM("\"kind\": \"openai\", \"url\": \"http://h\", \"file\": \"f\", \"gateway_tokenizes\": true"), 2,
            "needs context"},
        Bad{UPSTREAM("\"kind\": \"mlx-lm\", \"url\": \"http://h\", \"gateway_tokenizes\": true"), 2, "takes text only"},
        Bad{UPSTREAM("\"kind\": \"martlet\", \"gateway_tokenizes\": true"), 2, "from its own file"},
        Bad{"{\"pressure\": {\"warning\": 0.9, \"critical\": 0.5},\n\"upstreams\": [{\"name\": \"a\", \"model\": "
            "\"m\", "
            "\"kind\": \"openai\", \"url\": \"http://h\"}]}",
            1, "above"}));

}  // namespace
}  // namespace martlet::gateway
