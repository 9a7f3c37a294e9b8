"""Everything at once, for a while: streams, idle connections, readers that stall, clients that leave, bad input.

MARTLET_SOAK_SECONDS says for how long (20)."""
import os
import random
import threading
import time

import load
from server import Server, eventually

SECONDS = float(os.environ.get("MARTLET_SOAK_SECONDS", "20"))
STREAMS, IDLE, STALLED = 16, 64, 8
BAD = [b"{", b'{"prompt": 5}', b'{"prompt": "a", "max_tokens": -2}', b"[" * 100_000, b'{"prompt": "a", "nobody": 1}']


class Caller(threading.Thread):
    """One client after another: most read their answer, some leave, some talk nonsense."""

    def __init__(self, server, seed, until):
        super().__init__(daemon=True)
        self.server, self.choose, self.until, self.wrong, self.answers = server, random.Random(seed), until, [], 0

    def run(self):
        while time.time() < self.until:
            try:
                self.once(self.choose.random())
            except OSError as error:
                self.wrong.append(repr(error))

    def once(self, draw):
        if draw < 0.05:
            status, _ = self.server.raw(self.server.post_bytes("/v1/completions", self.choose.choice(BAD),
                                                               "Connection: close\r\n"))
            if status != 400:
                self.wrong.append(status)
            return
        prompt = [self.choose.randrange(40, 290) for _ in range(self.choose.randrange(1, 300))]
        stream = load.Stream(self.server.port, {"prompt": prompt, "max_tokens": 40, "ignore_eos": True})
        try:
            load.drain([stream], until=(lambda: len(stream.events) > 5) if draw < 0.15 else None)
            if draw >= 0.15 and not stream.complete:
                self.wrong.append(bytes(stream.received[:200]))
            self.answers += 1
        finally:
            stream.close()


def stall(server):
    """A stream that nobody reads."""
    sock = server.connect(receive_buffer=4096)
    sock.sendall(server.post_bytes("/v1/completions", {"prompt": [50], "max_tokens": 1500, "stream": True,
                                                       "ignore_eos": True, "logprobs": 5}))
    return sock


def test_soak(program, nano):
    with Server(program, nano, "--context", "2048", "--max-queue", "256") as server:
        canary = server.canary()
        idle = [server.connect() for _ in range(IDLE)]
        until = time.time() + SECONDS
        callers = [Caller(server, seed, until) for seed in range(STREAMS)]
        for caller in callers:
            caller.start()
        stalled, middle = [], None
        while time.time() < until:
            stalled.append(stall(server))
            while len(stalled) > STALLED:
                stalled.pop(0).close()
            time.sleep(1)
            if middle is None and time.time() > until - SECONDS / 2:
                middle = server.snapshot()
        end = server.snapshot()
        for caller in callers:
            caller.join(60)
        for sock in idle + stalled:
            sock.close()
        answers = sum(caller.answers for caller in callers)
        print(f"\nsoak: {answers} answers in {SECONDS:.0f} s, resident {middle['rss'] >> 10} KiB half way, "
              f"{end['rss'] >> 10} at the end")
        assert [caller.wrong for caller in callers if caller.wrong] == []
        assert answers > STREAMS
        assert end["rss"] <= middle["rss"] + (4 << 20)
        assert server.idle()
        assert server.canary() == canary
        assert eventually(lambda: server.metric("martlet_pages_used") == 0)
        assert server.snapshot()["fds"] <= middle["fds"]
        assert server.terminate() == 0
