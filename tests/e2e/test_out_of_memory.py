"""G5: whichever allocation of a request fails, that request alone ends, with 503 where there is anybody to tell."""
import collections
import json
import os
import re
import signal
import time

import pytest

from failing_malloc import FailingMalloc
from server import Server, steady

pytestmark = pytest.mark.beside

ASK = {"prompt": [72, 101, 108, 108, 111, 32, 119], "max_tokens": 3, "temperature": 0, "logprobs": 0, "ignore_eos": True}


def ask(server, stream):
    return server.raw(server.post_bytes("/v1/completions", ASK | {"stream": stream}, "Connection: close\r\n"), timeout=20)


def token_ids(data):
    return [int(i) for part in re.findall(rb'"token_ids":\[([\d,]*)\]', data) for i in part.split(b",") if i]


def outcome(status, data, stream, expected):
    """What became of a request; raises when it is nothing that may become of one."""
    if status == 200 and (b"data: [DONE]" in data if stream else data.endswith(b"}")):
        assert token_ids(data) == expected, data
        return "whole"
    if status == 200:
        assert stream and token_ids(data) == expected[:len(token_ids(data))], data
        return "told" if b'"out_of_memory"' in data else "cut"
    if status == 503:
        assert json.loads(data[data.index(b"\r\n\r\n"):])["error"]["code"] == "out_of_memory", data
        return "told"
    assert not data, data
    return "cut"   # in Asio's own work: there is nobody left who could say it


def test_G5_any_allocation_of_a_request_may_fail(program, nano, tmp_path, show):
    malloc = FailingMalloc(tmp_path)
    with steady(program, nano, "--context", "512", env=malloc.env) as server:
        for stream in (False, True):
            expected = [token_ids(ask(server, stream)[1]) for _ in range(20)][-1]
            assert len(expected) == 3
            before = malloc.made
            ask(server, stream)
            most, seen, n = 2 * (malloc.made - before) + 50, collections.Counter(), 0
            for n in range(1, most):
                failed = malloc.failed
                malloc.fail(n)
                began = time.monotonic()
                seen[outcome(*ask(server, stream), stream, expected)] += 1
                assert time.monotonic() - began < 15, f"allocation {n}: nobody was told"
                assert server.process.poll() is None, f"allocation {n}: {server.log()[-2000:]}"
                malloc.fail(0)
                if malloc.failed == failed:
                    break
            show(f"{'streamed' if stream else 'whole'}: {n} allocations, {dict(seen)}")
            assert seen["told"] > 0 and seen["cut"] < 0.3 * n
            assert seen["whole"] > 0.1 * n, "a step is tried again"
            server.unharmed()


# The harness proves itself: bugs are planted, and seen.

def test_a_leak_would_be_seen(program, nano, tmp_path):
    malloc = FailingMalloc(tmp_path)
    with Server(program, nano, "--context", "512", env=malloc.env) as server:
        server.warm()
        malloc.leak(4096)
        for _ in range(40):
            ask(server, False)
        malloc.leak(0)
        with pytest.raises(AssertionError, match="rss"):
            server.unharmed()


def test_a_hang_would_be_seen(program, nano):
    with Server(program, nano, "--context", "512") as server:
        server.warm()
        server.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, server.pid, os.WSTOPPED)   # all its threads: one that still ran might answer for its health
        with pytest.raises(AssertionError, match="health"):
            server.unharmed()
        server.process.send_signal(signal.SIGCONT)
