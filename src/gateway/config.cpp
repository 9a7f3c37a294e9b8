#include "gateway/config.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include <boost/json/serialize.hpp>

#include "gateway/config_file.h"
#include "gateway/config_keys.h"
#include "net/download.h"

namespace martlet::gateway {
namespace {

using namespace keys;

// "host:port", "[v6]:port"
Status read_listen(const ConfigNode& node, const Place& place, GatewayConfig& out) {
  MARTLET_ASSIGN(const std::string text, text_of(node, place));
  const size_t colon = text.rfind(':');
  const Error error = place.error("must be ADDRESS:PORT, such as 127.0.0.1:8080");
  if (colon == text.npos || colon == 0) return error;
  out.host = text.substr(0, colon);
  if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']') {
    out.host = out.host.substr(1, out.host.size() - 2);
  }
  const auto [end, ec] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), out.port);
  if (ec != std::errc{} || end != text.data() + text.size()) return error;
  return {};
}

// Takes "https://host:port/prefix/v1" apart.
Status read_url(const ConfigNode& node, const Place& place, UpstreamConfig& out) {
  MARTLET_ASSIGN(const std::string text, text_of(node, place));
  const std::string origin = origin_of(text);  // "http://host:port"
  if (origin.empty()) return place.error("must be an http or https URL without a user name");
  out.tls = origin.starts_with("https:");
  const size_t slashes = origin.find("//") + 2, colon = origin.rfind(':');
  out.host = origin.substr(slashes, colon - slashes);
  if (out.host.starts_with('[')) out.host = out.host.substr(1, out.host.size() - 2);
  out.port = static_cast<uint16_t>(std::stoi(origin.substr(colon + 1)));
  const size_t path = text.find('/', text.find("//") + 2);
  out.base = path == text.npos ? "" : text.substr(path);
  if (out.base.find_first_of("?#") != out.base.npos) return place.error("must not have a query or a fragment");
  while (out.base.ends_with('/')) out.base.pop_back();
  if (out.base.ends_with("/v1")) out.base.resize(out.base.size() - 3);
  return {};
}

// {"field": value}: one member that the body of a request shall have.
Status read_drafts_off(const ConfigNode& node, const Place& place, UpstreamConfig& out) {
  if (!node.object() || node.object()->size() != 1 || !node.object()->front().scalar()) {
    return place.error("must be an object with one member, whose value is no object or array");
  }
  const ConfigNode& member = node.object()->front();
  out.drafts_off_field = member.name;
  out.drafts_off_json = boost::json::serialize(*member.scalar());
  return {};
}

Result<int64_t> bucket(const ConfigNode& node, const Place& place) {
  MARTLET_ASSIGN(const int64_t tokens, integer_of(node, place, 512, 1 << 20));
  if ((tokens & (tokens - 1)) != 0) return place.error("must be a power of two from 512");
  return tokens;
}

const std::vector<Key<UpstreamTimeouts>> kTimeoutKeys = {
    {"connect_ms", milliseconds(&UpstreamTimeouts::connect, 1)},
    {"first_byte_ms", milliseconds(&UpstreamTimeouts::first_byte, 1)},
    {"between_ms", milliseconds(&UpstreamTimeouts::between, 1)},
    {"start_ms", milliseconds(&UpstreamTimeouts::start, 1)},
    {"stop_ms", milliseconds(&UpstreamTimeouts::stop, 0)},
};

const std::vector<std::pair<const char*, Platform>> kPlatforms = {{"linux", Platform::linux_},
                                                                  {"macos", Platform::macos}};
const std::vector<std::pair<const char*, Accelerator>> kAccelerators = {
    {"none", Accelerator::none}, {"cuda", Accelerator::cuda}, {"metal", Accelerator::metal}};
const std::vector<std::pair<const char*, UpstreamKind>> kKinds = {{"martlet", UpstreamKind::martlet},
                                                                  {"mlx-lm", UpstreamKind::mlx_lm},
                                                                  {"llama-server", UpstreamKind::llama_server},
                                                                  {"openai", UpstreamKind::openai}};

