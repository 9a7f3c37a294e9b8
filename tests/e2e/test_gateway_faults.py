"""The gateway in front of stub upstreams that fail (FAULTS group H), clients that leave, and strangers (FAULTS group E)."""
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gateway import CHAT, STREAM, Gateway, code_of, events, openai_upstream, steady
from server import eventually
from stub_upstream import Stub, reserved_port


@pytest.fixture
def dead_pair(program):
    """Two upstreams that died, and a gateway in front."""
    with Stub("a") as a, Stub("b") as b:
        config = {"upstreams": [openai_upstream("a", a), openai_upstream("b", b, standby=True)]}
        with Gateway(program, config).wait_up() as gateway:
            a.healthy = b.healthy = False
            assert eventually(lambda: gateway.post("/v1/chat/completions", CHAT)[0] == 503, 5)
            a.health_times.clear()
            b.health_times.clear()
            yield a, b, gateway, time.time()


@pytest.mark.parametrize("mode", ["die", 500, 503, 429, 401, 404, "bad_json", "huge"])
def test_h2_one_retry_and_one_answer(pair, mode):
    a, b, gateway = pair
    a.mode = mode
    status, _, answer = gateway.post("/v1/chat/completions", CHAT)
    assert status == 200 and answer["from"] == "b"
    assert len(a.requests) == len(b.requests) == 1


@pytest.mark.parametrize("mode", ["die", "die_after_head", 500, "bad_event", "huge"])
def test_h2_streams_fail_over_before_the_first_event(pair, mode):
    a, b, gateway = pair
    a.mode = mode
    status, data = events(gateway, STREAM)
    assert status == 200 and data[-1] == "[DONE]"
    assert {json.loads(d).get("from", "b") for d in data[:-1]} == {"b"}
    assert len(a.requests) == len(b.requests) == 1


def test_h2_after_the_first_event_there_is_no_retry(pair):
    a, b, gateway = pair
    a.mode = "die_after_first"
    status, data = events(gateway, STREAM)
    assert status == 200 and len(data) == 2
    assert json.loads(data[1])["error"]["code"] == "upstream_disconnected"
    assert not b.requests


def test_h1_refused_and_hanging(single):
    a, gateway = single
    a.mode = "hang"
    began = time.time()
    assert code_of(gateway.post("/v1/chat/completions", CHAT)) == (504, "upstream_timeout")
    assert 0.4 < time.time() - began < 1.5
    a.stop()
    assert eventually(lambda: code_of(gateway.post("/v1/chat/completions", CHAT)) in
                      [(502, "upstream_unreachable"), (503, "no_upstream")], 2)


def test_h3_nonsense_is_502_in_bounded_memory(single):
    a, gateway = single
    a.mode = "bad_json"
    before = gateway.snapshot()["rss"]
    assert code_of(gateway.post("/v1/chat/completions", CHAT)) == (502, "upstream_bad_answer")
    a.mode = "huge"
    for body in (STREAM, CHAT, STREAM, CHAT):
        assert code_of(gateway.post("/v1/chat/completions", body)) == (502, "upstream_answer_too_large")
    assert gateway.upstreams()["a"]["instances"][0]["state"] == "closed", "it works: only its answers are too large"
    assert gateway.snapshot()["rss"] - before < 16 << 20


@pytest.mark.parametrize("extra", [{"api_base": "http://evil"}, {"api_key": "x"}, {"extra_body": {"api_base": "x"}},
                                   {"a": [{"b": {"api_key": 1}}]}])
def test_h4_bodies_do_not_choose_addresses(single, extra):
    a, gateway = single
    status, _, answer = gateway.post("/v1/chat/completions", CHAT | extra)
    assert status == 400 and answer["error"]["code"] == "unsupported_parameter" and not a.requests
    tool = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"api_key": {"type": "string"}}}}}
    assert gateway.post("/v1/chat/completions", CHAT | {"tools": [tool]})[0] == 200


