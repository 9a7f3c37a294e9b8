"""The gateway in front of stub upstreams: selection, names, hedging, queue, configuration, draining, log."""
import json
import signal
import subprocess
import sys
import threading
import time

import openai
import pytest

from gateway import CHAT, STREAM, Gateway, code_of, events, openai_upstream, steady
from server import eventually
from stub_upstream import Stub


def test_openai_client(pair):
    _, _, gateway = pair
    client = openai.OpenAI(base_url=gateway.url + "/v1", api_key="unused", max_retries=0, timeout=20)
    assert [m.id for m in client.models.list()] == ["default"]
    ask = dict(model="default", messages=CHAT["messages"])
    assert client.chat.completions.create(**ask).choices[0].message.content == "one two three"
    chunks = list(client.chat.completions.create(**ask, stream=True))
    assert "".join(c.choices[0].delta.content for c in chunks if c.choices) == "one two three "
    assert {c.model for c in chunks} == {"default"}
    client.close()


def test_upstream_sees_its_own_model_and_the_clients_bytes(pair):
    a, _, gateway = pair
    body = '{"messages": [{"role":"user","content":"\\u00e4 x"}], "temperature": 0.70, "model":"default", "x": [1,{"model":"y"}]}'
    assert gateway.post("/v1/chat/completions", body)[0] == 200
    assert a.requests[-1][2] == json.loads(body) | {"model": "stub-model"}


def test_preferred_then_standby_then_preferred_again(pair):
    a, b, gateway = pair
    assert gateway.post("/v1/chat/completions", CHAT)[2]["from"] == "a"
    a.mode = "die"
    answer = gateway.post("/v1/chat/completions", CHAT)
    assert answer[0] == 200 and answer[2]["from"] == "b" and answer[1]["x-martlet-upstream"] == "b"
    assert gateway.metric('martlet_gateway_failovers_total{upstream="a"}') == 1
    a.mode = "ok"
    assert eventually(lambda: gateway.post("/v1/chat/completions", CHAT)[2]["from"] == "a", 5)


@pytest.fixture
def hedged(program):
    with Stub("a") as a, Stub("b") as b:
        config = {"upstreams": [openai_upstream("a", a, hedge_after_ms=200), openai_upstream("b", b, standby=True)]}
        with steady(program, config, a, b) as gateway:
            yield a, b, gateway


@pytest.mark.parametrize("body", [CHAT, STREAM])
def test_a_slow_upstream_gets_a_competitor(hedged, body):
    a, b, gateway = hedged
    a.first_delay = 3
    began = time.time()
    status, _, answer = gateway.post("/v1/chat/completions", body)
    assert status == 200 and '"from": "b"' in (answer if isinstance(answer, str) else json.dumps(answer))
    assert 0.2 <= time.time() - began < 1.5 and len(a.requests) == len(b.requests) == 1
    assert 'outcome="outrun",upstream="a"} 1' in gateway.get("/metrics")[2]
    assert gateway.upstreams()["a"]["instances"][0]["state"] == "closed", "slow is not dead"


def test_a_competitor_may_lose_fail_or_be_the_only_one_that_answers(hedged):
    a, b, gateway = hedged
    ask = lambda: gateway.post("/v1/chat/completions", CHAT)
    alone = lambda: (b.requests.clear(), ask()[2]["from"] == "a" and not b.requests)[1]
    assert eventually(alone), "fast enough, at least when the machine has time for it"
    a.first_delay, b.first_delay = 1, 5
    assert ask()[2]["from"] == "a" and len(b.requests) == 1
    b.first_delay, b.mode = 0, 500
    assert ask()[2]["from"] == "a"
    a.mode, a.first_delay, b.mode, b.first_delay = 500, 0.5, "ok", 0.6
    assert ask()[2]["from"] == "b"
    # One that refuses does not speak for another that is still being asked.
    a.mode, a.first_delay, b.mode, b.first_delay = "ok", 0.6, 413, 0
    assert ask()[2]["from"] == "a"
    a.mode = 500
    assert ask()[0] == 413
    a.first_delay = 0
    asked, a.mode, b.mode, b.first_delay = len(a.requests) + len(b.requests), 500, 500, 0
    assert code_of(ask()) == (502, "upstream_error")
    assert len(a.requests) + len(b.requests) == asked + 2, "two tries in all"


def test_a_stream_that_outlasts_its_hedge_costs_no_time(hedged):
    a, b, gateway = hedged
    a.words, a.word_delay = ["word"] * 12, 0.1

    def alone():   # a busy machine may need longer for the first word than the hedge waits
        b.requests.clear()
        before = gateway.cpu_seconds()
        text = gateway.post("/v1/chat/completions", STREAM)[2]
        assert gateway.cpu_seconds() - before < 0.5, "whoever waits sleeps"
        assert text.count('"content": "') == (12 if '"from": "a"' in text else 3)
        return not b.requests
    assert eventually(alone, 20)


def test_names_of_a_request(single):
    a, gateway = single
    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    _, fields, _ = gateway.post("/v1/chat/completions", CHAT,
                                headers={"X-Request-Id": "my-id.1", "traceparent": trace, "tracestate": "k=v"})
    seen = a.requests[-1][1]
    assert fields["x-request-id"] == seen["x-request-id"] == "my-id.1"
    assert seen["traceparent"].startswith("00-" + "a" * 32) and "b" * 16 not in seen["traceparent"]
    assert seen["tracestate"] == "k=v"
    _, fields, _ = gateway.post("/v1/chat/completions", CHAT, headers={"X-Request-Id": "bad id", "traceparent": "junk"})
    seen = a.requests[-1][1]
    assert len(seen["x-request-id"]) == 32 and len(seen["traceparent"]) == 55 and "tracestate" not in seen