const std::vector<Key<Conditions>> kConditionKeys = {
    {"platform", choice(&Conditions::platform, kPlatforms)},
    {"accelerator", choice(&Conditions::accelerator, kAccelerators)},
    {"memory_at_least", bytes(&Conditions::memory)},
};

const std::vector<Key<UpstreamConfig>> kUpstreamKeys = {
    {"name", text(&UpstreamConfig::name)},
    {"kind", choice(&UpstreamConfig::kind, kKinds)},
    {"serves", text(&UpstreamConfig::serves)},
    {"model", text(&UpstreamConfig::model)},
    {"file", text(&UpstreamConfig::file)},
    {"gateway_tokenizes", boolean(&UpstreamConfig::gateway_tokenizes)},
    {"command", list(&UpstreamConfig::command, text_of)},
    {"url", read_url},
    {"tls_ca", text(&UpstreamConfig::tls_ca)},
    {"api_key",
     [](const ConfigNode& node, const Place& place, UpstreamConfig& out) -> Status {
       MARTLET_ASSIGN(out.api_key, secret_of(node, place));
       return {};
     }},
    {"health", text(&UpstreamConfig::health)},
    {"instances", integer(&UpstreamConfig::instances, 1, 64)},
    {"memory", bytes(&UpstreamConfig::memory)},
    {"context", integer(&UpstreamConfig::context, 1, 1 << 24)},
    {"concurrent", integer(&UpstreamConfig::concurrent, 1, 65536)},
    {"standby", boolean(&UpstreamConfig::standby)},
    {"bounded", boolean(&UpstreamConfig::bounded)},
    {"accept_differences", list(&UpstreamConfig::accepted_differences, text_of)},
    {"warm_buckets", list(&UpstreamConfig::warm_buckets, bucket)},
    {"drafts", boolean(&UpstreamConfig::drafts)},
    {"draft_length", integer(&UpstreamConfig::draft_length, 1, 64)},
    {"drafts_off", read_drafts_off},
    {"hedge_after_ms", milliseconds(&UpstreamConfig::hedge_after, 1)},
    {"when", part(&UpstreamConfig::when, kConditionKeys)},
    {"timeouts", part(&UpstreamConfig::timeouts, kTimeoutKeys)},
};

const std::vector<Key<PressureOptions>> kPressureKeys = {
    {"warning", number(&PressureOptions::warning, 0.01, 1)},
    {"critical", number(&PressureOptions::critical, 0.01, 1)},
    {"margin", number(&PressureOptions::margin, 0, 0.5)},
    {"calm_ms", milliseconds(&PressureOptions::calm, 0)},
    {"confirm_ms", milliseconds(&PressureOptions::confirm, 0)},
};

const std::vector<Key<BreakerOptions>> kBreakerKeys = {
    {"failures", integer(&BreakerOptions::failures_to_open, 1, 1000)},
    {"open_ms", milliseconds(&BreakerOptions::open_at_least, 0)},
    {"open_at_most_ms", milliseconds(&BreakerOptions::open_at_most, 0)},
};

const std::vector<Key<DraftOptions>> kDraftKeys = {
    {"window", integer(&DraftOptions::window, 1, 1 << 20)},
    {"least_acceptance", number(&DraftOptions::least_acceptance, 0, 1)},
    {"try_again_ms", milliseconds(&DraftOptions::try_again, 1)},
};

// What an upstream of this kind is when its configuration does not say.
UpstreamConfig defaults_of(UpstreamKind kind) {
  UpstreamConfig out;
  out.kind = kind;
  out.health = kind == UpstreamKind::openai ? "/v1/models" : "/health";
  out.bounded = kind != UpstreamKind::mlx_lm;
  return out;
}

// Token ids: which kinds take them, and what makes them.
Status check_tokenizes(const UpstreamConfig& u, const Place& place) {
  if (!u.gateway_tokenizes) return {};
  const Place here{place.file, place.line, place.key + ".gateway_tokenizes"};
  if (u.kind == UpstreamKind::martlet) return here.error("the engine inside makes token ids from its own file");
  if (u.kind == UpstreamKind::mlx_lm) return here.error("mlx_lm.server takes text only, no token ids");
  if (u.file.empty()) return here.error("needs file: the GGUF file whose template and vocabulary make the token ids");
  if (u.context == 0) return here.error("needs context: how long an answer may be where a request does not say");
  return {};
}

