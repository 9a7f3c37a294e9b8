#!/usr/bin/env python3
"""Martlet beside llama.cpp on the same file: runs the two in turn, A B A B, and prints the median of the ratios with their
spread. Machines are shared and noisy; a ratio taken in one run is what counts.

  compare.py MODEL [--python PYTHON with llama-cpp-python] [--martlet PROGRAM] [--pairs 5] [--threads 2] [--json]
             [--work prefill:512 --work decode:1 --work decode:8 --work decode:1@4096 ...]

The peer runs at its best: before the pairs, flash attention on and off and one and two threads are tried for each work,
and the fastest setting is kept and printed."""
import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--martlet", default=str(HERE.parent.parent / "build/release/martlet"))
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--tokens", type=int, default=128, help="generated tokens of a decode work")
    p.add_argument("--work", action="append")
    p.add_argument("--json", action="store_true")
    return p.parse_args()


class Work:
    """prefill:TOKENS or decode:BATCH[@CONTEXT]"""

    def __init__(self, text, tokens):
        self.text = text
        kind, _, rest = text.partition(":")
        size, _, depth = rest.partition("@")
        if kind == "prefill":
            self.flags = ["-p", size, "-n", "0"]
        elif kind == "decode":
            self.flags = ["-p", "0", "-n", str(tokens), "-b", size, "-d", depth or "0"]
        else:
            raise SystemExit(f"unknown work: {text}")
        self.kind = kind

    def rate(self, command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
        report = json.loads(done.stdout.strip().splitlines()[-1])
        return report[self.kind][0]["tokens_per_s"], report


def best_peer(args, work):
    """(command, setting) of the fastest llama.cpp setting."""
    best = None
    for threads in sorted({1, args.threads}):
        for flash in (False, True):
            command = [args.python, str(HERE / "llama_cpp_bench.py"), args.model, *work.flags, "-r", "1", "-t", str(threads)]
            command += ["--flash"] if flash else []
            rate, _ = work.rate(command)
            if best is None or rate > best[0]:
                best = (rate, command, f"{threads} threads, flash attention {'on' if flash else 'off'}")
    return best[1], best[2]


def compare(args, work):
    peer, setting = best_peer(args, work)
    ours = [args.martlet, "bench", args.model, *work.flags, "-r", "1", "--threads", str(args.threads), "--json"]
    pairs, bandwidths = [], []
    for _ in range(args.pairs):
        mine, report = work.rate(ours)
        theirs, _ = work.rate(peer)
        pairs.append((mine, theirs))
        bandwidths.append(report.get("bandwidth_gb_s", 0))
    ratios = sorted(a / b for a, b in pairs)
    return {
        "work": work.text, "martlet": statistics.median(a for a, _ in pairs), "peer": statistics.median(b for _, b in pairs),
        "ratio": statistics.median(ratios), "low": ratios[0], "high": ratios[-1], "pairs": len(pairs), "peer_setting": setting,
        "bandwidth_gb_s": statistics.median(bandwidths),
    }


def main():
    args = parse()
    rows = []
    print(f"{'work':<16}{'martlet':>10}{'llama.cpp':>11}{'ratio':>8}   spread        peer setting", file=sys.stderr)
    for text in args.work or ["prefill:512", "decode:1", "decode:8"]:
        row = compare(args, Work(text, args.tokens))
        rows.append(row)
        print(f"{row['work']:<16}{row['martlet']:>10.1f}{row['peer']:>11.1f}{row['ratio']:>8.2f}   "
              f"{row['low']:.2f} - {row['high']:.2f}   {row['peer_setting']}", file=sys.stderr)
    if args.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
