"""Small models whose memory lies in different places: vocabulary, weights or cache."""
import make_model

# layers, width, ffn, heads, kv heads, head size, rope base, tied embeddings, vocabulary rows; see make_model.SHAPES
SHAPES = {
    "nano": make_model.SHAPES["nano"],
    # A vocabulary of 151,936 tokens on next to no layers.
    "words": dict(arch="qwen3", vocab="qwen2", L=1, D=128, F=128, H=2, KV=1, hd=64, base=1e6, tie=True, V=151936),
    # 64 KiB of cache a token.
    "cache": dict(arch="llama", vocab=None, L=8, D=64, F=64, H=32, KV=32, hd=64, base=1e4, tie=True, V=300),
    # 300 MB of weights.
    "weights": dict(arch="llama", vocab=None, L=24, D=1024, F=3072, H=8, KV=1, hd=64, base=1e4, tie=True, V=300),
}


def make(shape, path):
    make_model.SHAPES[f"memory-{shape}"] = SHAPES[shape]
    make_model.make_random(f"memory-{shape}", "q8_0", str(path))
    return path
