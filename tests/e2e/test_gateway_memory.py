"""G5 at the gateway: whichever allocation fails, who waits is told, and what watches goes on watching."""
import collections
import json
import time

import pytest

from failing_malloc import FailingMalloc
from gateway import CHAT, Gateway, openai_upstream
from server import eventually
from stub_upstream import Stub

pytestmark = pytest.mark.beside

LARGE = CHAT | {"messages": [{"role": "user", "content": "word " * 20000}]}  # is read on a worker


def ask(gateway, body):
    return gateway.raw(gateway.post_bytes("/v1/chat/completions", body, "Connection: close\r\n"), timeout=8)


def outcome(status, data, body):
    """What became of a request; raises when it is nothing that may become of one."""
    if status == 200 and (b"data: [DONE]" in data if body.get("stream") else data.endswith(b"}")):
        return "whole"
    if status == 200:
        assert body.get("stream"), data
        return "told" if b'"out_of_memory"' in data else "cut"
    if status == 503:
        assert json.loads(data[data.index(b"\r\n\r\n"):])["error"]["code"] == "out_of_memory", data
        return "told"
    assert not data, data
    return "cut"   # in Asio's own work on the client's connection


@pytest.mark.parametrize("kind, body, hedge", [("whole", CHAT, {}), ("streamed", CHAT | {"stream": True}, {}), ("large", LARGE, {}),
                                               ("hedged", CHAT | {"stream": True}, {"hedge_after_ms": 2})])
def test_G5_any_allocation_of_a_request_may_fail(program, tmp_path, kind, body, hedge):
    malloc = FailingMalloc(tmp_path)
    with Stub("a") as a, Stub("b") as b:
        a.first_delay = b.first_delay = 0.01 if hedge else 0
        upstreams = [openai_upstream("a", a, **hedge), openai_upstream("b", b, standby=True)]
        with Gateway(program, {"upstreams": upstreams}, env=malloc.env).wait_up() as gateway:
            for _ in range(20):
                assert ask(gateway, body)[0] == 200
            before = malloc.made
            ask(gateway, body)
            most, seen, n = 2 * (malloc.made - before) + 100, collections.Counter(), 0
            for n in range(1, most):
                failed, began = malloc.failed, time.monotonic()
                malloc.fail(n)
                seen[outcome(*ask(gateway, body), body)] += 1
                assert time.monotonic() - began < 5, f"allocation {n}: nobody was told"
                assert gateway.process.poll() is None, f"allocation {n}: {gateway.log()[-2000:]}"
                malloc.fail(0)
                if malloc.failed == failed:   # it needed fewer
                    break
            print(f"\nG5 gateway, {kind}: {n} allocations, {dict(seen)}")
            assert seen["told"] > 0 and seen["cut"] < 0.3 * n
            idle = lambda: all(i["running"] == 0 for u in gateway.upstreams().values() for i in u["instances"])
            assert eventually(idle, 5), gateway.upstreams()
            assert ask(gateway, body)[0] == 200


def test_G5_watches_outlive_the_want_of_memory(program, tmp_path):
    malloc, pressure = FailingMalloc(tmp_path), tmp_path / "pressure"
    pressure.write_text("0.1")
    config = {"pressure_source": f"file:{pressure}", "pressure": {"confirm_ms": 50, "calm_ms": 100}}
    with Stub("a") as a, Stub("b") as b:
        alike = [dict(openai_upstream(s.name, s), accept_differences=[]) for s in (a, b)]   # compared, so prepared
        with Gateway(program, config | {"upstreams": alike}, env=malloc.env).wait_up() as gateway:
            level = lambda: gateway.metric("martlet_gateway_memory_pressure")
            for n in range(1, 60, 2):
                a.healthy = not a.healthy
                malloc.fail(n)
                time.sleep(0.15)
                assert gateway.process.poll() is None, f"allocation {n}: {gateway.log()[-2000:]}"
            malloc.fail(0)
            assert malloc.failed > 0
            a.healthy = True
            state = lambda: gateway.upstreams()["a"]["instances"][0]["state"]
            # What was lost again and again pauses for up to five seconds.
            assert eventually(lambda: state() in ("closed", "half_open"), 20), gateway.upstreams()
            probed = len(a.health_times), len(b.health_times)
            assert eventually(lambda: len(a.health_times) > probed[0] + 1 and len(b.health_times) > probed[1] + 1, 20)
            pressure.write_text("0.99")
            assert eventually(lambda: level() == 2, 20), "pressure is read no more"
