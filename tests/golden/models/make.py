#!/usr/bin/env python3
"""Make the tiny models of this folder and their reference logits. Needs: pip install gguf numpy.   make.py [OUT_DIR]

Each model is an architecture or a variant of one (biases, q/k norm, tied embeddings, RoPE scalings) with random f16 weights,
small enough to commit. NAME.f32 holds the tokens of its prompt and its logits [PROMPT, VOCABULARY] twice, computed in float64
from the formulas of the papers: with keys and values as they are, and rounded to f16 as a cache of f16 holds them. The same
files come out every time.
"""
import sys
from pathlib import Path

import gguf
import numpy as np

VOCABULARY, PROMPT = 64, 40
WIDTH, FFN, LAYERS, HEADS, KV_HEADS = 32, 64, 2, 2, 1
EPSILON = 1e-5
# arch; key and value size; biases: names of matrices that have one; rope: what the model says about positions
VARIANTS = {
    "llama": dict(arch="llama", head=16, tied=False, biases=(), rope={}),
    "llama-biases": dict(arch="llama", head=16, tied=True, rope={},
                         biases=("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")),
    "llama-factors": dict(arch="llama", head=16, tied=True, biases=(), rope={"factors": True, "base": 5e5}),
    "llama-linear": dict(arch="llama", head=16, tied=False, biases=(), rope={"type": "linear", "factor": 4.0}),
    "qwen2": dict(arch="qwen2", head=16, tied=False, biases=("attn_q", "attn_k", "attn_v"), rope={"base": 1e6}),
    "qwen2-yarn": dict(arch="qwen2", head=16, tied=True, biases=("attn_q", "attn_k", "attn_v"),
                       rope={"type": "yarn", "factor": 4.0, "original": 512, "base": 1e4}),
    "qwen3": dict(arch="qwen3", head=32, tied=True, biases=(), rope={"base": 1e6}),
    "qwen3-partial": dict(arch="qwen3", head=16, tied=False, biases=(), rope={"rotated": 8}),
}