def test_h4_keys_and_hop_by_hop_fields_stay_on_their_side(program):
    with Stub("a") as a:
        config = {"api_keys": ["client-key"], "upstreams": [openai_upstream("a", a, api_key="env:UPSTREAM_KEY")]}
        with Gateway(program, config, key="client-key", env={"UPSTREAM_KEY": "upstream-key"}).wait_up() as gateway:
            fields = {"Cookie": "c", "Keep-Alive": "5", "TE": "trailers", "X-Api-Key": "client-key", "Proxy-Authorization": "p"}
            status, answered, _ = gateway.post("/v1/chat/completions", CHAT, headers=fields)
            assert status == 200 and "Set-Cookie" not in answered and "X-Powered-By" not in answered
            seen = a.requests[-1][1]
            assert seen["authorization"] == "Bearer upstream-key"
            assert "client-key" not in str(a.requests)
            assert not {"cookie", "keep-alive", "te", "x-api-key", "proxy-authorization"} & set(seen)
            for mode in [400, 401, "show_key"]:
                a.mode = mode
                answer = gateway.post("/v1/chat/completions", CHAT)
                assert answer[0] in (400, 502) and "upstream-key" not in str(answer)
            assert gateway.request("POST", "/v1/chat/completions", CHAT, headers={"Authorization": "Bearer no"})[0] == 401
            assert "upstream-key" not in gateway.log() and "client-key" not in gateway.log()


def test_clients_mistakes_are_answered_by_the_upstream(pair):
    a, b, gateway = pair
    a.mode = 400
    status, _, answer = gateway.post("/v1/chat/completions", CHAT)
    assert status == 400 and answer["error"]["message"].startswith("stub says 400") and not b.requests
    a.routes = {"/v1/chat/completions": lambda _: (422, b"no error object, but /etc/passwd")}
    answer = gateway.post("/v1/chat/completions", CHAT)
    assert code_of(answer) == (422, "upstream_refused_request") and "passwd" not in str(answer) and not b.requests


def send(gateway, body):
    sock = gateway.connect()
    sock.sendall(gateway.post_bytes("/v1/chat/completions", body))
    return sock


def leave(a, gateway, body, begun):
    """Seconds from a client's leaving, once `begun(socket)`, to the end of its request at the upstream."""
    a.disconnects.clear()
    a.requests.clear()
    sock = send(gateway, body)
    assert begun(sock)
    left = time.time()
    sock.close()
    assert eventually(lambda: a.disconnects, 5), "the upstream goes on"
    return a.disconnects[0] - left


@pytest.mark.parametrize("when", ["before", "inside", "whole"])
def test_h5_a_client_that_leaves_closes_the_upstream(pair, when):
    a, b, gateway = pair
    if when == "inside":
        a.words, a.word_delay = ["word"] * 2000, 0.05
        body, begun = STREAM, lambda sock: any(b"word" in sock.recv(65536) for _ in range(10))
    else:
        a.first_delay = 60
        body, begun = CHAT if when == "whole" else STREAM, lambda sock: eventually(lambda: a.requests, 5)
    # The 250 ms, on a machine that has other things to do as well.
    assert any(leave(a, gateway, body, begun) < 0.25 for _ in range(3))
    assert not b.requests, "nobody else is asked"
    assert gateway.idle()


def test_h5_a_client_that_leaves_the_queue_is_forgotten(program):
    with Stub("a") as a:
        config = {"upstreams": [openai_upstream("a", a, concurrent=1)]}
        with steady(program, config, a) as gateway:
            a.words, a.word_delay = ["word"] * 2000, 0.05
            running = send(gateway, STREAM)
            assert eventually(lambda: a.requests, 5)
            waits = [send(gateway, STREAM) for _ in range(3)]
            assert eventually(lambda: gateway.metric("martlet_gateway_queue") == 3, 5)
            for sock in waits:
                sock.close()
            assert eventually(lambda: gateway.metric("martlet_gateway_queue") == 0, 5)
            running.close()
            assert eventually(lambda: a.disconnects, 5)
            assert gateway.post("/v1/chat/completions", CHAT | {"max_tokens": 7})[0] == 200
            assert [r[2].get("max_tokens") for r in a.requests] == [None, 7], "those who left are not asked for"


def test_an_upstream_that_stops_inside_a_stream_ends_it_after_its_time(program):
    with Stub("a") as a:
        with steady(program, {"upstreams": [openai_upstream("a", a, timeouts={"between_ms": 400})]}, a) as gateway:
            a.mode = "hang_after_first"
            began = time.time()
            status, data = events(gateway, STREAM)
            assert status == 200 and len(data) == 2 and json.loads(data[1])["error"]["code"] == "upstream_timeout"
            assert 0.4 <= time.time() - began < 5, "between_ms"
            assert eventually(lambda: a.disconnects, 5)


