// Qwen3: no biases; q and k are RMS-normed in each head before RoPE on its two halves ("Qwen3 Technical Report", 2025).

#include "model/blocks.h"
#include "model/loader.h"
#include "model/model.h"

namespace martlet {
namespace {

class Qwen3 final : public Model {
 public:
  explicit Qwen3(Loader& load) {
    const Hyperparameters& h = load.hyperparameters();
    token_embedding_ = load.matrix("token_embd", h.width, h.vocabulary);
    const Weight frequencies = load.rope_frequencies();
    for (int32_t i = 0; i < h.layers; ++i) {
      const std::string at = layer_prefix(i);
      DecoderLayer& layer = layers_.emplace_back();
      layer.attention.norm = load.norm(at + "attn_norm", h.width);
      layer.attention.qkv = load.qkv(at, Bias::none);
      layer.attention.attention = load.attention(i, frequencies, RopePairs::halves);
      layer.attention.attention.q_norm = load.norm(at + "attn_q_norm", h.key_size);
      layer.attention.attention.k_norm = load.norm(at + "attn_k_norm", h.key_size);
      layer.attention.output = load.matrix(at + "attn_output", int64_t{h.heads} * h.value_size, h.width, Bias::none);
      layer.ffn = load.feed_forward(at, Bias::none);
    }
    output_norm_ = load.norm("output_norm", h.width);
    head_ = load.head(token_embedding_);
  }

  Outputs forward(Backend& b) const override {
    Tensor x = b.embed(token_embedding_);
    for (const DecoderLayer& layer : layers_) {
      x = attend(b, x, layer.attention);
      x = feed_forward(b, x, layer.ffn);
    }
    x = b.norm(b.gather_outputs(x), output_norm_);
    return {b.linear(x, head_), x};
  }

 private:
  Weight token_embedding_, head_;
  std::vector<DecoderLayer> layers_;
  Norm output_norm_;
};

}  // namespace

std::unique_ptr<Model> build_qwen3(Loader& load) {
  return std::make_unique<Qwen3>(load);
}

}  // namespace martlet