def make_weights(spec, rng):
    head = spec["head"]
    matrix = lambda rows, columns: (rng.standard_normal((rows, columns)) / np.sqrt(columns)).astype(np.float16)
    vector = lambda n, mean, spread: (mean + spread * rng.standard_normal(n)).astype(np.float32)
    w = {"token_embd.weight": matrix(VOCABULARY, WIDTH) * np.float16(4), "output_norm.weight": vector(WIDTH, 1, 0.1)}
    if not spec["tied"]:
        w["output.weight"] = matrix(VOCABULARY, WIDTH) * np.float16(4)
    shapes = {"attn_q": (HEADS * head, WIDTH), "attn_k": (KV_HEADS * head, WIDTH), "attn_v": (KV_HEADS * head, WIDTH),
              "attn_output": (WIDTH, HEADS * head), "ffn_gate": (FFN, WIDTH), "ffn_up": (FFN, WIDTH), "ffn_down": (WIDTH, FFN)}
    for i in range(LAYERS):
        for name, (rows, columns) in shapes.items():
            w[f"blk.{i}.{name}.weight"] = matrix(rows, columns) * np.float16(2)
            if name in spec["biases"]:
                w[f"blk.{i}.{name}.bias"] = vector(rows, 0, 0.5)
        for name in ("attn_norm", "ffn_norm"):
            w[f"blk.{i}.{name}.weight"] = vector(WIDTH, 1, 0.1)
        if spec["arch"] == "qwen3":
            for name in ("attn_q_norm", "attn_k_norm"):
                w[f"blk.{i}.{name}.weight"] = vector(head, 1, 0.3)
    if spec["rope"].get("factors"):
        w["rope_freqs.weight"] = np.linspace(1, 8, head // 2).astype(np.float32)
    return w


def write_gguf(path, spec, weights):
    rope, arch = spec["rope"], spec["arch"]
    w = gguf.GGUFWriter(path, arch)
    w.add_block_count(LAYERS); w.add_context_length(2048); w.add_embedding_length(WIDTH); w.add_feed_forward_length(FFN)
    w.add_head_count(HEADS); w.add_head_count_kv(KV_HEADS); w.add_layer_norm_rms_eps(EPSILON)
    if spec["head"] * HEADS != WIDTH:
        w.add_key_length(spec["head"]); w.add_value_length(spec["head"])
    if "base" in rope: w.add_rope_freq_base(rope["base"])
    if "rotated" in rope: w.add_rope_dimension_count(rope["rotated"])
    if "type" in rope:
        w.add_rope_scaling_type(gguf.RopeScalingType(rope["type"])); w.add_rope_scaling_factor(rope["factor"])
    if "original" in rope: w.add_rope_scaling_orig_ctx_len(rope["original"])
    for name, tensor in weights.items():
        w.add_tensor(name, tensor)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()


def frequencies(spec, weights):
    """(radians a position of each pair, factor of sine and cosine)."""
    rope, rotated = spec["rope"], spec["rope"].get("rotated", spec["head"])
    base = rope.get("base", 1e4)
    f = base ** (-np.arange(0, rotated, 2) / rotated)
    if "rope_freqs.weight" in weights:
        f = f / weights["rope_freqs.weight"].astype(np.float64)
    if rope.get("type") == "linear":
        return f / rope["factor"], 1.0
    if rope.get("type") == "yarn":     # Peng et al. 2023, section 3.4, with the usual bounds of 32 and 1 rotations
        at = lambda rotations: rotated * np.log(rope["original"] / (rotations * 2 * np.pi)) / (2 * np.log(base))
        low, high = max(np.floor(at(32)), 0), min(np.ceil(at(1)), rotated - 1)
        ramp = np.clip((np.arange(rotated // 2) - low) / (high - low), 0, 1)
        return f / rope["factor"] * ramp + f * (1 - ramp), 0.1 * np.log(rope["factor"]) + 1
    return f, 1.0


def rotate(x, spec, f, magnitude):
    """x [tokens, heads, size]; llama turns neighbours, the others the two halves of the rotated part."""
    n = 2 * len(f)
    angle = np.arange(len(x))[:, None, None] * f
    c, s = np.cos(angle) * magnitude, np.sin(angle) * magnitude
    a, b = (slice(0, n, 2), slice(1, n, 2)) if spec["arch"] == "llama" else (slice(0, n // 2), slice(n // 2, n))
    y = x.copy()
    y[..., a], y[..., b] = x[..., a] * c - x[..., b] * s, x[..., a] * s + x[..., b] * c
    return y


def forward(spec, weights, tokens, cache):
    w = {name: tensor.astype(np.float64) for name, tensor in weights.items()}
    norm = lambda x, name: x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * w[name + ".weight"]
    linear = lambda x, name: x @ w[name + ".weight"].T + w.get(name + ".bias", 0)
    f, magnitude = frequencies(spec, weights)
    x = w["token_embd.weight"][tokens]
    for i in range(LAYERS):
        at, n = f"blk.{i}.", len(tokens)
        h = norm(x, at + "attn_norm")
        q, k, v = (linear(h, at + m).reshape(n, -1, spec["head"]) for m in ("attn_q", "attn_k", "attn_v"))
        if spec["arch"] == "qwen3":
            q, k = norm(q, at + "attn_q_norm"), norm(k, at + "attn_k_norm")
        q, k = rotate(q, spec, f, magnitude), rotate(k, spec, f, magnitude)
        k, v = (np.repeat(t.astype(cache).astype(np.float64), HEADS // KV_HEADS, 1) for t in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(spec["head"])
        scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        x = x + linear(np.einsum("hqk,khd->qhd", p, v).reshape(n, -1), at + "attn_output")
        h = norm(x, at + "ffn_norm")
        gate = linear(h, at + "ffn_gate")
        x = x + linear(gate / (1 + np.exp(-gate)) * linear(h, at + "ffn_up"), at + "ffn_down")
    head = "token_embd" if spec["tied"] else "output"
    return linear(norm(x, "output_norm"), head)


def main(out):
    for seed, (name, spec) in enumerate(VARIANTS.items()):
        rng = np.random.default_rng(seed)
        weights = make_weights(spec, rng)
        tokens = rng.integers(0, VOCABULARY, PROMPT)
        write_gguf(out / f"{name}.gguf", spec, weights)
        logits = np.stack([forward(spec, weights, tokens, cache) for cache in (np.float64, np.float16)])
        np.concatenate([tokens.astype(np.float32), logits.astype(np.float32).ravel()]).tofile(out / f"{name}.f32")
        print(name, "spread of the logits", round(float(logits.std()), 3))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
