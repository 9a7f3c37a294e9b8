#!/usr/bin/env python3
"""What a gateway adds to a request, and what streams cost it, in front of a stub upstream.

  tools/gateway_latency.py [build/release/martlet]

Latency: 500 requests a second on one kept connection, by turns straight to the stub and through the gateway.
Streams: 1,000 at once through a gateway that is held to one core; its peak of resident memory and its share of that core.
"""
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "tests/e2e/stub_upstream.py"
CHAT = {"model": "default", "messages": [{"role": "user", "content": "one two three"}]}


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def start_stub(attributes=None):
    port = free_port()
    process = subprocess.Popen([sys.executable, STUB, str(port), "stub", json.dumps(attributes or {})], stdout=subprocess.PIPE)
    process.stdout.readline()
    time.sleep(0.3)
    return process, port


def start_gateway(program, port, folder, core=None):
    config = Path(folder) / "gateway.json"
    config.write_text(json.dumps({"listen": "127.0.0.1:0", "connections": 4096, "upstreams": [
        {"name": "stub", "kind": "openai", "url": f"http://127.0.0.1:{port}", "model": "m", "concurrent": 4096}]}))
    pin = (lambda: os.sched_setaffinity(0, {core})) if core is not None else None
    process = subprocess.Popen([program, "gateway", config], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=pin)
    own = int(process.stdout.readline().decode().strip().rsplit(":", 1)[1])
    time.sleep(1.5)
    return process, own


def request(body):
    data = json.dumps(body).encode()
    return (b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(data)) + data


def receive_answer(sock):
    received = b""
    while b"\r\n\r\n" not in received:
        received += sock.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    assert b" 200 " in head.split(b"\r\n")[0], head
    length = int(next(l for l in head.lower().split(b"\r\n") if l.startswith(b"content-length")).split(b":")[1])
    while len(body) < length:
        body += sock.recv(65536)


def latencies(port, count, rate=500):
    out, data = [], request(CHAT)
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begin = time.perf_counter()
        for i in range(count):
            while time.perf_counter() < begin + i / rate:
                time.sleep(0.0002)
            sent = time.perf_counter()
            sock.sendall(data)
            receive_answer(sock)
            out.append(1000 * (time.perf_counter() - sent))
    return sorted(out)


def percentile(values, share):
    return values[min(len(values) - 1, int(share * len(values)))]


def measure_latency(program, folder):
    stub, port = start_stub()
    gateway, own = start_gateway(program, port, folder)
    try:
        latencies(port, 200), latencies(own, 200)
        rows = []
        for _ in range(5):
            rows.append([latencies(p, 1000) for p in (port, own)])
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            direct, through = ([percentile(r[side], share) for r in rows] for side in (0, 1))
            added = statistics.median(t - d for d, t in zip(direct, through))
            print(f"{name}: straight {statistics.median(direct):.3f} ms, through {statistics.median(through):.3f} ms, "
                  f"added {added:.3f} ms (median of 5 pairs of 1,000 requests at 500/s)")
    finally:
        for process in (gateway, stub):
            process.kill()
            process.wait()


async def one_stream(port, opened):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
    writer.write(request(CHAT | {"stream": True}))
    events = 0
    async for line in reader:
        events += line.startswith(b"data: ")
        if events == 1 and line.startswith(b"data: "):
            opened.append(1)
        if line.startswith(b"data: [DONE]"):
            break
    writer.close()
    return events


def status_kib(pid, name):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(t) for t in fields[11:13]) / os.sysconf("SC_CLK_TCK")


async def streams(port, count):
    opened = []
    return await asyncio.gather(*(one_stream(port, opened) for _ in range(count)))


def measure_streams(program, folder, count=1000, words=20):
    stub, port = start_stub({"words": ["word"] * words, "word_delay": 1.0})
    gateway, own = start_gateway(program, port, folder, core=0)
    try:
        before, began = cpu_seconds(gateway.pid), time.time()
        events = asyncio.run(streams(own, count))
        used, took = cpu_seconds(gateway.pid) - before, time.time() - began
        assert set(events) == {words + 2}, set(events)
        print(f"streams: {count} at once on one core, {status_kib(gateway.pid, 'VmHWM') / 1024:.1f} MiB at the peak, "
              f"{100 * used / took:.0f} % of the core at {sum(events) / took:.0f} events/s")
    finally:
        for process in (gateway, stub):
            process.kill()
            process.wait()


if __name__ == "__main__":
    program = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release/martlet")
    with tempfile.TemporaryDirectory() as folder:
        measure_latency(program, folder)
        measure_streams(program, folder)
