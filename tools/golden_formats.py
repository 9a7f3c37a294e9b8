#!/usr/bin/env python3
"""Writes tests/golden/formats/NAME.bin: blocks of each storage format that computes, and what they dequantize to.

Needs: pip install gguf numpy. A file holds N blocks as they lie in a GGUF file, then their values as little-endian f32;
N follows from the file's size. The values come from the `gguf` package, an implementation that shares no code with ours.
"""
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

OUT = Path(__file__).resolve().parent.parent / "tests" / "golden" / "formats"
# Format -> byte offsets of the half-precision fields of a block.
HALVES = {
    T.F32: [], T.F16: [0], T.BF16: [],
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.IQ4_NL: [0], T.MXFP4: [],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_XS: [0],
}
# Largest, smallest normal, largest and smallest subnormal, zeros of both signs; then ordinary ones.
EXTREMES = np.array([65504, -65504, 6.104e-05, 6.0976e-05, -5.96e-08, 5.96e-08, 0.0, -0.0], np.float16)


def blocks_of(kind, rng):
    elements, nbytes = gguf.GGML_QUANT_SIZES[kind]
    count = {1: 200, 32: 28, 256: 10}[elements]
    blocks = rng.integers(0, 256, (count, nbytes), dtype=np.uint8)
    for offset in HALVES[kind]:
        halves = rng.normal(0, 0.02, count).astype(np.float16)
        halves[:len(EXTREMES)] = rng.permutation(EXTREMES)
        blocks[:, offset:offset + 2] = halves.view(np.uint8).reshape(count, 2)
    if kind == T.MXFP4:
        blocks[:6, 0] = [0, 1, 2, 127, 254, 255]
    return blocks


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for kind in HALVES:
        blocks = blocks_of(kind, np.random.default_rng(kind.value))
        with np.errstate(all="ignore"):
            values = gguf.quants.dequantize(blocks, kind).astype("<f4")
        (OUT / f"{kind.name}.bin").write_bytes(blocks.tobytes() + values.tobytes())


if __name__ == "__main__":
    main()
