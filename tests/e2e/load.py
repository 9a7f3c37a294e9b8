"""A load generator that leaves the processor to the server: one thread, raw sockets, and no JSON on the way.

    python tests/e2e/load.py http://127.0.0.1:8080 --streams 1,4,8,16,32 --tokens 48 --draw

prints aggregate tokens a second, time to the first token and time between tokens for each number of streams. Every
stream is a streamed POST /v1/completions with a prompt of its own, so it drives other servers of that API as well. --draw
asks martlet for /metrics twice a second and draws what it said.

    python tests/e2e/load.py http://127.0.0.1:8080 --streams 8 --arriving 4096

prints the time between tokens of eight running streams before a prompt of so many tokens arrives among them, and until
its first token is there.
"""
import argparse
import json
import random
import re
import selectors
import socket
import threading
import time
import urllib.request
from urllib.parse import urlsplit

WORDS = "river stone lamp green walk seven cloud paper north glass".split()


def text_prompt(seed, words):
    choose = random.Random(seed)
    return " ".join(choose.choice(WORDS) for _ in range(words))


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else float("nan")


class Stream:
    """One streamed completion: arrival times of its events."""

    def __init__(self, port, body, key=None, host="127.0.0.1", timeout=600):
        data = json.dumps({"stream": True, "temperature": 0, **body}).encode()
        authorization = f"Authorization: Bearer {key}\r\n" if key else ""
        self.sock = socket.create_connection((host, port), timeout=timeout)
        self.sent = time.perf_counter()
        self.sock.sendall((f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           f"Connection: close\r\n{authorization}Content-Length: {len(data)}\r\n\r\n").encode() + data)
        self.received, self.events, self.done = bytearray(), [], False

    def read(self):
        """Takes what has come; an event counts when it carries text."""
        piece = self.sock.recv(1 << 16)
        now = time.perf_counter()
        if not piece:
            self.done = True
            return
        self.received += piece
        for _ in range(piece.count(b'"text"')):
            self.events.append(now)
        if b"data: [DONE]" in self.received[-64 - len(piece):]:
            self.done = True

    @property
    def status(self):
        return int(self.received[9:12]) if self.received.startswith(b"HTTP/1.1 ") else 0

    @property
    def complete(self):
        return self.status == 200 and b"data: [DONE]" in self.received

    def first(self):
        return self.events[0] - self.sent if self.events else float("nan")

    def gaps(self):
        return [b - a for a, b in zip(self.events, self.events[1:])]

    def close(self):
        self.sock.close()


def drain(streams, until=None):
    """Reads all streams until they are done, or `until()`."""
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            if not stream.done:
                selector.register(stream.sock, selectors.EVENT_READ, stream)
        while selector.get_map() and not (until and until()):
            for ready, _ in selector.select(timeout=60):
                ready.data.read()
                if ready.data.done:
                    selector.unregister(ready.fileobj)
    return streams


def together(run):
    """Tokens a second while all streams have begun and none has ended; not a number where no such time was."""
    begin, end = max(stream.events[0] for stream in run), min(stream.events[-1] for stream in run)
    count = sum(begin < event <= end for stream in run for event in stream.events)
    return count / (end - begin) if end > begin else float("nan")


def measure(port, streams, tokens, prompt, key=None, temperature=0):
    """{"streams", "tokens_per_s", "decode_tokens_per_s", "ttft_p50", "ttft_p99", "gap_p50", "gap_p99"} of that many
    answers at once; the first rate is over the whole time, prompts included."""
    began = time.perf_counter()
    body = {"max_tokens": tokens, "ignore_eos": True, "temperature": temperature}
    run = drain([Stream(port, {**body, "prompt": prompt(i)}, key) for i in range(streams)])
    for stream in run:
        stream.close()
        assert stream.complete, bytes(stream.received[:300])
    ended = max(stream.events[-1] for stream in run)
    gaps = [gap for stream in run for gap in stream.gaps()]
    firsts = [stream.first() for stream in run]
    return {"streams": streams, "tokens_per_s": streams * tokens / (ended - began), "decode_tokens_per_s": together(run),
            "ttft_p50": percentile(firsts, 0.5), "ttft_p99": percentile(firsts, 0.99),
            "gap_p50": percentile(gaps, 0.5), "gap_p99": percentile(gaps, 0.99)}


def arriving(port, streams, tokens, choose, key=None):
    """Gaps of `streams` running answers, 64 tokens of each, and then while a prompt of so many tokens is read, and the
    seconds until its own first token: {"before", "during", "ttft"}. The streams are then cut off."""
    ids = lambda count: [choose.randrange(256, 1000) for _ in range(count)]
    body = {"max_tokens": 4096, "ignore_eos": True}
    run = [Stream(port, {**body, "prompt": ids(24)}, key) for _ in range(streams)]
    drain(run, until=lambda: all(stream.events for stream in run))
    begun = {stream: len(stream.events) for stream in run}
    drain(run, until=lambda: all(len(stream.events) >= begun[stream] + 64 for stream in run))
    before = [gap for stream in run for gap in stream.gaps()[begun[stream]:]]
    counts = {stream: len(stream.events) for stream in run}
    late = Stream(port, {"prompt": ids(tokens), "max_tokens": 1, "ignore_eos": True}, key)
    drain(run + [late], until=lambda: late.events or late.done)
    assert late.events and not any(stream.done for stream in run), bytes(late.received[:300])
    for stream in run + [late]:
        stream.close()
    during = [gap for stream in run for gap in stream.gaps()[counts[stream] - 1:]]
    return {"before": before, "during": during, "ttft": late.first()}


