#pragma once

// What a gateway's configuration file says, checked.

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "gateway/breaker.h"
#include "gateway/draft_rule.h"
#include "gateway/pressure.h"

namespace martlet::gateway {

enum class UpstreamKind { martlet, mlx_lm, llama_server, openai };
enum class Platform { linux_, macos };
enum class Accelerator { none, cuda, metal };

// What has to be true of this machine for an upstream to be used at all.
struct Conditions {
  std::optional<Platform> platform;
  std::optional<Accelerator> accelerator;
  int64_t memory = 0;  // bytes that this machine has at least, in all
};

struct UpstreamTimeouts {
  std::chrono::milliseconds connect{2'000};
  std::chrono::milliseconds first_byte{120'000};
  std::chrono::milliseconds between{60'000};
  std::chrono::milliseconds start{120'000};  // from its start until it answers probes
  std::chrono::milliseconds stop{10'000};    // from SIGTERM to SIGKILL
};

struct UpstreamConfig {
  int line = 0;      // where it begins in the file
  std::string name;  // [a-z0-9_-]+, unique
  UpstreamKind kind = UpstreamKind::openai;
  std::string serves = "default";    // the model name that clients ask for
  std::string model;                 // what the upstream calls it; kind martlet: a file, alias or reference
  std::string file;                  // the GGUF, or folder, that it runs, to compare by; may be empty
  bool gateway_tokenizes = false;    // it gets token ids, made with `file`
  std::vector<std::string> command;  // started and supervised; "{port}" stands for a free port
  bool tls = false;                  // `url` is https
  std::string tls_ca;                // PEM certificates to trust; empty: the system's
  std::string host;                  // of `url`
  uint16_t port = 0;                 // of `url`; 0: supervised or in-process
  std::string base;                  // path of `url` before "/v1", without a last "/"
  std::string api_key;               // shown to the upstream
  std::string health;                // path that probes ask
  int instances = 1;                 // processes of `command`
  int64_t memory = 0;                // declared peak of one instance in bytes; kind martlet: the engine's ceiling
  int32_t context = 0;               // tokens of prompt and answer; kind martlet: the engine's
  int concurrent = 32;               // requests at once, of each instance
  bool standby = false, bounded = true;
  std::vector<std::string> accepted_differences;  // names of parity findings; "all"
  std::vector<int64_t> warm_buckets;              // shapes exercised at start-up
  bool drafts = false;                            // it speculates ...
  int draft_length = 4;                           // tokens a step, to estimate by where answers do not report
  std::string drafts_off_field, drafts_off_json;  // ... unless this member of the body has this value
  std::chrono::milliseconds hedge_after{0};       // without a first byte, a second instance is asked too; 0: never
  Conditions when;
  UpstreamTimeouts timeouts;

  bool supervised() const { return !command.empty(); }
};

struct GatewayConfig {
  std::string path;
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::vector<std::string> api_keys, admin_keys;
  std::string log_dir;  // what supervised programs write
  int connections = 2048;
  size_t max_body = 16u << 20;
  int64_t memory_ceiling = 0;  // bytes for everything that the gateway starts; 0: cgroup, or the machine less a reserve
  size_t queue = 1024;
  std::chrono::milliseconds queue_time{60'000};
  std::string pressure_source = "system";  // or "file:PATH" with the share of memory taken
  PressureOptions pressure;
  BreakerOptions breaker;
  DraftOptions drafts;
  std::vector<UpstreamConfig> upstreams;
};

// Errors: ErrorKind::usage `bad_config` with "file:line" (an unknown key among them), ErrorKind::io.
// Keys of the form "env:NAME" are read from the environment.
Result<GatewayConfig> read_config(const std::string& path);
Result<GatewayConfig> parse_config(std::string_view text, const std::string& name);

const char* kind_name(UpstreamKind kind);
// The distinct `serves`, in the order of the file.
std::vector<std::string> served_models(const GatewayConfig& config);

}  // namespace martlet::gateway
