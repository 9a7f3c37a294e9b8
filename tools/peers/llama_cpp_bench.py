#!/usr/bin/env python3
"""Times llama.cpp on one model through the low-level API of llama-cpp-python, the way llama-bench does, and prints one
JSON object shaped like `martlet bench --json`. Build the package natively:
  CMAKE_ARGS=-DGGML_NATIVE=ON pip install --no-binary llama-cpp-python llama-cpp-python"""
import argparse
import ctypes
import json
import statistics
import sys
import time

import llama_cpp as ll

COMPUTED = 512  # of the context that decoding starts from, so many tokens are computed
CACHE_TYPES = {"f16": ll.GGML_TYPE_F16, "q8": ll.GGML_TYPE_Q8_0, "q4": ll.GGML_TYPE_Q4_0}

def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("-p", type=int, default=512, help="prompt tokens (0: no prefill)")
    p.add_argument("-n", type=int, default=128, help="generated tokens (0: no decode)")
    p.add_argument("-b", type=int, default=1, help="sequences decoded together")
    p.add_argument("-d", type=int, default=0, help="tokens in each sequence's context before timing")
    p.add_argument("-r", type=int, default=1, help="repeats, the median is printed")
    p.add_argument("-t", type=int, default=2, help="threads")
    p.add_argument("--flash", action="store_true", help="flash attention")
    p.add_argument("--cache-type", choices=CACHE_TYPES, default="f16", help="how keys and values are kept")
    p.add_argument("--ubatch", type=int, default=512, help="physical batch of prefill")
    p.add_argument("--on-demand", action="store_true",
                   help="measure once for each line on standard input, which says with how many threads")
    return p.parse_args()


def open_model(args):
    quiet = ll.llama_log_callback(lambda level, text, data: None)
    ll.llama_log_set(quiet, ctypes.c_void_p())
    ll.llama_backend_init()
    model = ll.llama_model_load_from_file(args.model.encode(), ll.llama_model_default_params())
    params = ll.llama_context_default_params()
    params.n_ctx = args.b * (args.d + args.n + 64) + args.p + COMPUTED + 64
    params.n_batch, params.n_ubatch = max(2048, args.b), args.ubatch
    params.n_seq_max = args.b + 1  # one to copy from
    params.n_threads = params.n_threads_batch = args.t
    params.kv_unified = True
    params.type_k = params.type_v = CACHE_TYPES[args.cache_type]
    if hasattr(params, "flash_attn_type"):
        params.flash_attn_type = 1 if args.flash else 0
    else:
        params.flash_attn = args.flash
    return model, ll.llama_init_from_model(model, params), quiet


def decode(context, batch, rows):
    """rows: [(token, position, sequence, wants logits)]"""
    batch.n_tokens = len(rows)
    for i, (token, position, sequence, output) in enumerate(rows):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, position, 1, output
        batch.seq_id[i][0] = sequence
    if ll.llama_decode(context, batch) != 0:
        raise SystemExit("llama_decode failed")
    ll.llama_synchronize(context)


def clear(context):
    ll.llama_memory_clear(ll.llama_get_memory(context), True)


def prefill(context, batch, count, sequence=0, chunk=2048):
    for begin in range(0, count, chunk):
        end = min(count, begin + chunk)
        decode(context, batch, [(1 + i % 1000, i, sequence, i == count - 1) for i in range(begin, end)])


def fill_contexts(context, batch, count, sequences):
    """`count` tokens in the cache of each sequence, every cell its own; what lies in them are copies of the first few."""
    memory, spare = ll.llama_get_memory(context), sequences
    prefill(context, batch, min(count, COMPUTED), spare)
    size = ll.llama_state_seq_get_size(context, spare)
    state = (ctypes.c_uint8 * size)()
    if ll.llama_state_seq_get_data(context, state, size, spare) != size:
        raise SystemExit("llama_state_seq_get_data failed")
    ll.llama_memory_seq_rm(memory, spare, -1, -1)
    for sequence in range(sequences):
        for first in range(0, count, COMPUTED):
            if ll.llama_state_seq_set_data(context, state, size, spare) != size:
                raise SystemExit("llama_state_seq_set_data failed")
            ll.llama_memory_seq_add(memory, spare, -1, -1, first)
            ll.llama_memory_seq_cp(memory, spare, sequence, -1, -1)
            ll.llama_memory_seq_rm(memory, spare, -1, -1)


class Bench:
    def __init__(self, args):
        self.args = args
        self.model, self.context, self.quiet = open_model(args)
        self.batch = ll.llama_batch_init(2048, 0, 1)
        self.deep = False                           # whether the context that decoding starts from lies in the cache
        clear(self.context)
        prefill(self.context, self.batch, 32)       # warm-up

    def prefill(self):
        clear(self.context)
        begin = time.perf_counter()
        prefill(self.context, self.batch, self.args.p)
        return self.args.p / (time.perf_counter() - begin)

    def decode(self):
        args, context = self.args, self.context
        if not self.deep:
            clear(context)
            if args.d:
                fill_contexts(context, self.batch, args.d, args.b)
            self.deep = True
        for sequence in range(args.b):
            ll.llama_memory_seq_rm(ll.llama_get_memory(context), sequence, args.d, -1)
        decode(context, self.batch, [(1, args.d, s, True) for s in range(args.b)])
        begin = time.perf_counter()
        for i in range(args.n):
            decode(context, self.batch, [(1 + (i * 7 + s) % 1000, args.d + 1 + i, s, True) for s in range(args.b)])
        return args.b * args.n / (time.perf_counter() - begin)

    def report(self, threads, repeats):
        args = self.args
        ll.llama_set_n_threads(self.context, threads, threads)
        out = {"engine": f"llama-cpp-python {ll.__version__}", "threads": threads, "flash": args.flash, "prefill": [],
               "decode": []}
        if args.p:
            rate = statistics.median(self.prefill() for _ in range(repeats))
            self.deep = False
            out["prefill"] = [{"tokens": args.p, "tokens_per_s": rate}]
        if args.n:
            rate = statistics.median(self.decode() for _ in range(repeats))
            out["decode"] = [{"batch": args.b, "context": args.d, "tokens_per_s": rate}]
        print(json.dumps(out), flush=True)


def main():
    args = parse()
    bench = Bench(args)
    if not args.on_demand:
        return bench.report(args.t, args.r)
    for line in sys.stdin:
        bench.report(int(line), args.r)


if __name__ == "__main__":
    main()
