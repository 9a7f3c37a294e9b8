"""Small models whose memory lies in different places: vocabulary, weights or cache; and a large one of holes."""
import numpy as np

import gguf
import make_model

# layers, width, ffn, heads, kv heads, head size, rope base, tied embeddings, vocabulary rows; see make_model.SHAPES
SHAPES = {
    "nano": make_model.SHAPES["nano"],
    # A vocabulary of 151,936 tokens on next to no layers.
    "words": dict(arch="qwen3", vocab="qwen2", L=1, D=128, F=128, H=2, KV=1, hd=64, base=1e6, tie=True, V=151936),
    # 64 KiB of cache a token.
    "cache": dict(arch="llama", vocab=None, L=8, D=64, F=64, H=32, KV=32, hd=64, base=1e4, tie=True, V=300),
    # 32 KiB of cache a token, and narrow steps.
    "deep": dict(arch="llama", vocab=None, L=64, D=64, F=64, H=2, KV=2, hd=64, base=1e4, tie=True, V=300),
    # 300 MB of weights.
    "weights": dict(arch="llama", vocab=None, L=24, D=1024, F=3072, H=8, KV=1, hd=64, base=1e4, tie=True, V=300),
}


def make(shape, path):
    make_model.SHAPES[f"memory-{shape}"] = SHAPES[shape]
    make_model.make_random(f"memory-{shape}", "q8_0", str(path))
    return path


def make_hollow(shape, mix, path):
    """A model of full size whose matrices are holes of the file: zeros that take no disk and no time, but all their memory
    once they are read."""
    c, (low, high) = make_model.SHAPES[shape], make_model.MIXES[mix]
    w = gguf.GGUFWriter(str(path), c["arch"])
    w.add_name(f"{shape}-hollow")
    w.add_block_count(c["L"]), w.add_context_length(32768), w.add_embedding_length(c["D"])
    w.add_feed_forward_length(c["F"]), w.add_head_count(c["H"]), w.add_head_count_kv(c["KV"])
    w.add_key_length(c["hd"]), w.add_value_length(c["hd"]), w.add_rope_freq_base(c["base"])
    w.add_rope_dimension_count(c["hd"]), w.add_layer_norm_rms_eps(1e-6), w.add_vocab_size(c["V"])
    make_model.byte_vocabulary(w) if c["vocab"] is None else \
        make_model.copy_vocabulary(w, make_model.VOCAB / f"{c['vocab']}.gguf", c["V"])
    q, kv, size = c["H"] * c["hd"], c["KV"] * c["hd"], 0

    def tensor(name, rows, columns, kind):
        nonlocal size
        block, bytes_ = gguf.GGML_QUANT_SIZES[kind]
        count = rows * columns // block * bytes_
        w.add_tensor_info(name, [columns] if rows == 1 else [rows, columns], np.dtype(np.float32), count, raw_dtype=kind)
        size += -(-count // 32) * 32

    tensor("token_embd.weight", c["V"], c["D"], low)
    tensor("output.weight", c["V"], c["D"], high)
    tensor("output_norm.weight", 1, c["D"], gguf.GGMLQuantizationType.F32)
    for i in range(c["L"]):
        more = i < c["L"] // 8 or i >= 7 * c["L"] // 8 or (i - c["L"] // 8) % 3 == 2
        for name, rows, columns, kind in (
                ("attn_norm", 1, c["D"], None), ("ffn_norm", 1, c["D"], None), ("attn_q_norm", 1, c["hd"], None),
                ("attn_k_norm", 1, c["hd"], None), ("attn_q", q, c["D"], low), ("attn_k", kv, c["D"], low),
                ("attn_v", kv, c["D"], high if more else low), ("attn_output", c["D"], q, low),
                ("ffn_gate", c["F"], c["D"], low), ("ffn_up", c["F"], c["D"], low),
                ("ffn_down", c["D"], c["F"], high if more else low)):
            tensor(f"blk.{i}.{name}.weight", rows, columns, kind or gguf.GGMLQuantizationType.F32)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_ti_data_to_file(), w.close()
    with open(path, "r+b") as file:
        begin = -(-file.seek(0, 2) // 32) * 32
        file.truncate(begin + size)
    return path