Status check_upstream(const UpstreamConfig& u, const Place& place) {
  const auto good = [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '-' || c == '_'; };
  if (u.name.empty()) return place.error("an upstream needs a name");
  if (u.name.size() > 64 || !std::all_of(u.name.begin(), u.name.end(), good)) {
    return place.error("a name is up to 64 of a-z, 0-9, - and _");
  }
  const bool inside = u.kind == UpstreamKind::martlet;
  const int ways = inside + u.supervised() + (u.port != 0);
  if (inside && ways > 1) {
    return place.error("kind martlet runs inside the gateway: for a server of its own use kind openai");
  }
  if (ways != 1) return place.error("an upstream needs a url or a command, and not both");
  const bool names_port = std::any_of(u.command.begin(), u.command.end(),
                                      [](const std::string& word) { return word.find("{port}") != word.npos; });
  if (u.supervised() && !names_port) return place.error("the command must hold {port}");
  if (u.supervised() && u.memory == 0) {
    return place.error("a command needs memory: the most that one instance of it takes");
  }
  if (u.draft_length != UpstreamConfig().draft_length && !u.drafts)
    return place.error("draft_length needs drafts: true");
  if (u.health[0] != '/') return place.error("health must be a path");
  if (!u.drafts_off_field.empty() && !u.drafts) return place.error("drafts_off needs drafts: true");
  if (u.model.empty()) return place.error("an upstream needs a model: what it calls it");
  return check_tokenizes(u, place);
}

// Keys that would be read and change nothing.
struct Unused {
  const char *part, *key;  // part: of which object inside the upstream; empty: the upstream's own
  bool (*used)(const UpstreamConfig&);
  const char* text;
};
bool is_supervised(const UpstreamConfig& u) {
  return u.supervised();
}
bool is_outside(const UpstreamConfig& u) {
  return u.kind != UpstreamKind::martlet;
}
constexpr const char* kNeedsCommand = "is for upstreams that have a command";
constexpr Unused kUnused[] = {
    {"", "instances", is_supervised, kNeedsCommand},
    {"", "memory", [](const UpstreamConfig& u) { return u.port == 0; }, "is for upstreams that the gateway starts"},
    {"", "file", is_outside, "kind martlet's file is its model"},
    {"", "tls_ca", [](const UpstreamConfig& u) { return u.tls; }, "is for https URLs"},
    {"", "api_key", is_outside, "kind martlet runs inside the gateway and needs none"},
    {"timeouts", "start_ms", is_supervised, kNeedsCommand},
    {"timeouts", "stop_ms", is_supervised, kNeedsCommand},
};

const ConfigNode* member(const ConfigNode& node, std::string_view name) {
  for (const ConfigNode& value : *node.object()) {
    if (value.name == name) return &value;
  }
  return nullptr;
}

Status check_unused(const ConfigNode& node, const UpstreamConfig& upstream, const Place& place) {
  for (const Unused& unused : kUnused) {
    const ConfigNode* holder = *unused.part ? member(node, unused.part) : &node;
    const ConfigNode* key = holder ? member(*holder, unused.key) : nullptr;
    if (!key || unused.used(upstream)) continue;
    const std::string name = place.key + "." + (*unused.part ? unused.part + std::string(".") : "") + unused.key;
    return Place{place.file, key->line, name}.error(unused.text);
  }
  return {};
}

// Defaults depend on the kind, so that is read first.
Result<UpstreamConfig> read_upstream(const ConfigNode& node, const Place& place) {
  if (!node.object()) return place.error("must be an object");
  UpstreamConfig kind;
  const ConfigNode* said = member(node, "kind");
  if (!said) return place.error("an upstream needs a kind: martlet, mlx-lm, llama-server or openai");
  MARTLET_TRY(choice(&UpstreamConfig::kind, kKinds)(*said, Place{place.file, said->line, place.key + ".kind"}, kind));
  UpstreamConfig out = defaults_of(kind.kind);
  out.line = node.line;
  MARTLET_TRY(read_object(node, place, kUpstreamKeys, out));
  MARTLET_TRY(check_upstream(out, place));
  MARTLET_TRY(check_unused(node, out, place));
  return out;
}