class Deaf:
    """An address that lets nobody connect: its queue is full."""

    def __init__(self, port):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", port))
        self.socket.listen(0)
        self.callers = [socket.socket() for _ in range(4)]
        for caller in self.callers:
            caller.setblocking(False)
            caller.connect_ex(self.socket.getsockname())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in [self.socket, *self.callers]:
            one.close()


def test_an_upstream_whose_model_is_damaged_is_no_fault_of_the_client(program):
    with Stub("a") as a, Stub("b") as b:
        with Gateway(program, {"upstreams": [openai_upstream("a", a), openai_upstream("b", b, standby=True)]}).wait_up() as gateway:
            invalid = {"error": {"message": "the file is damaged", "type": "invalid_request_error", "code": "model_invalid"}}
            a.routes = {"/v1/chat/completions": lambda _: (400, invalid)}
            status, _, answer = gateway.post("/v1/chat/completions", CHAT)
            assert status == 200 and answer["from"] == "b"
            assert "a: a request failed: upstream_error" in gateway.log()


def test_one_that_cannot_be_connected_to_is_left_after_its_time(program):
    """Before the 2 s that are usual. A probe may find it so before a request does; then it starts again."""
    for _ in range(3):
        with Stub("a") as a, Stub("b") as b:
            config = {"upstreams": [openai_upstream("a", a, timeouts={"connect_ms": 300}), openai_upstream("b", b, standby=True)]}
            with Gateway(program, config).wait_up() as gateway:
                a.stop()
                with Deaf(a.port):
                    began = time.time()
                    status, _, answer = gateway.post("/v1/chat/completions", CHAT)
                    took = time.time() - began
                    assert status == 200 and answer["from"] == "b"
                    if 0.3 <= took < 1.8 and "the upstream did not answer in time" in gateway.log():
                        return
    raise AssertionError("no request met its end")


def test_h6_a_loop_is_508(program):
    with reserved_port() as reserved:
        # A gateway whose upstream is itself: the port has to be known before it listens.
        port = reserved.getsockname()[1]
        config = {"listen": f"127.0.0.1:{port}",
                  "upstreams": [{"name": "self", "kind": "openai", "url": f"http://127.0.0.1:{port}", "model": "default",
                                 "accept_differences": ["all"]}]}
        with Gateway(program, config).wait_up() as gateway:
            assert code_of(gateway.post("/v1/chat/completions", CHAT)) == (508, "loop_detected")


def load(gateway, stop, answers, rate=50):
    """Requests at a steady rate, half of them streams, each on a thread of its own."""
    threads, begin, i = [], time.time(), 0

    def one(body):
        try:
            status, _, answer = gateway.post("/v1/chat/completions", body)
            answers.append((time.time(), status, answer))
        except (OSError, http.client.HTTPException) as error:
            answers.append((time.time(), None, repr(error)))

    while not stop.is_set():
        threads.append(threading.Thread(target=one, args=(STREAM if i % 2 else CHAT,)))
        threads[-1].start()
        i += 1
        time.sleep(max(0, begin + i / rate - time.time()))
    [t.join() for t in threads]
    return i


def listens(port):
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def test_kill_under_load(program, tmp_path):
    """kill -9 of the preferred upstream at 50 requests/s: every request has its answer, and it comes back."""
    def start(port):
        return subprocess.Popen([sys.executable, str(Path(__file__).parent / "stub_upstream.py"), str(port), "a"])
    reserved = reserved_port()
    port = reserved.getsockname()[1]
    process = start(port)
    try:
        with Stub("b") as b:
            first = {"name": "a", "kind": "openai", "url": f"http://127.0.0.1:{port}", "model": "m",
                     "accept_differences": ["all"]}
            config = {"upstreams": [first, openai_upstream("b", b, standby=True)]}
            with Gateway(program, config).wait_up() as gateway:
                stop, answers, sent = threading.Event(), [], []
                loader = threading.Thread(target=lambda: sent.append(load(gateway, stop, answers)))
                loader.start()
                time.sleep(1.5)
                process.kill()
                process.wait()
                time.sleep(2)
                process = start(port)
                assert eventually(lambda: listens(port), 20)
                back = time.time()
                is_a = lambda answer: '"from": "a"' in (answer if isinstance(answer, str) else json.dumps(answer))
                assert eventually(lambda: any(t > back + 0.1 and is_a(x) for t, _, x in list(answers)), 5)
                stop.set()
                loader.join()
                assert len(answers) == sent[0]
                assert {status for _, status, _ in answers} == {200}
                cut = [x for _, _, x in answers if isinstance(x, str) and "[DONE]" not in x]
                assert all("upstream_disconnected" in x for x in cut)
    finally:
        process.kill()
        process.wait()
        reserved.close()