def arrival_text(figures):
    lines = [f"{'':8}between p50 ms  between p99 ms"]
    shares = {name: [1e3 * percentile(figures[name], share) for share in (0.5, 0.99)] for name in ("before", "during")}
    shares["times"] = [b / a for a, b in zip(shares["before"], shares["during"])]
    for name, (median, tail) in shares.items():
        lines.append(f"{name:8}{median:14.1f}  {tail:14.1f}")
    return "\n".join(lines + [f"its first token after {figures['ttft']:.1f} s"])


def table(rows):
    """The curve as text; `decoding`: while all streams decode, `x one`: that against the first row's."""
    lines = ["streams  tokens/s  decoding  x one  TTFT p50 ms  TTFT p99 ms  between p50 ms  between p99 ms"]
    for row in rows:
        decoding = row["decode_tokens_per_s"]
        lines.append(f"{row['streams']:7d} {row['tokens_per_s']:9.1f} {decoding:9.1f}"
                     f" {decoding / rows[0]['decode_tokens_per_s']:6.2f}"
                     f" {1e3 * row['ttft_p50']:12.0f} {1e3 * row['ttft_p99']:12.0f}"
                     f" {1e3 * row['gap_p50']:15.1f} {1e3 * row['gap_p99']:15.1f}")
    return "\n".join(lines)


class Watch(threading.Thread):
    """Samples /metrics until it is stopped, and draws the figures over time."""

    GAUGES = {"streams running": "martlet_requests_running", "requests queued": "martlet_requests_queued",
              "pages used": "martlet_pages_used", "pages cached": "martlet_pages_cached"}
    MEANS = {"tokens a step": "martlet_step_rows", "ms a step": "martlet_step_seconds"}
    RATES = {"tokens a second": "martlet_output_tokens_total"}

    def __init__(self, url, key=None, every=0.5):
        super().__init__(daemon=True)
        self.request = urllib.request.Request(url.rstrip("/") + "/metrics")
        if key:
            self.request.add_header("Authorization", f"Bearer {key}")
        self.every, self.samples, self.over = every, [], threading.Event()

    def run(self):
        while not self.over.wait(self.every):
            text = urllib.request.urlopen(self.request, timeout=30).read().decode()
            self.samples.append((time.perf_counter(), dict(re.findall(r"^(\w+) (\S+)$", text, re.M))))

    def series(self):
        pairs = list(zip(self.samples, self.samples[1:]))
        change = lambda a, b, name: float(b[1][name]) - float(a[1][name])
        for label, name in self.GAUGES.items():
            yield label, [float(b[1][name]) for _, b in pairs]
        for label, name in self.MEANS.items():
            scale = 1e3 if label.startswith("ms") else 1
            yield label, [scale * change(a, b, name + "_sum") / max(change(a, b, name + "_count"), 1) for a, b in pairs]
        for label, name in self.RATES.items():
            yield label, [change(a, b, name) / (b[0] - a[0]) for a, b in pairs]

    def draw(self, width=96):
        lines = []
        for label, values in self.series():
            step = max(1, -(-len(values) // width))
            columns = [max(values[i:i + step]) for i in range(0, len(values), step)]
            top = max(columns, default=0) or 1
            bars = "".join(" ▁▂▃▄▅▆▇█"[round(8 * value / top)] for value in columns)
            lines.append(f"{label:>15} {bars} {max(columns, default=0):.0f} at most")
        return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--streams", default="1,4,8,16,32")
    parser.add_argument("--tokens", type=int, default=48, help="generated by each stream")
    parser.add_argument("--prompt-words", type=int, default=24)
    parser.add_argument("--temperature", type=float, default=0)
    parser.add_argument("--arriving", type=int, metavar="TOKENS", help="a prompt of so many arrives among the streams")
    parser.add_argument("--key")
    parser.add_argument("--draw", action="store_true", help="draw /metrics during the run")
    arguments = parser.parse_args()
    port = urlsplit(arguments.url).port
    round_seed = random.randrange(1 << 30)   # prompts that no earlier run left in a cache
    if arguments.arriving:
        figures = arriving(port, int(arguments.streams), arguments.arriving, random.Random(round_seed), arguments.key)
        return print(arrival_text(figures))
    measure(port, 1, 4, lambda i: text_prompt(round_seed - 1, arguments.prompt_words), arguments.key)
    watch = Watch(arguments.url, arguments.key)
    if arguments.draw:
        watch.start()
    rows = []
    for streams in map(int, arguments.streams.split(",")):
        prompt = lambda i: text_prompt(round_seed + 1000 * streams + i, arguments.prompt_words)
        rows.append(measure(port, streams, arguments.tokens, prompt, arguments.key, arguments.temperature))
    print(table(rows))
    if arguments.draw:
        watch.over.set()
        watch.join()
        print(watch.draw())


if __name__ == "__main__":
    main()
