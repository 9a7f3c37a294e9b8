#include "model/hyperparameters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "model/architectures.h"

namespace martlet {
namespace {

// Reads typed keys of one architecture and remembers the first that is wrong; later reads then return the default.
class Reader {
 public:
  Reader(const ModelFile& file, std::string architecture) : file_(file), prefix_(std::move(architecture) + ".") {}

  int32_t integer(const std::string& key, int64_t low, int64_t high, std::optional<int32_t> absent = {}) {
    const Metadata* found = file_.find(prefix_ + key);
    if (!found) return absent ? *absent : fail<int32_t>(key, "the model needs this key");
    const std::optional<int64_t> value = uniform_integer(*found, prefix_ + key);
    if (!value) return fail<int32_t>(key, "the value is not one integer");
    if (*value < low || *value > high) return fail<int32_t>(key, "the value is out of range");
    return static_cast<int32_t>(*value);
  }

  double number(const std::string& key, double low, double high, std::optional<double> absent = {}) {
    if (!file_.find(prefix_ + key)) return absent ? *absent : fail<double>(key, "the model needs this key");
    const std::optional<double> value = file_.number(prefix_ + key);
    if (!value || !std::isfinite(*value)) return fail<double>(key, "the value is not a finite number");
    if (*value < low || *value > high) return fail<double>(key, "the value is out of range");
    return *value;
  }

  std::string_view string(const std::string& key, std::string_view absent) {
    if (!file_.find(prefix_ + key)) return absent;
    const std::optional<std::string_view> value = file_.string(prefix_ + key);
    return value ? *value : fail<std::string_view>(key, "the value is not a string");
  }

  bool has(const std::string& key) const { return file_.find(prefix_ + key) != nullptr; }

