#include "gateway/config.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>

#include <boost/json/serialize.hpp>

#include "gateway/config_file.h"
#include "net/download.h"

namespace martlet::gateway {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 50;
constexpr int64_t kDay = 24 * 3600 * 1000;

// Where errors point, and what they say.
struct Place {
  const std::string& file;
  int line;
  std::string key = {};  // "pressure.warning"; empty outside of all keys
  Error error(const std::string& text) const {
    return {ErrorKind::usage, "bad_config", key.empty() ? text : key + ": " + text, file + ":" + std::to_string(line)};
  }
};

// Reads the value of one key into a T.
template <class T>
using Reader = std::function<Status(const ConfigNode&, const Place&, T&)>;

template <class T>
struct Key {
  const char* name;
  Reader<T> read;
};

// What someone might look for, and is not built.
constexpr std::pair<const char*, const char*> kNotBuilt[] = {
    {"gateway_tokenizes", "token ids cannot be sent to upstreams: that is not built"},
};

const char* unknown_key(std::string_view name) {
  for (const auto& [key, text] : kNotBuilt) {
    if (name == key) return text;
  }
  return "this key is not known here";
}

template <class T>
Status read_object(const ConfigNode& node, const Place& place, const std::vector<Key<T>>& keys, T& out) {
  if (!node.object()) return place.error("must be an object");
  for (const ConfigNode& value : *node.object()) {
    const auto key = std::find_if(keys.begin(), keys.end(), [&](const Key<T>& k) { return value.name == k.name; });
    if (key == keys.end()) return Place{place.file, value.line, place.key}.error(unknown_key(value.name));
    const Place here{place.file, value.line, (place.key.empty() ? "" : place.key + ".") + key->name};
    MARTLET_TRY(key->read(value, here, out));
  }
  return {};
}

Result<std::string> text_of(const ConfigNode& node, const Place& place) {
  const boost::json::value* value = node.scalar();
  if (!value || !value->is_string()) return place.error("must be a string");
  const std::string text(value->as_string());
  const bool clean = std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
  if (!clean) return place.error("must not hold control characters");
  return text;
}

Result<double> number_of(const ConfigNode& node, const Place& place, double low, double high) {
  const boost::json::value* value = node.scalar();
  boost::json::error_code ec;
  const double number = value && value->is_number() ? value->to_number<double>(ec) : NAN;
  if (ec || !(number >= low && number <= high)) {
    char text[96];
    std::snprintf(text, sizeof text, "must be a number from %g to %g", low, high);
    return place.error(text);
  }
  return number;
}

Result<int64_t> integer_of(const ConfigNode& node, const Place& place, int64_t low, int64_t high) {
  const boost::json::value* value = node.scalar();
  const auto error = [&] {
    return place.error("must be an integer from " + std::to_string(low) + " to " + std::to_string(high));
  };
  if (!value || !(value->is_int64() || value->is_uint64())) return error();
  boost::json::error_code ec;
  const int64_t number = value->to_number<int64_t>(ec);
  if (ec || number < low || number > high) return error();
  return number;
}

// 1073741824, "1GiB", "800MB".
Result<int64_t> bytes_of(const ConfigNode& node, const Place& place) {
  if (const auto* value = node.scalar(); value && value->is_number()) return integer_of(node, place, 0, kMaxBytes);
  MARTLET_ASSIGN(const std::string text, text_of(node, place));
  constexpr std::pair<const char*, double> kUnits[] = {{"B", 1},
                                                       {"KB", 1e3},
                                                       {"MB", 1e6},
                                                       {"GB", 1e9},
                                                       {"KiB", 1024.0},
                                                       {"MiB", 1024.0 * 1024},
                                                       {"GiB", 1024.0 * 1024 * 1024}};
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  while (*end == ' ') ++end;
  for (const auto& [unit, factor] : kUnits) {
    const double bytes = number * factor;
    if (end != text.c_str() && std::string_view(end) == unit && bytes >= 0 && bytes <= double(kMaxBytes)) {
      return static_cast<int64_t>(bytes);
    }
  }
  return place.error("must be a number of bytes, such as 800MB or 6GiB");
}

// A secret, or "env:NAME" for the value of that variable.
Result<std::string> secret_of(const ConfigNode& node, const Place& place) {
  MARTLET_ASSIGN(std::string text, text_of(node, place));
  if (text.starts_with("env:")) {
    const char* value = std::getenv(text.c_str() + 4);
    if (!value || !*value) return place.error("the environment does not have this variable");
    text = value;
  }
  const bool clean = std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  if (text.empty() || !clean) return place.error("a key must be printable ASCII without blanks, and not empty");
  return text;
}

template <class T>
Reader<T> text(std::string T::*member) {
  return [=](const ConfigNode& node, const Place& place, T& out) -> Status {
    MARTLET_ASSIGN(out.*member, text_of(node, place));
    if ((out.*member).empty()) return place.error("must not be empty");
    return {};
  };
}

template <class T, class M>
Reader<T> integer(M T::*member, int64_t low, int64_t high) {
  return [=](const ConfigNode& node, const Place& place, T& out) -> Status {
    MARTLET_ASSIGN(const int64_t number, integer_of(node, place, low, high));
    out.*member = static_cast<M>(number);
    return {};
  };
}

template <class T>
Reader<T> number(double T::*member, double low, double high) {
  return [=](const ConfigNode& node, const Place& place, T& out) -> Status {
    MARTLET_ASSIGN(out.*member, number_of(node, place, low, high));
    return {};
  };
}

template <class T>
Reader<T> boolean(bool T::*member) {
  return [=](const ConfigNode& node, const Place& place, T& out) -> Status {
    const boost::json::value* value = node.scalar();
    if (!value || !value->is_bool()) return place.error("must be true or false");
    out.*member = value->as_bool();
    return {};
  };
}

template <class T>
Reader<T> bytes(int64_t T::*member) {
  return [=](const ConfigNode& node, const Place& place, T& out) -> Status {
    MARTLET_ASSIGN(out.*member, bytes_of(node, place));
    return {};
  };
}

template <class T, class D>
Reader<T> milliseconds(D T::*member, int64_t low) {
  return [=](const ConfigNode& node, const Place& place, T& out) -> Status {
    MARTLET_ASSIGN(const int64_t number, integer_of(node, place, low, kDay));
    out.*member = std::chrono::duration_cast<D>(std::chrono::milliseconds(number));
    return {};
  };
}

// An array, each item read by `one` into the end of a vector.
template <class T, class V, class One>
Reader<T> list(std::vector<V> T::*member, One one) {
  return [=](const ConfigNode& node, const Place& place, T& out) -> Status {
    if (!node.array()) return place.error("must be an array");
    for (const ConfigNode& item : *node.array()) {
      MARTLET_ASSIGN(V value, one(item, Place{place.file, item.line, place.key}));
      (out.*member).push_back(std::move(value));
    }
    return {};
  };
}

template <class T, class M, class E>
Reader<T> choice(M T::*member, std::vector<std::pair<const char*, E>> choices) {
  return [=](const ConfigNode& node, const Place& place, T& out) -> Status {
    MARTLET_ASSIGN(const std::string text, text_of(node, place));
    std::string known;
    for (const auto& [name, value] : choices) {
      if (text == name) return out.*member = value, Status();
      known += (known.empty() ? "" : ", ") + std::string(name);
    }
    return place.error("must be one of: " + known);
  };
}

template <class T, class P>
Reader<T> part(P T::*member, const std::vector<Key<P>>& keys) {
  return [=, &keys](const ConfigNode& node, const Place& place, T& out) -> Status {
    return read_object(node, place, keys, out.*member);
  };
}

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

// Takes "http://host:port/prefix/v1" apart.
Status read_url(const ConfigNode& node, const Place& place, UpstreamConfig& out) {
  MARTLET_ASSIGN(const std::string text, text_of(node, place));
  if (text.starts_with("https:")) return place.error("https upstreams are not built: put a local proxy in between");
  const std::string origin = origin_of(text);  // "http://host:port"
  if (origin.empty()) return place.error("must be an http URL without a user name");
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
    {"command", list(&UpstreamConfig::command, text_of)},
    {"url", read_url},
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
  return {};
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