Status read_pressure_source(const ConfigNode& node, const Place& place, GatewayConfig& out) {
  MARTLET_ASSIGN(out.pressure_source, text_of(node, place));
  const std::string& source = out.pressure_source;
  if (source == "system" || (source.starts_with("file:") && source.size() > 5)) return {};
  return place.error("must be system or file:PATH");
}

std::string default_log_dir() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  const std::string base = state && *state ? state : std::string(home ? home : "") + "/.local/state";
  return base + "/martlet/gateway";
}

const std::vector<Key<GatewayConfig>> kGatewayKeys = {
    {"listen", read_listen},
    {"api_keys", list(&GatewayConfig::api_keys, secret_of)},
    {"admin_keys", list(&GatewayConfig::admin_keys, secret_of)},
    {"connections", integer(&GatewayConfig::connections, 1, 65536)},
    {"max_body",
     [](const ConfigNode& node, const Place& place, GatewayConfig& out) -> Status {
       MARTLET_ASSIGN(const int64_t size, bytes_of(node, place));
       if (size < 1024 || size > (int64_t{1} << 30)) return place.error("must be from 1KiB to 1GiB");
       out.max_body = static_cast<size_t>(size);
       return {};
     }},
    {"memory_ceiling", bytes(&GatewayConfig::memory_ceiling)},
    {"queue", integer(&GatewayConfig::queue, 0, 1 << 20)},
    {"queue_ms", milliseconds(&GatewayConfig::queue_time, 1)},
    {"log_dir", text(&GatewayConfig::log_dir)},
    {"pressure_source", read_pressure_source},
    {"pressure", part(&GatewayConfig::pressure, kPressureKeys)},
    {"breaker", part(&GatewayConfig::breaker, kBreakerKeys)},
    {"drafts", part(&GatewayConfig::drafts, kDraftKeys)},
    {"upstreams", list(&GatewayConfig::upstreams, read_upstream)},
};

Status check(const GatewayConfig& config, const Place& place) {
  if (config.upstreams.empty()) return place.error("the configuration needs upstreams");
  if (config.pressure.warning > config.pressure.critical) {
    return place.error("pressure.warning must not be above pressure.critical");
  }
  for (size_t i = 0; i < config.upstreams.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (config.upstreams[i].name == config.upstreams[k].name) {
        return Place{place.file, config.upstreams[i].line}.error("another upstream has this name");
      }
    }
  }
  return {};
}

Result<GatewayConfig> read_tree(const ConfigNode& root, const std::string& name) {
  GatewayConfig out;
  out.path = name;
  out.log_dir = default_log_dir();
  const Place place{name, root.line};
  MARTLET_TRY(read_object(root, place, kGatewayKeys, out));
  MARTLET_TRY(check(out, place));
  return out;
}

}  // namespace

Result<GatewayConfig> parse_config(std::string_view text, const std::string& name) {
  MARTLET_ASSIGN(const ConfigNode root, parse_config_text(text, name));
  return read_tree(root, name);
}

Result<GatewayConfig> read_config(const std::string& path) {
  MARTLET_ASSIGN(const ConfigNode root, read_config_file(path));
  return read_tree(root, path);
}

const char* kind_name(UpstreamKind kind) {
  for (const auto& [name, value] : kKinds) {
    if (value == kind) return name;
  }
  return "";
}

std::vector<std::string> served_models(const GatewayConfig& config) {
  std::vector<std::string> out;
  for (const UpstreamConfig& upstream : config.upstreams) {
    if (std::find(out.begin(), out.end(), upstream.serves) == out.end()) out.push_back(upstream.serves);
  }
  return out;
}

}  // namespace martlet::gateway