def test_drain_and_resume(pair):
    a, b, gateway = pair
    assert gateway.post("/admin/upstreams/a/drain", None)[0] == 401
    assert gateway.admin("POST", "/admin/upstreams/a/drain")[0] == 200
    assert gateway.post("/v1/chat/completions", CHAT)[2]["from"] == "b"
    assert gateway.admin("POST", "/admin/upstreams/a/resume")[0] == 200
    assert gateway.post("/v1/chat/completions", CHAT)[2]["from"] == "a"
    assert gateway.admin("POST", "/admin/upstreams/none/drain")[0] == 404


def test_waiting_requests_are_served_in_order_by_whoever_is_free(program):
    with Stub("a", first_delay=0.2) as a, Stub("b", first_delay=0.2) as b:
        config = {"upstreams": [openai_upstream("a", a, concurrent=1), openai_upstream("b", b, concurrent=1)]}
        with Gateway(program, config).wait_up() as gateway:
            one_by_one = gateway.seconds(3)
            a.requests.clear(), b.requests.clear()
            assert gateway.seconds(6, at_once=6) < 1.6 * one_by_one, "three rounds"
            assert len(a.requests) == len(b.requests) == 3


def test_a_client_that_does_not_read_holds_the_upstream_back(single):
    a, gateway = single
    a.words = ["x" * 10_000] * 600
    before = gateway.snapshot()["rss"]
    sock = gateway.connect(receive_buffer=4096)
    body = json.dumps(STREAM).encode()
    sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def held_back():
        sent = a.sent
        time.sleep(1)
        return 0 < sent == a.sent
    assert eventually(held_back)
    assert gateway.snapshot()["rss"] - before < 4 << 20
    assert a.sent < 600, "the upstream is not held back"
    sock.close()
    assert eventually(lambda: a.disconnects, 2)


def test_configuration_errors_name_the_line(program, tmp_path):
    def run(text):
        path = tmp_path / "gateway.json"
        path.write_text(text)
        done = subprocess.run([program, "gateway", path], capture_output=True, text=True, timeout=20)
        return done.returncode, done.stderr

    code, error = run('{\n  // a comment\n  "upstreams": [\n    {"name": "a", "kind": "openai",\n     "colour": 1}]}')
    assert code == 2 and "not known" in error and "gateway.json:5" in error
    assert run("{")[0] == 2
    assert run("{}")[0] == 2
    code, error = run('{"upstreams": [{"name": "a", "kind": "openai", "model": "m", "url": "ftp://x/v1"}]}')
    assert code == 2 and "http or https" in error
    assert subprocess.run([program, "gateway", tmp_path / "none"], capture_output=True, timeout=20).returncode == 5


def test_nothing_is_prepared_for_another_machine(program, tmp_path):
    elsewhere = {"platform": "linux" if sys.platform == "darwin" else "macos"}
    with Stub("a") as a:
        far = openai_upstream("far", a, when=elsewhere)
        path = tmp_path / "gateway.json"
        path.write_text(json.dumps({"upstreams": [far]}))
        done = subprocess.run([program, "gateway", path], capture_output=True, text=True, timeout=20)
        assert done.returncode == 2 and "no_upstream_fits" in done.stderr
        with Gateway(program, {"upstreams": [far, openai_upstream("a", a)]}).wait_up() as gateway:
            assert list(gateway.upstreams()) == ["a"]


def test_a_standby_is_warm_before_it_is_needed(program):
    """One token of it is asked for before it takes requests, and once more after it was away."""
    with Stub("a") as a, Stub("b") as b:
        config = {"upstreams": [openai_upstream("a", a), openai_upstream("b", b, standby=True)]}
        with Gateway(program, config).wait_up() as gateway:
            assert [r[2]["max_tokens"] for r in b.requests] == [1] and not a.requests
            b.healthy = False
            assert eventually(lambda: gateway.upstreams()["b"]["instances"][0]["state"] == "open", 10)
            b.mode, b.healthy = 500, True
            assert eventually(lambda: "b: it could not be warmed (status 500)" in gateway.log(), 15)
            assert [r[2]["max_tokens"] for r in b.requests] == [1, 1], "it may have been started anew"


def test_sigterm_drains(single):
    a, gateway = single
    a.words, a.word_delay = ["w"] * 20, 0.05
    result = []
    asking = threading.Thread(target=lambda: result.append(events(gateway, STREAM)))
    asking.start()
    assert eventually(lambda: a.requests)
    gateway.process.send_signal(signal.SIGTERM)
    asking.join()
    assert result[0][0] == 200 and result[0][1][-1] == "[DONE]"
    assert gateway.process.wait(10) == 0


def test_the_log_says_why(program):
    """Why an upstream does not come up, and who refused what."""
    with Stub("a") as a, Stub("b", mode=404) as b:
        a.healthy = False
        config = {"upstreams": [openai_upstream("a", a), openai_upstream("b", b)]}
        with Gateway(program, config).wait_up("b") as gateway:
            assert eventually(lambda: "a: not up: /v1/models answers with status 503" in gateway.log(), 5)
            for _ in range(3):
                assert code_of(gateway.post("/v1/chat/completions", CHAT)) == (502, "upstream_refused")
            told = "b: a request failed: upstream_refused: the upstream refuses the gateway's key, model name or path (status 404)"
            assert gateway.log().count(told) == 1
            b.mode = "die"
            for _ in range(3):
                gateway.post("/v1/chat/completions", CHAT)
            assert eventually(lambda: "b: down: " in gateway.log(), 5)
