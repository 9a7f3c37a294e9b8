"""Everything at once, for a while: streams of two tenants, idle connections, readers that stall, clients that leave, bad
input, and a fault each second.

MARTLET_SOAK_SECONDS says for how long (180)."""
import os
import random
import re
import resource
import signal
import socket
import struct
import threading
import time

import load
from failing_malloc import FailingMalloc
from server import MIB, Server, eventually

SECONDS = float(os.environ.get("MARTLET_SOAK_SECONDS", "180"))
STREAMS, IDLE, STALLED = 16, 256, 32
TENANTS = ("alpha", "beta")
BAD = [b"{", b'{"prompt": 5}', b'{"prompt": "a", "max_tokens": -2}', b"[" * 100_000, b'{"prompt": "a", "nobody": 1}']
# What a caller may be told while there are faults.
REFUSALS = {b"out_of_memory", b"memory_pressure", b"too_many_connections", b"too_many_bodies", b"queue_full"}


def ask(prompt, **more):
    return {"prompt": prompt, "max_tokens": 40, "temperature": 0, "logprobs": 0, "ignore_eos": True, **more}


def token_ids(data):
    return [int(i) for part in re.findall(rb'"token_ids":\[([\d,]*)\]', bytes(data)) for i in part.split(b",") if i]


def refusal_in(data):
    found = re.search(rb'"code":"(\w+)"', bytes(data))
    return found[1] if found and found[1] in REFUSALS else None


class Caller(threading.Thread):
    """One client after another, of one tenant: most read their answer, some leave, some talk nonsense. A whole answer is
    held to what its prompt gave when nobody else was there: any byte of somebody else's shows."""

    def __init__(self, server, key, seed, until, alone):
        super().__init__(daemon=True)
        self.server, self.key, self.choose, self.until, self.alone = server, key, random.Random(seed), until, alone
        self.wrong, self.answers, self.refused, self.starved, self.cut = [], 0, 0, 0, 0

    def run(self):
        while time.time() < self.until:
            try:
                self.once(self.choose.random())
            except OSError:
                self.cut += 1   # refused or reset while descriptors or memory ran out
            except Exception as error:   # of the test itself: nobody waits for a thread's last words
                self.wrong.append(repr(error))
                return

    def refuse(self, code):
        if code == b"out_of_memory":
            self.starved += 1
        else:
            self.refused += 1

    def once(self, draw):
        if draw < 0.05:
            status, data = self.server.raw(self.server.post_bytes("/v1/completions", self.choose.choice(BAD),
                                                                  "Connection: close\r\n"))
            if status == 503 and refusal_in(data):
                self.refuse(refusal_in(data))
            elif status != 400:
                self.cut += status == 0
                if status:
                    self.wrong.append(status)
            return
        index = self.choose.randrange(len(self.alone))
        prompt, expected = self.alone[index]
        stream = load.Stream(self.server.port, ask(prompt), self.key, timeout=60)
        try:
            load.drain([stream], until=(lambda: len(stream.events) > 5) if draw < 0.15 else None)
            if draw < 0.15:
                return
            seen = token_ids(stream.received)
            if seen != expected[:len(seen)]:
                self.wrong.append(f"prompt {index}: {seen} instead of {expected}")
            elif stream.complete:
                self.answers += len(seen) == len(expected)
                if len(seen) != len(expected):
                    self.wrong.append(f"prompt {index}: {len(seen)} tokens")
            elif refusal_in(stream.received):
                self.refuse(refusal_in(stream.received))
            elif stream.status in (0, 200):
                self.cut += 1
            else:
                self.wrong.append(bytes(stream.received[:200]))
        finally:
            stream.close()


class Faults:
    """One a second, in turn."""

    def __init__(self, server, malloc, level):
        self.server, self.malloc, self.level = server, malloc, level
        self.choose, self.done = random.Random(7), []
        self.each = [self.allocation, self.pressure, self.allocation, self.resets, self.descriptors, self.half_request,
                     self.critical, self.allocation, self.pause, self.burst]

    def inject(self):
        fault = self.each[len(self.done) % len(self.each)]
        try:
            fault()
        except OSError:
            pass   # an earlier fault took the connection that this one wanted
        self.done.append(fault.__name__)

    def allocation(self):
        self.malloc.fail(self.choose.randrange(1, 5000))

    def pressure(self):
        self.level.write_text("some")
        time.sleep(0.6)
        self.level.write_text("none")

    def critical(self):
        self.level.write_text("critical")
        time.sleep(0.6)
        self.level.write_text("none")

    def resets(self):
        for _ in range(8):
            sock = self.server.connect()
            data = self.server.post_bytes("/v1/completions", ask([50], stream=True, max_tokens=200))
            sock.sendall(data[:self.choose.randrange(1, len(data) + 1)])
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()

    def descriptors(self):
        limits = resource.prlimit(self.server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.server.pid, resource.RLIMIT_NOFILE, (self.server.snapshot()["fds"] + 2, limits[1]))
        time.sleep(0.2)
        resource.prlimit(self.server.pid, resource.RLIMIT_NOFILE, limits)

    def half_request(self):
        with self.server.connect() as sock:
            sock.sendall(self.server.post_bytes("/v1/completions", ask([60] * 100))[:-30])

    def pause(self):
        self.server.process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        self.server.process.send_signal(signal.SIGCONT)

    def burst(self):
        for sock in [self.server.connect() for _ in range(100)]:
            sock.close()

    def end(self):
        self.malloc.fail(0)
        self.level.write_text("none")


