#!/usr/bin/env python3
"""Hold this folder's reference logits against mlx-lm's own models. Needs: pip install gguf numpy mlx[cpu] mlx-lm

make.py computes the logits from the papers' formulas; here the same weights run through an implementation that is not ours.
Prints the largest difference a variant, and fails above the bound. What mlx-lm's configs cannot say (RoPE factors that stand
in the file, a partly rotated head) is set on its layers.
"""
import sys
from pathlib import Path

import gguf
import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models import llama, qwen2, qwen3

import make

BOUND = 1e-4  # float32 against float64; the logits spread over about 4
ARCHITECTURES = {"llama": llama, "qwen2": qwen2, "qwen3": qwen3}
NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
         "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def halves(matrix, heads):
    """GGUF interleaves the rows of llama's q and k for rotating neighbours; here halves are rotated."""
    rows = matrix.reshape(heads, -1, 2, *matrix.shape[1:])
    return rows.swapaxes(1, 2).reshape(matrix.shape)


def load_weights(path, arch):
    weights = {}
    for tensor in gguf.GGUFReader(path).tensors:
        parts = tensor.name.split(".")
        values = np.array(tensor.data, np.float32)
        if parts[-2] in ("attn_q", "attn_k") and arch == "llama":
            values = halves(values, make.HEADS if parts[-2] == "attn_q" else make.KV_HEADS)
        if parts[0] == "rope_freqs":
            continue
        prefix = f"model.layers.{parts[1]}." if parts[0] == "blk" else ""
        weights[f"{prefix}{NAMES[parts[-2]]}.{parts[-1]}"] = mx.array(values)
    return weights


def build(spec, path):
    rope, module = spec["rope"], ARCHITECTURES[spec["arch"]]
    scaling = None
    if "type" in rope:
        scaling = {"type": rope["type"], "factor": rope["factor"],
                   "original_max_position_embeddings": rope.get("original", 2048)}
    config = dict(model_type=spec["arch"], hidden_size=make.WIDTH, num_hidden_layers=make.LAYERS, intermediate_size=make.FFN,
                  num_attention_heads=make.HEADS, num_key_value_heads=make.KV_HEADS, rms_norm_eps=make.EPSILON,
                  vocab_size=make.VOCABULARY, head_dim=spec["head"], max_position_embeddings=2048,
                  rope_theta=rope.get("base", 1e4), rope_scaling=scaling, tie_word_embeddings=spec["tied"],
                  attention_bias="attn_q" in spec["biases"], mlp_bias="ffn_up" in spec["biases"])
    model = module.Model(module.ModelArgs.from_dict(config))
    for layer in model.model.layers:
        attention = layer.self_attn
        if "rotated" in rope:
            attention.rope = nn.RoPE(rope["rotated"], traditional=False, base=rope.get("base", 1e4))
        if rope.get("factors"):
            periods, _ = make.frequencies(spec, make.make_weights(spec, np.random.default_rng(0)))
            attention.rope = FactoredRoPE(spec["head"], mx.array((1 / periods).astype(np.float32)))
    model.load_weights(list(load_weights(path, spec["arch"]).items()))
    return model


class FactoredRoPE(nn.Module):
    def __init__(self, size, periods):
        super().__init__()
        self.size, self._freqs = size, periods

    def __call__(self, x, offset=0):
        return mx.fast.rope(x, self.size, traditional=False, base=None, scale=1.0, offset=offset, freqs=self._freqs)


def main():
    folder, failed = Path(__file__).parent, False
    for name, spec in make.VARIANTS.items():
        golden = np.fromfile(folder / f"{name}.f32", np.float32)
        tokens = golden[:make.PROMPT].astype(np.int32)
        expected = golden[make.PROMPT:make.PROMPT + make.PROMPT * make.VOCABULARY].reshape(make.PROMPT, make.VOCABULARY)
        logits = np.array(build(spec, folder / f"{name}.gguf")(mx.array(tokens)[None]))[0]
        worst = float(np.abs(logits - expected).max())
        failed |= not worst <= BOUND
        print(f"{name:14} largest difference {worst:.6f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
