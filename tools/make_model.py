#!/usr/bin/env python3
"""Make GGUF models for speed tests and speculative-decoding tests. Needs: pip install gguf numpy.

  make_model.py random SHAPE MIX OUT.gguf      random weights in a published shape, with a real vocabulary
  make_model.py deepen IN.gguf LAYERS OUT.gguf the same function as IN with LAYERS layers: the added ones have random
                                               q/k/v/gate/up weights and zero attn_output/ffn_down, so every logit stays
                                               the same while each token reads more weights. IN is then a perfect draft
                                               model for OUT, at a fraction of its cost.
  make_model.py perturb IN.gguf SIGMA OUT.gguf the same model with each block's scale off by a relative N(0, SIGMA): a draft
                                               model that is right part of the time (try 0.02 to 0.3)
  make_model.py scramble IN.gguf OUT.gguf      the same shape and vocabulary with random weights: a draft that is never right
SHAPE: qwen3-0.6b llama3.2-1b qwen3-8b qwen2.5-7b tiny-llama tiny-qwen3 nano   MIX: q4_k_m q6_k q8_0 q4_0 q5_0
q5_1 iq4_nl f16
nano has a vocabulary of 300 byte-level tokens and loads in no time: for fault injection and fuzzing.
A random model's text is noise: use it for time and memory only.
"""
import os
import sys
from pathlib import Path
import numpy as np
import gguf
from gguf import GGMLQuantizationType as T

SHARED = Path(os.environ.get("MARTLET_SHARED", Path(__file__).resolve().parent.parent.parent / "shared"))
VOCAB = SHARED / "vectors" / "vocab"
SHAPES = {
    # layers, width, ffn, heads, kv heads, head size, rope base, tied embeddings, vocabulary rows
    "qwen3-0.6b": dict(arch="qwen3", vocab="qwen2", L=28, D=1024, F=3072, H=16, KV=8, hd=128, base=1e6, tie=True, V=151936),
    "qwen3-8b": dict(arch="qwen3", vocab="qwen2", L=36, D=4096, F=12288, H=32, KV=8, hd=128, base=1e6, tie=False, V=151936),
    "qwen2.5-7b": dict(arch="qwen2", vocab="qwen2", L=28, D=3584, F=18944, H=28, KV=4, hd=128, base=1e6, tie=False, V=152064),
    "llama3.2-1b": dict(arch="llama", vocab="llama-bpe", L=16, D=2048, F=8192, H=32, KV=8, hd=64, base=5e5, tie=True, V=128256),
    "tiny-llama": dict(arch="llama", vocab="llama-spm", L=2, D=256, F=512, H=4, KV=2, hd=64, base=1e4, tie=False, V=32000),
    "tiny-qwen3": dict(arch="qwen3", vocab="gpt-2", L=2, D=256, F=512, H=4, KV=2, hd=64, base=1e6, tie=True, V=50257),
}
SHAPES["nano"] = dict(arch="llama", vocab=None, L=2, D=64, F=128, H=2, KV=1, hd=32, base=1e4, tie=True, V=300)
MIXES = {"q4_k_m": (T.Q4_K, T.Q6_K), "q6_k": (T.Q6_K, T.Q6_K), "q8_0": (T.Q8_0, T.Q8_0), "q4_0": (T.Q4_0, T.Q6_K),
         "q5_0": (T.Q5_0, T.Q6_K), "q5_1": (T.Q5_1, T.Q6_K), "iq4_nl": (T.IQ4_NL, T.Q6_K), "f16": (T.F16, T.F16)}
# byte offset and value of each block's half-precision scales, so that weights come out near N(0, 0.02)
SCALES = {T.Q4_K: {0: 1.2e-4, 2: 9e-4}, T.Q5_K: {0: 6e-5, 2: 9e-4}, T.Q6_K: {208: 2e-5}, T.Q8_0: {0: 2.7e-4},
          T.Q4_0: {0: 4e-3}, T.Q4_1: {0: 4e-3, 2: -0.03}, T.Q5_0: {0: 2e-3}, T.Q5_1: {0: 2e-3, 2: -0.03}, T.IQ4_NL: {0: 3e-4}}
rng = np.random.default_rng(0)