ROUTES = [("POST", "/v1/chat/completions"), ("POST", "/v1/completions"), ("GET", "/v1/models"), ("GET", "/metrics"),
          ("GET", "/nothing")]
ADMIN = [("GET", "/admin/upstreams"), ("POST", "/admin/upstreams/a/drain"), ("POST", "/admin/upstreams/a/resume")]


def as_it_came(gateway, method, path, *fields, host="localhost"):
    body = "{}" if method == "POST" else ""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", "Content-Type: application/json",
             f"Content-Length: {len(body)}", *fields]
    status, answer = gateway.raw(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
    return status, b"".join(line for line in answer.splitlines(True) if not line.lower().startswith((b"date", b"x-request-id")))


def test_e1_every_route_needs_its_key_and_refuses_alike(program):
    with Stub("a") as a:
        with Gateway(program, {"api_keys": ["client-key"], "upstreams": [openai_upstream("a", a)]}, key="client-key").wait_up() as gateway:
            asked, answers = len(a.requests), set()
            for method, path in ROUTES + ADMIN:
                wrong = ["", "Authorization: Bearer wrong", "Authorization: client-key", "Authorization: Bearer client-kez"]
                wrong.append("Authorization: Bearer " + ("client-key" if (method, path) in ADMIN else "admin"))
                for fields in wrong:
                    status, answer = as_it_came(gateway, method, path, *filter(None, [fields]))
                    assert status == 401, (path, fields)
                    answers.add(answer)
            assert len(answers) == 1 and len(a.requests) == asked
            assert not gateway.upstreams()["a"]["instances"][0]["draining"]
            assert gateway.request("GET", "/health", headers={"Authorization": ""})[0] == 200


def test_e3_hosts_origins_and_addresses(program, tmp_path):
    with Stub("a") as a:
        config = {"upstreams": [openai_upstream("a", a)]}
        with Gateway(program, config).wait_up() as gateway:
            for method, path in ROUTES + ADMIN + [("GET", "/health")]:
                for host, *fields in (("evil.test",), ("127.0.0.1.evil.test",), ("localhost", "Origin: http://evil.test"),
                                      ("localhost", "Origin: null")):
                    status, answer = as_it_came(gateway, method, path, *fields, host=host)
                    assert status == 403 and b"access-control" not in answer.lower(), (path, host, fields)
            assert as_it_came(gateway, "GET", "/v1/models", "Origin: http://localhost:3000", host="127.0.0.1")[0] == 200
        path = tmp_path / "gateway.json"
        path.write_text(json.dumps(config | {"listen": "0.0.0.0:0"}))
        done = subprocess.run([program, "gateway", path], capture_output=True, text=True, timeout=20)
        assert done.returncode == 2 and "key_needed" in done.stderr


def test_a_second_signal_ends_the_gateway_at_once(program):
    with Stub("a") as a:
        with Gateway(program, {"upstreams": [openai_upstream("a", a)]}).wait_up() as gateway:
            a.mode = "hang"
            with send(gateway, CHAT):
                assert eventually(lambda: a.requests, 5)
                gateway.process.send_signal(signal.SIGTERM)
                gateway.wait_draining()
                assert gateway.post("/v1/chat/completions", CHAT)[0] == 503, "nothing new"
                gateway.process.send_signal(signal.SIGTERM)
                assert gateway.process.wait(10) == 128 + signal.SIGTERM


@pytest.mark.beside
def test_h6_upstreams_that_are_dead_for_a_minute_are_probed_gently_and_come_back(dead_pair):
    a, b, gateway, since = dead_pair
    time.sleep(max(0, since + 60 - time.time()))
    for stub in (a, b):
        assert len(stub.health_times) >= 30, "it is asked all the time"
        # By the ten, and no three in a second: what other tests beside it do to one of them says nothing about the
        # gateway.
        assert all(later - earlier >= 9.8 for earlier, later in zip(stub.health_times, stub.health_times[10:]))
        assert all(later - earlier >= 1 for earlier, later in zip(stub.health_times, stub.health_times[2:]))
    assert code_of(gateway.post("/v1/chat/completions", CHAT)) == (503, "no_upstream")
    a.healthy = True
    assert eventually(lambda: gateway.post("/v1/chat/completions", CHAT)[0] == 200, 5)
