// Llama: pre-norm decoder with RMS norms, grouped heads, RoPE and a gated SiLU network (Touvron et al., "LLaMA: Open
// and Efficient Foundation Language Models", 2023; Llama 3 scales RoPE by the file's own factors). GGUF files hold q
// and k with rows permuted so that RoPE turns neighbouring values. Relatives under this name may have biases anywhere.

#include "model/blocks.h"
#include "model/loader.h"
#include "model/model.h"

namespace martlet {
namespace {

class Llama final : public Model {
 public:
  explicit Llama(Loader& load) {
    const Hyperparameters& h = load.hyperparameters();
    token_embedding_ = load.matrix("token_embd", h.width, h.vocabulary);
    const Weight frequencies = load.rope_frequencies();
    for (int32_t i = 0; i < h.layers; ++i) {
      const std::string at = layer_prefix(i);
      DecoderLayer& layer = layers_.emplace_back();
      layer.attention.norm = load.norm(at + "attn_norm", h.width);
      layer.attention.qkv = load.qkv(at, Bias::optional);
      layer.attention.attention = load.attention(i, frequencies, RopePairs::interleaved);
      layer.attention.output =
          load.matrix(at + "attn_output", int64_t{h.heads} * h.value_size, h.width, Bias::optional);
      layer.ffn = load.feed_forward(at, Bias::optional);
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

std::unique_ptr<Model> build_llama(Loader& load) {
  return std::make_unique<Llama>(load);
}

}  // namespace martlet