def random_matrix(rows, cols, kind):
    """Raw bytes [rows, bytes per row] of a random matrix in `kind`."""
    if kind in (T.F32, T.F16):
        a = rng.standard_normal((rows, cols), dtype=np.float32) * np.float32(0.02)
        return a.astype(np.float16) if kind == T.F16 else a
    size, nbytes = gguf.GGML_QUANT_SIZES[kind]
    if cols % size:
        raise SystemExit(f"{cols} columns do not divide into blocks of {size} ({kind.name})")
    blocks = rows * cols // size
    some = rng.integers(0, 256, (min(blocks, 1 << 14), nbytes), dtype=np.uint8)
    for offset, value in SCALES[kind].items():
        some[:, offset:offset + 2] = np.array([value], np.float16).view(np.uint8)
    return np.tile(some, (-(-blocks // len(some)), 1))[:blocks].reshape(rows, cols // size * nbytes)


def zero_matrix(rows, cols, kind):
    if kind in (T.F32, T.F16):
        return np.zeros((rows, cols), np.float16 if kind == T.F16 else np.float32)
    size, nbytes = gguf.GGML_QUANT_SIZES[kind]
    return np.zeros((rows, cols // size * nbytes), np.uint8)


def byte_vocabulary(writer):
    """256 byte-level tokens, two merges, special tokens, padding up to 300."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    glyph, extra = {}, 0
    for byte in range(256):
        glyph[byte] = chr(byte) if byte in keep else chr(256 + (extra := extra + 1) - 1)
    tokens = [glyph[b] for b in range(256)] + ["th", "the", "<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    types = [1] * 258 + [3] * 3
    pad = 300 - len(tokens)
    writer.add_tokenizer_model("gpt2"); writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens + [f"[PAD{i}]" for i in range(pad)]); writer.add_token_types(types + [5] * pad)
    writer.add_token_merges(["t h", "th e"])
    writer.add_bos_token_id(260); writer.add_eos_token_id(259)


def copy_vocabulary(writer, path, rows):
    fields = gguf.GGUFReader(path).fields
    get = lambda key: fields[key].contents()
    tokens, types = get("tokenizer.ggml.tokens"), get("tokenizer.ggml.token_type")
    tokens = (tokens + [f"[PAD{i}]" for i in range(len(tokens), rows)])[:rows]
    types = (types + [5] * (rows - len(types)))[:rows]
    writer.add_tokenizer_model(get("tokenizer.ggml.model"))
    if "tokenizer.ggml.pre" in fields:
        writer.add_tokenizer_pre(get("tokenizer.ggml.pre"))
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    if "tokenizer.ggml.merges" in fields:
        writer.add_token_merges(get("tokenizer.ggml.merges"))
    if "tokenizer.ggml.scores" in fields:
        writer.add_token_scores((get("tokenizer.ggml.scores") + [0.0] * rows)[:rows])
    for key, add in (("bos", writer.add_bos_token_id), ("eos", writer.add_eos_token_id)):
        if f"tokenizer.ggml.{key}_token_id" in fields:
            add(int(get(f"tokenizer.ggml.{key}_token_id")))


def make_random(shape, mix, out):
    c, (low, high) = SHAPES[shape], MIXES[mix]
    w = gguf.GGUFWriter(out, c["arch"])
    w.add_name(f"{shape}-random")
    w.add_block_count(c["L"]); w.add_context_length(32768); w.add_embedding_length(c["D"]); w.add_feed_forward_length(c["F"])
    w.add_head_count(c["H"]); w.add_head_count_kv(c["KV"]); w.add_key_length(c["hd"]); w.add_value_length(c["hd"])
    w.add_rope_freq_base(c["base"]); w.add_rope_dimension_count(c["hd"]); w.add_layer_norm_rms_eps(1e-6); w.add_vocab_size(c["V"])
    byte_vocabulary(w) if c["vocab"] is None else copy_vocabulary(w, VOCAB / f"{c['vocab']}.gguf", c["V"])
    D, F, L, q, kv = c["D"], c["F"], c["L"], c["H"] * c["hd"], c["KV"] * c["hd"]
    matrix = lambda name, rows, cols, kind: w.add_tensor(name, random_matrix(rows, cols, kind), raw_dtype=kind)
    vector = lambda name, n, value=1.0: w.add_tensor(name, np.full(n, value, np.float32))
    matrix("token_embd.weight", c["V"], D, high if c["tie"] else low)
    if not c["tie"]:
        matrix("output.weight", c["V"], D, high)
    vector("output_norm.weight", D)
    for i in range(L):
        more = i < L // 8 or i >= 7 * L // 8 or (i - L // 8) % 3 == 2      # which layers the mix keeps at higher precision
        b = f"blk.{i}."
        vector(b + "attn_norm.weight", D); vector(b + "ffn_norm.weight", D)
        matrix(b + "attn_q.weight", q, D, low); matrix(b + "attn_k.weight", kv, D, low)
        matrix(b + "attn_v.weight", kv, D, high if more else low); matrix(b + "attn_output.weight", D, q, low)
        if c["arch"] == "qwen3":
            vector(b + "attn_q_norm.weight", c["hd"]); vector(b + "attn_k_norm.weight", c["hd"])
        if c["arch"] == "qwen2":
            vector(b + "attn_q.bias", q, 0); vector(b + "attn_k.bias", kv, 0); vector(b + "attn_v.bias", kv, 0)
        matrix(b + "ffn_gate.weight", F, D, low); matrix(b + "ffn_up.weight", F, D, low)
        matrix(b + "ffn_down.weight", D, F, high if more else low)
    finish(w)


def copy_metadata(r, out, replace={}):
    arch = r.fields["general.architecture"].contents()
    w = gguf.GGUFWriter(out, arch)
    for key, f in r.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        kind, value = f.types[0], replace.get(key, f.contents())
        w.add_key_value(key, value, kind, sub_type=f.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    return w


def rewrite(source, out, change):
    """Every matrix of `source` through change(tensor) -> raw bytes; vectors as they are."""
    r = gguf.GGUFReader(source)
    w = copy_metadata(r, out)
    for t in r.tensors:
        w.add_tensor(t.name, np.array(t.data) if len(t.shape) < 2 else change(t), raw_dtype=t.tensor_type)
    finish(w)


def scramble(source, out):
    rewrite(source, out, lambda t: random_matrix(int(t.shape[1]), int(t.shape[0]), t.tensor_type))


def perturb(source, sigma, out):
    def noisy(t):
        a, kind = np.array(t.data), t.tensor_type
        if kind in (T.F32, T.F16):
            return (a * (1 + sigma * rng.standard_normal(a.shape))).astype(a.dtype)
        nbytes = gguf.GGML_QUANT_SIZES[kind][1]
        blocks = a.reshape(-1, nbytes)
        for offset in SCALES[kind]:
            scale = blocks[:, offset:offset + 2].copy().view(np.float16).astype(np.float32)
            scale *= 1 + sigma * rng.standard_normal(scale.shape, dtype=np.float32)
            blocks[:, offset:offset + 2] = scale.astype(np.float16).view(np.uint8)
        return blocks.reshape(a.shape)
    rewrite(source, out, noisy)


def deepen(source, layers, out):
    r = gguf.GGUFReader(source)
    arch = r.fields["general.architecture"].contents()
    old = int(r.fields[f"{arch}.block_count"].contents())
    if layers <= old:
        raise SystemExit(f"LAYERS must be more than {old}")
    w = copy_metadata(r, out, {f"{arch}.block_count": layers})
    zeroed, kept = ("attn_output.weight", "ffn_down.weight"), ("_norm.weight",)
    for t in r.tensors:
        w.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
    last = [t for t in r.tensors if t.name.startswith(f"blk.{old - 1}.")]
    for i in range(old, layers):
        for t in last:
            name = t.name.replace(f"blk.{old - 1}.", f"blk.{i}.")
            if t.name.endswith(kept):
                w.add_tensor(name, np.array(t.data), raw_dtype=t.tensor_type)
                continue
            cols, rows = (int(n) for n in t.shape)
            make = zero_matrix if t.name.endswith(zeroed) else random_matrix
            w.add_tensor(name, make(rows, cols, t.tensor_type), raw_dtype=t.tensor_type)
    finish(w)


def finish(w):
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["random", shape, mix, out]: make_random(shape, mix, out)
        case ["deepen", source, layers, out]: deepen(source, int(layers), out)
        case ["perturb", source, sigma, out]: perturb(source, float(sigma), out)
        case ["scramble", source, out]: scramble(source, out)
        case _: raise SystemExit(__doc__)