  template <class T = int>
  T fail(const std::string& key, const char* text) {
    if (!error_) error_ = Error{ErrorKind::model, "bad_hparam", text, prefix_ + key};
    return T{};
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  // Some converters write one value for each layer: equal ones are one value, others describe a model that is not
  // uniform.
  std::optional<int64_t> uniform_integer(const Metadata& found, const std::string& name) const {
    const auto* array = std::get_if<NumberArray>(&found);
    if (!array) return file_.integer(name);
    if (array->size == 0) return std::nullopt;
    for (size_t i = 1; i < array->size; ++i)
      if (array->integer(i) != array->integer(0)) return std::nullopt;
    return array->integer(0);
  }

  const ModelFile& file_;
  std::string prefix_;
  std::optional<Error> error_;
};

// Keys that change what a layer computes in ways that none of the architectures here has. Ignoring one would give wrong
// answers, so any other value than the neutral one is refused.
struct NeutralKey {
  const char* name;
  double neutral;
};
constexpr NeutralKey kNeutralKeys[] = {
    {"expert_count", 0},
    {"attention.scale", 0},
    {"attention.clamp_kqv", 0},
    {"attention.max_alibi_bias", 0},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"logit_scale", 0},
    {"residual_scale", 0},
    {"embedding_scale", 0},
    {"nextn_predict_layers", 0},
    {"rope.scaling.yarn_log_multiplier", 0},
};

void refuse_unknown_computation(Reader& read, int32_t context) {
  for (const NeutralKey& key : kNeutralKeys) {
    constexpr double kAny = std::numeric_limits<double>::max();
    if (read.number(key.name, -kAny, kAny, key.neutral) != key.neutral)
      read.fail(key.name, "this architecture does not compute what the key asks for");
  }
  if (read.integer("attention.sliding_window", 0, std::numeric_limits<int32_t>::max(), context) % context != 0)
    read.fail("attention.sliding_window", "windows shorter than the context are not supported for this architecture");
}

RopeScaling read_rope_scaling(Reader& read, int32_t context) {
  RopeScaling s;
  const std::string_view kind = read.string("rope.scaling.type", read.has("rope.scale_linear") ? "linear" : "none");
  if (kind == "none") return s;
  if (kind == "linear") {
    s.kind = RopeScaling::Kind::linear;
    s.factor = read.number("rope.scaling.factor", 1e-3, 1e6, read.number("rope.scale_linear", 1e-3, 1e6, 1.0));
  } else if (kind == "yarn") {
    s.kind = RopeScaling::Kind::yarn;
    s.factor = read.number("rope.scaling.factor", 1, 1e6);
    s.original_context = read.integer("rope.scaling.original_context_length", 1, 1 << 30, context);
    s.attention_factor = read.number("rope.scaling.attn_factor", 1e-3, 1e3,
                                     read.number("rope.scaling.yarn_attn_factor", 1e-3, 1e3, 1.0));
    s.extrapolation = read.number("rope.scaling.yarn_ext_factor", 0, 1, 1.0);
    s.beta_fast = read.number("rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32.0);
    s.beta_slow = read.number("rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1.0);
  } else {
    read.fail("rope.scaling.type", "the kinds that work are none, linear and yarn");
  }
  return s;
}

void read_heads(Reader& read, Hyperparameters& h) {
  h.heads = read.integer("attention.head_count", 1, 4096);
  h.kv_heads = read.integer("attention.head_count_kv", 1, 4096, h.heads);
  if (read.error()) return;
  if (h.width % h.heads != 0) read.fail("embedding_length", "the width does not divide by the number of heads");
  if (h.heads % h.kv_heads != 0) read.fail("attention.head_count_kv", "the heads do not divide by the key-value heads");
  h.key_size = read.integer("attention.key_length", 1, 4096, h.width / h.heads);
  h.value_size = read.integer("attention.value_length", 1, 4096, h.width / h.heads);
  h.rotated = read.integer("rope.dimension_count", 2, 4096, h.key_size);
  if (h.rotated % 2 != 0 || h.rotated > h.key_size)
    read.fail("rope.dimension_count", "the rotated part of a head must be even and no larger than the head");
}

Error unsupported_architecture(std::string_view name) {
  const bool plain = !name.empty() && name.size() <= 32 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
  return {ErrorKind::model, "unsupported_architecture",
          "this architecture is not supported; those that work are " + architecture_names(),
          plain ? std::string(name) : "general.architecture"};
}

}  // namespace

Result<Hyperparameters> read_hyperparameters(const ModelFile& file) {
  Hyperparameters h;
  h.architecture = file.architecture();
  if (!find_architecture(h.architecture)) return unsupported_architecture(h.architecture);
  Reader read(file, h.architecture);
  h.layers = read.integer("block_count", 1, 1024);
  h.width = read.integer("embedding_length", 2, 1 << 20);
  h.ffn = read.integer("feed_forward_length", 1, 1 << 22);
  h.context = read.integer("context_length", 1, 1 << 30);
  h.norm_epsilon = static_cast<float>(read.number("attention.layer_norm_rms_epsilon", 1e-12, 1));
  h.rope_base = read.number("rope.freq_base", 1, 1e12, 10000.0);
  if (!read.error()) {
    read_heads(read, h);
    h.rope_scaling = read_rope_scaling(read, h.context);
    refuse_unknown_computation(read, h.context);
  }
  if (read.error()) return *read.error();

  const TensorView* embedding = file.tensor("token_embd.weight");
  if (!embedding) return Error{ErrorKind::model, "bad_tensor", "the model lacks this tensor", "token_embd.weight"};
  if (embedding->rows() < 1 || embedding->rows() > (1 << 24))
    return Error{ErrorKind::model, "bad_tensor", "the vocabulary is empty or absurdly large", "token_embd.weight"};
  h.vocabulary = static_cast<int32_t>(embedding->rows());
  return h;
}

std::vector<CacheGroup> cache_groups(const Hyperparameters& h, CacheType type, int32_t pages) {
  return {{CacheGroup::Kind::paged, h.layers, h.kv_heads, h.key_size, h.value_size, pages, type}};
}

StepWidths step_widths(const Hyperparameters& h) {
  const int64_t attended = int64_t{h.heads} * h.value_size;
  return {.residual = h.width,
          .projected = int64_t{h.heads} * h.key_size + int64_t{h.kv_heads} * (h.key_size + h.value_size),
          .attended = std::max(attended, int64_t{h.heads} * h.key_size),
          .heads = h.heads,
          .network = h.ffn,
          .vocabulary = h.vocabulary};
}

}  // namespace martlet