def stall(server, tokens):
    """A stream that nobody reads."""
    sock = server.connect(receive_buffer=4096)
    try:
        sock.sendall(server.post_bytes("/v1/completions", {"prompt": [50], "max_tokens": tokens, "stream": True,
                                                           "ignore_eos": True, "logprobs": 5}))
    except OSError:
        pass
    return sock


def kept_alive(server, sock):
    """The connection after another request, or a new one where the server has closed it: idle until the next time."""
    for _ in range(5):
        try:
            sock = sock or server.connect(timeout=5)
            sock.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            if b"HTTP/1.1 200" in sock.recv(4096):
                return sock
        except OSError:
            pass
        if sock:
            sock.close()
        sock = None
    return server.connect()


def prompts_of(server, key, seed):
    """Prompts that begin alike for both tenants, and what each gives."""
    choose, shared = random.Random(seed), [60] * 50
    prompts = [shared[:choose.randrange(50)] + [choose.randrange(40, 290) for _ in range(choose.randrange(1, 250))]
               for _ in range(40)]
    headers = {"Authorization": f"Bearer {key}"}
    return [(p, server.post("/v1/completions", ask(p), headers=headers)[2]["choices"][0]["logprobs"]["token_ids"])
            for p in prompts]


def flat(samples, show):
    """Whether memory stays what it is, to 1 MiB a minute, once it is warm after the first: the highest of the second half of
    that time against the first's. A run too short for that is still filling its buffers and arenas."""
    (begin, _), (end, _) = samples[0], samples[-1]
    if end - begin < 150:
        return True
    middle = (begin + 60 + end) / 2
    early = max(rss for t, rss in samples if begin + 60 <= t < middle)
    late = max(rss for t, rss in samples if t >= middle)
    show(f"resident at most {early >> 10} KiB, then {late >> 10}")
    return late <= early + (end - middle) / 60 * MIB


def test_soak(program, nano, tmp_path, show):
    malloc, level = FailingMalloc(tmp_path), tmp_path / "level"
    level.write_text("none")
    # A draft model would be given back at the first sign of pressure, and for good.
    flags = ("--context", "2048", "--max-queue", "512", "--max-connections", "512", "--draft", "ngram", "--pressure",
             f"file:{level}", "--api-key", ",".join(TENANTS))
    with Server(program, nano, *flags, key=TENANTS[0], env=malloc.env) as server:
        canary = server.canary()
        alone = {key: prompts_of(server, key, seed) for seed, key in enumerate(TENANTS)}
        idle = [kept_alive(server, None) for _ in range(IDLE)]
        before, until = server.snapshot(), time.time() + SECONDS
        callers = [Caller(server, key := TENANTS[seed % 2], seed, until, alone[key]) for seed in range(STREAMS)]
        for caller in callers:
            caller.start()
        faults, stalled, samples = Faults(server, malloc, level), [], []
        while time.time() < until:
            began = time.time()
            stalled += [stall(server, tokens) for tokens in (100, 200, 400, 1500)]
            while len(stalled) > STALLED:
                stalled.pop(0).close()
            first = 16 * len(faults.done) % IDLE
            idle[first:first + 16] = [kept_alive(server, sock) for sock in idle[first:first + 16]]
            faults.inject()
            samples.append((time.time(), server.snapshot()["rss"]))
            time.sleep(max(0, began + 1 - time.time()))
        faults.end()
        for caller in callers:
            caller.join(60)
        for sock in idle + stalled:
            sock.close()
        total = lambda name: sum(getattr(caller, name) for caller in callers)
        show(f"{SECONDS:.0f} s, {len(faults.done)} faults, {malloc.failed} failed allocations, "
             f"{total('answers')} answers, {total('refused')} refused, {total('starved')} starved, {total('cut')} cut")
        assert [caller.wrong for caller in callers if caller.wrong] == []
        # An allocation costs one request. Where descriptors run out each caller may lose the connection that it wants.
        assert total("starved") <= malloc.failed
        assert total("starved") + total("cut") <= malloc.failed + STREAMS * faults.done.count("descriptors")
        assert total("answers") > 10 * STREAMS
        assert server.process.poll() is None
        assert server.idle()
        assert server.canary() == canary
        assert eventually(lambda: server.metric("martlet_pages_used") == 0)
        assert flat(samples, show)
        assert server.snapshot()["rss"] <= before["rss"] + 16 * MIB
        assert eventually(lambda: server.snapshot()["fds"] <= before["fds"] - IDLE)
        assert eventually(lambda: server.snapshot()["threads"] <= before["threads"])
        assert server.terminate() == 0
