#include "model/loader.h"

#include <cmath>

#include "model/rope.h"
#include "tensor/dequantize.h"

namespace martlet {
namespace {

// Empty when one is not a positive number or the format does not compute.
std::vector<float> rope_factors(const TensorView& view) {
  if (!info(view.format).computes) return {};
  std::vector<float> factors(static_cast<size_t>(view.columns()));
  dequantize_row(view, 0, factors);
  for (float factor : factors)
    if (!std::isfinite(factor) || factor <= 0) return {};
  return factors;
}

}  // namespace

void Loader::fail(const char* text, const std::string& name) {
  if (!error_) error_ = Error{ErrorKind::model, "bad_tensor", text, name};
}

const TensorView* Loader::find(const std::string& name, const std::array<int64_t, 4>& shape) {
  const TensorView* view = file_.tensor(name);
  if (!view) {
    fail("the model lacks this tensor", name);
    return nullptr;
  }
  used_.insert(name);
  if (view->shape != shape) {
    fail("the tensor's shape is not what the hyperparameters say", name);
    return nullptr;
  }
  return view;
}

Weight Loader::upload(std::span<const TensorView> views, std::span<const TensorView> bias, const std::string& name) {
  if (error_) return {};
  Result<Weight> weight = backend_.upload(model_, views, {bias});
  if (weight) return *weight;
  error_ = weight.error();
  if (error_->where.empty()) error_->where = name;
  return {};
}

Norm Loader::norm(const std::string& name, int64_t size) {
  const TensorView* view = find(name + ".weight", {size, 1, 1, 1});
  if (!view) return {};
  return {Norm::Kind::rms, upload({view, 1}, {}, name + ".weight"), h_.norm_epsilon};
}

Weight Loader::matrix(const std::string& name, int64_t columns, int64_t rows, Bias bias) {
  return stack("", {{name.c_str(), rows}}, columns, bias);
}

Weight Loader::stack(const std::string& prefix, std::initializer_list<Segment> segments, int64_t columns, Bias bias) {
  std::vector<TensorView> views;
  for (const Segment& segment : segments) {
    const TensorView* view = find(prefix + segment.name + ".weight", {columns, segment.rows, 1, 1});
    if (!view) return {};
    views.push_back(*view);
  }
  return upload(views, biases(prefix, segments, bias), prefix + segments.begin()->name + ".weight");
}

std::vector<TensorView> Loader::biases(const std::string& prefix, std::span<const Segment> segments, Bias bias) {
  std::vector<TensorView> views;
  if (bias == Bias::none) return views;
  if (bias == Bias::optional && !has(prefix + segments.front().name + ".bias")) return views;
  for (const Segment& segment : segments) {
    const TensorView* view = find(prefix + segment.name + ".bias", {segment.rows, 1, 1, 1});
    if (!view) return {};
    views.push_back(*view);
  }
  return views;
}

Weight Loader::rope_frequencies() {
  std::vector<float> factors;
  if (has("rope_freqs.weight")) {
    const TensorView* view = find("rope_freqs.weight", {h_.rotated / 2, 1, 1, 1});
    if (!view) return {};
    factors = rope_factors(*view);
    if (factors.empty()) {
      fail("the rope factors are not positive numbers in a format that computes", "rope_freqs.weight");
      return {};
    }
  }
  const std::vector<float>& table = computed_.emplace_back(martlet::rope_frequencies(h_, factors));
  TensorView view;
  view.data = reinterpret_cast<const std::byte*>(table.data());
  view.shape[0] = static_cast<int64_t>(table.size());
  return upload({&view, 1}, {}, "rope frequencies");
}

Weight Loader::qkv(const std::string& prefix, Bias bias) {
  const int64_t keys = int64_t{h_.kv_heads} * h_.key_size, values = int64_t{h_.kv_heads} * h_.value_size;
  return stack(prefix, {{"attn_q", int64_t{h_.heads} * h_.key_size}, {"attn_k", keys}, {"attn_v", values}}, h_.width,
               bias);
}

Weight Loader::head(Weight embedding) {
  return has("output.weight") ? matrix("output", h_.width, h_.vocabulary) : embedding;
}

Attention Loader::attention(int32_t layer, Weight frequencies, RopePairs pairs) const {
  return {.layer = layer,
          .heads = h_.heads,
          .kv_heads = h_.kv_heads,
          .key_size = h_.key_size,
          .value_size = h_.value_size,
          .scale = 1 / std::sqrt(static_cast<float>(h_.key_size)),
          .rope_frequencies = frequencies,
          .rope_magnitude = rope_magnitude(h_.rope_scaling),
          .rope_interleaved = pairs == RopePairs::interleaved};
}

FeedForward Loader::feed_forward(const std::string& prefix, Bias bias) {
  return {.norm = norm(prefix + "ffn_norm", h_.width),
          .gate_up = stack(prefix, {{"ffn_gate", h_.ffn}, {"ffn_up", h_.ffn}}, h_.width, bias),
          .down = matrix(prefix + "ffn_down", h_.ffn, h_.width, bias)};
}

Status Loader::finish() const {
  if (error_) return *error_;
  for (const NamedTensor& tensor : file_.tensors()) {
    if (used_.contains(std::string(tensor.name))) continue;
    return Error{ErrorKind::model, "bad_tensor", "the file holds a tensor that this architecture does not use",
                 file_.path()};
  }
  return {};
}

}  // namespace martlet
