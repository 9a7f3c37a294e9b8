#!/usr/bin/env python3
"""Martlet beside llama.cpp on the same file: runs the two in turn, A B A B, and prints the median of the ratios with their
spread. Machines are shared and noisy; a ratio taken in one run is what counts.

  compare.py MODEL [--python PYTHON with llama-cpp-python] [--martlet PROGRAM] [--pairs 5] [--threads 2]
             [--cache-type f16|q8|q4] [--work WORK]... [--json | --markdown]

WORK is prefill:TOKENS, or decode:BATCH with @CONTEXT for tokens that lie in the cache before; either may end in
/THREADS (both programs get so many) or in +busy (`stress-ng --cpu 1` runs beside both). decode:1+busy=1 compares Martlet
beside that neighbour with itself on one thread. "Of limit" is the share of the measured 8-bit peak that Martlet used in
prefill, and of the measured read bandwidth in decoding.

The peer runs at its best: before the pairs, flash attention on and off are tried for each work, for one stream also one
thread and all, and for prefill physical batches of 128 and 512; the fastest setting is kept and printed. Caches of q8 and q4
it has with flash attention alone. Of a context behind which both decode, 512 tokens are computed and the others are copies."""
import argparse
import contextlib
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEFAULT_WORKS = ["prefill:512", "decode:1", "decode:1/1", "decode:8", "decode:32"]


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--martlet", default=str(HERE.parent.parent / "build/release/martlet"))
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--tokens", type=int, default=128, help="tokens that a decode work generates, over all its sequences")
    p.add_argument("--cache-type", choices=("f16", "q8", "q4"), default="f16", help="of both programs")
    p.add_argument("--work", action="append", type=Work)
    p.add_argument("--json", action="store_true")
    p.add_argument("--markdown", action="store_true", help="print a table for a document")
    return p.parse_args()


class Work:
    PATTERN = re.compile(r"(prefill|decode):(\d+)(?:@(\d+))?(?:/(\d+))?(\+busy)?(=1)?")

    def __init__(self, text):
        match = self.PATTERN.fullmatch(text)
        if not match:
            raise argparse.ArgumentTypeError(f"unknown work: {text}")
        self.text, self.kind = text, match[1]
        self.size, self.depth, self.threads = int(match[2]), int(match[3] or 0), int(match[4] or 0)
        self.busy, self.against_itself = bool(match[5]), bool(match[6])

    def flags(self, tokens):
        if self.kind == "prefill":
            return ["-p", str(self.size), "-n", "0"]
        each = max(8, tokens // self.size)
        return ["-p", "0", "-n", str(each), "-b", str(self.size), "-d", str(self.depth)]

    def peer_threads(self, all_threads):
        """To be tried: where the memory limits the speed, or a neighbour, one may be the faster."""
        if self.threads:
            return [self.threads]
        return sorted({1, all_threads}) if self.kind == "decode" and self.size == 1 else [all_threads]

    def rate(self, report):
        return report[self.kind][0]["tokens_per_s"]


class Martlet:
    def __init__(self, args, work, threads):
        self.work, self.setting, self.reports = work, f"{threads} thread{'s' * (threads > 1)}", []
        self.command = [args.martlet, "bench", args.model, *work.flags(args.tokens), "-r", "1",
                        "--threads", str(threads), "--cache-type", args.cache_type, "--json"]

    def rate(self):
        done = subprocess.run(self.command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(self.command)} failed:\n{done.stderr}")
        self.reports.append(json.loads(done.stdout))
        return self.work.rate(self.reports[-1])

    def close(self):
        pass


class LlamaCpp:
    """One process that keeps model and context, and measures once for each line it reads."""

    def __init__(self, args, work, flash, ubatch):
        self.work, self.flash, self.ubatch, self.threads = work, flash, ubatch, args.threads
        command = [args.python, str(HERE / "llama_cpp_bench.py"), args.model, *work.flags(args.tokens), "--on-demand",
                   "--ubatch", str(ubatch), "--cache-type", args.cache_type, *(["--flash"] if flash else [])]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @property
    def setting(self):
        parts = [f"{self.threads} thread{'s' * (self.threads > 1)}", f"flash attention {'on' if self.flash else 'off'}"]
        return ", ".join(parts + ([f"batches of {self.ubatch}"] if self.work.kind == "prefill" else []))

    def rate(self):
        print(self.threads, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("llama_cpp_bench.py failed")
        return self.work.rate(json.loads(line))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def best_peer(args, work):
    """The fastest llama.cpp setting, running."""
    best, best_rate = None, 0
    for flash in (False, True) if args.cache_type == "f16" else (True,):
        for ubatch in (128, 512) if work.kind == "prefill" and work.size > 128 else (512,):
            peer, fastest = LlamaCpp(args, work, flash, ubatch), (0, 0)
            for threads in work.peer_threads(args.threads):
                peer.threads = threads
                fastest = max(fastest, (peer.rate(), threads))
            rate, peer.threads = fastest
            if rate > best_rate:
                best, peer, best_rate = peer, best, rate
            if peer:
                peer.close()
    return best


@contextlib.contextmanager
def neighbour(busy):
    if not busy:
        yield
        return
    process = subprocess.Popen(["stress-ng", "--cpu", "1", "--quiet"])
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def compare(args, work):
    with neighbour(work.busy):
        ours = Martlet(args, work, work.threads or args.threads)
        peer = Martlet(args, work, 1) if work.against_itself else best_peer(args, work)
        pairs = [(ours.rate(), peer.rate()) for _ in range(args.pairs)]
        peer.close()
    ratios = sorted(a / b for a, b in pairs)
    row = {"work": work.text, "martlet": statistics.median(a for a, _ in pairs),
           "peer": statistics.median(b for _, b in pairs), "ratio": statistics.median(ratios), "low": ratios[0],
           "high": ratios[-1], "pairs": len(pairs), "peer_setting": peer.setting}
    limit = "of_peak" if work.kind == "prefill" else "of_bandwidth"
    row["of_limit"] = statistics.median(report[work.kind][0][limit] for report in ours.reports)
    row["bandwidth_gb_s"] = statistics.median(report["bandwidth_gb_s"] for report in ours.reports)
    return row


def processor():
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "unknown processor"


def main():
    args = parse()
    rows = []
    print(f"{processor()}, {Path(args.model).name}, cache {args.cache_type}, {args.pairs} pairs", file=sys.stderr)
    print(f"{'work':<18}{'martlet':>9}{'peer':>9}{'ratio':>7}  {'spread':<14}{'of limit':>8}{'GB/s':>7}  peer's setting",
          file=sys.stderr)
    for work in args.work or [Work(text) for text in DEFAULT_WORKS]:
        row = compare(args, work)
        rows.append(row)
        print(f"{row['work']:<18}{row['martlet']:>9.1f}{row['peer']:>9.1f}{row['ratio']:>7.2f}  "
              f"{row['low']:.2f} - {row['high']:.2f}   {row['of_limit']:>7.0%}{row['bandwidth_gb_s']:>7.1f}  "
              f"{row['peer_setting']}", file=sys.stderr, flush=True)
    if args.json:
        print(json.dumps(rows, indent=1))
    if args.markdown:
        print("| work | Martlet | peer | ratio | spread | of the limit | peer's setting |\n|---|---|---|---|---|---|---|")
        for row in rows:
            print(f"| {row['work']} | {row['martlet']:.0f} | {row['peer']:.0f} | {row['ratio']:.2f} | {row['low']:.2f} to "
                  f"{row['high']:.2f} | {row['of_limit']:.0%} | {row['peer_setting']} |")


if __name__ == "__main__":
    main()
