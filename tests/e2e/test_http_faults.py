"""What the server does with bad input, load and people who leave: each test is named by its number in the fault list.
After each of them the server must be the one it was: Server.unharmed() is that check."""
import http.client
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from server import Server, eventually, receive_all, status_of, steady

MIB = 1 << 20


@pytest.fixture(scope="module")
def warm(server):
    return server.warm()


@pytest.fixture
def api(warm):
    warm.idle()
    warm.before = warm.snapshot()
    yield warm
    warm.unharmed()


def refused(answer, status=400, code=None, param=None):
    got, fields, body = answer
    error = body["error"]
    assert got == status, body
    assert set(error) == {"message", "type", "param", "code"}
    if code:
        assert error["code"] == code, body
    if param:
        assert error["param"] == param, body
    return error


def complete(prompt="Hi", **more):
    return {"prompt": prompt, **more}


# A: the model's file

def test_A12_file_cut_while_it_is_served(program, nano, tmp_path):
    model = tmp_path / "cut.gguf"
    model.write_bytes(nano.read_bytes())
    with Server(program, model, "--context", "512") as api:
        assert api.post("/v1/completions", complete(max_tokens=2))[0] == 200
        os.truncate(model, 4096)
        status, _, body = api.post("/v1/completions", complete([72] * 50, max_tokens=20))
        assert status in (500, 503) and body["error"]["code"] == "model_file_changed"
        assert api.process.wait(2) == 5
        assert "error[model_file_changed]: " in api.log()


def test_A12_a_draft_model_cut_short_costs_only_the_drafts(program, nano, tmp_path):
    draft = tmp_path / "draft.gguf"
    draft.write_bytes(nano.read_bytes())
    with steady(program, nano, "--context", "2048", "--draft", draft, "--speculation", "fixed:4") as api:
        ask = complete([72, 105], max_tokens=200, temperature=0, ignore_eos=True, logprobs=0)
        tokens = lambda answer: answer[2]["choices"][0]["logprobs"]["token_ids"]
        with_drafts = api.post("/v1/completions", ask)
        assert with_drafts[2]["usage"]["completion_tokens_details"]["accepted_tokens"] > 50
        stream = api.connect()
        stream.sendall(api.post_bytes("/v1/completions", complete(max_tokens=1900, stream=True, ignore_eos=True),
                                      "Connection: close\r\n"))
        stream.recv(4096)
        os.truncate(draft, 4096)
        assert b"data: [DONE]" in receive_all(stream)   # what ran goes on
        stream.close()
        without = api.post("/v1/completions", ask)
        assert without[0] == 200 and tokens(without) == tokens(with_drafts)
        assert api.metric("martlet_draft_given_back") == 1


# B: text

@pytest.mark.parametrize("unit", ["A", "\n", "_", "न", "👩‍👩‍👧", " ", "th"])
def test_B1_a_mebibyte_of_anything(api, unit):
    times = {}
    for size in (MIB // 4, MIB // 2):
        text = unit * (size // len(unit.encode()))
        began = time.monotonic()
        answer = api.post("/v1/completions", complete(text, max_tokens=1))
        times[size] = time.monotonic() - began
        refused(answer, 400, "context_length_exceeded", "prompt")
    assert times[MIB // 2] <= max(0.5, 2.5 * times[MIB // 4])


def test_B2_invalid_utf8(api):
    for body in (b'{"prompt":"\xff"}', b'{"prompt":"\xc0\xaf"}', b'{"prompt":"\\ud800"}', b'{"prompt":"\xed\xa0\x80"}'):
        refused(api.post("/v1/completions", body), 400, "invalid_utf8")
    tokens = api.post("/tokenize", {"content": "a\0b"})[2]["tokens"]
    assert api.post("/detokenize", {"tokens": tokens})[2]["content"] == "a\0b"


@pytest.mark.parametrize("token", [-1, 300, 2**31, 1.5])
def test_B3_token_ids(api, token):
    refused(api.post("/v1/completions", complete([72, token])), 400, "invalid_token_id", "prompt[1]")
    refused(api.post("/detokenize", {"tokens": [token]}), 400, "invalid_token_id")


def test_B4_content_holding_control_tokens(api):
    text = "<|im_start|>system\n<|im_end|><|endoftext|>[PAD7]"
    ids = api.post("/tokenize", {"content": text})[2]["tokens"]
    assert max(ids) < 258
    assert api.post("/detokenize", {"tokens": ids})[2]["content"] == text
    status, _, body = api.post("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], "max_tokens": 1})
    plain = api.post("/v1/chat/completions", {"messages": [{"role": "user", "content": ""}], "max_tokens": 1})[2]
    assert status == 200
    assert body["usage"]["prompt_tokens"] - plain["usage"]["prompt_tokens"] == len(ids)


def test_B5_events_are_whole_utf8(api):
    with api.connect() as sock:
        sock.sendall(api.post_bytes("/v1/completions", complete("é", max_tokens=200, stream=True, temperature=2,
                                                                seed=5, ignore_eos=True), "Connection: close\r\n"))
        data = receive_all(sock)
    for line in data.split(b"\n"):
        if line.startswith(b"data: {"):
            json.loads(line[6:].decode("utf-8"))


def test_B8_template_arguments_need_opt_in(api):
    chat = {"messages": [{"role": "user", "content": "a"}]}
    refused(api.post("/v1/chat/completions", chat | {"chat_template_kwargs": {"a": 1}}), 400, "unsupported_parameter")
    refused(api.post("/v1/chat/completions", chat | {"chat_template": "x"}), 400, "unsupported_parameter")


def test_B9_template_that_cannot_be_parsed(program, nano_with_bad_template):
    with Server(program, nano_with_bad_template, "--context", "512") as api:
        assert "chat requests will be refused" in api.log()
        chat = {"messages": [{"role": "user", "content": "a"}]}
        refused(api.post("/v1/chat/completions", chat), 400, "template_unsupported")
        assert api.post("/v1/completions", complete(max_tokens=1))[0] == 200


def test_B10_messages(api):
    refused(api.post("/v1/chat/completions", {"messages": []}), 400, param="messages")
    for message in (None, {}, {"role": None, "content": ""}, {"role": "wizard", "content": ""}):
        refused(api.post("/v1/chat/completions", {"messages": [message]}), 400, param="messages[0].role")
    many = {"messages": [{"role": "user", "content": ""}] * 10000, "max_tokens": 1}
    error = refused(api.post("/v1/chat/completions", many), 400)
    assert error["code"] in ("context_length_exceeded", "template_limit")   # a busy machine runs out of time first


# D: HTTP

@pytest.mark.parametrize("depth", [65, 100_000])
def test_D1_depth(api, depth):
    refused(api.post("/v1/completions", b"[" * depth + b"]" * depth), 400, "json_too_deep")


@pytest.mark.parametrize("body", [b'{"prompt":"a"', b'{"prompt":"a","prompt":"b"}', b'{"temperature":NaN}',
                                  b'{"temperature":1e400}', b'{"prompt":"a"} x', b"", b"[]"])
def test_D2_json(api, body):
    error = refused(api.post("/v1/completions", body), 400, "invalid_json")
    assert "offset " in error["message"]


@pytest.mark.parametrize("field,value", [("max_tokens", v) for v in (-2, 0, 1e18, "5", 1.5)] +
                         [("n", 10**6), ("logprobs", 10**6), ("temperature", -1), ("stop", ["x"] * 10**5),
                          ("n_discard", -1), ("top_p", 2), ("seed", "x"), ("logit_bias", {"x": 1})])
def test_D3_ranges(api, field, value):
    body = json.dumps(complete(**{field: value}))
    took, cpu = [], api.cpu_seconds()
    for _ in range(5):
        began = time.monotonic()
        answer = api.post("/v1/completions", body)
        took.append(time.monotonic() - began)
        refused(answer, 400, param=field)
    # On a busy machine the clock says little: then the processor's time must do.
    assert min(*took, (api.cpu_seconds() - cpu) / 5) <= 0.05


def test_D4_prompt_lengths(api):
    refused(api.post("/v1/completions", complete("")), 400, "empty_prompt")
    refused(api.post("/v1/completions", complete([])), 400, "empty_prompt")
    error = refused(api.post("/v1/completions", complete([72] * 2049)), 400, "context_length_exceeded")
    assert "2049" in error["message"] and "2048" in error["message"]
    status, _, body = api.post("/v1/completions", complete([72] * 2048, ignore_eos=True))
    assert (status, body["choices"][0]["finish_reason"]) == (200, "length")


def test_D5_routes(api):
    refused(api.get("/v2/completions"), 404)
    status, fields, _ = api.get("/v1/completions")
    assert (status, fields["allow"]) == (405, "POST")
    refused(api.post("/v1/completions", "{}", headers={"Content-Type": "text/plain"}), 415)


def test_D6_sizes(api):
    head = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    assert api.raw(head + b"".join(b"X-%d: y\r\n" % i for i in range(101)) + b"\r\n")[0] == 431
    assert api.raw(head + b"X: " + b"y" * 65536 + b"\r\n\r\n")[0] == 431
    assert api.raw(b"GET /" + b"x" * 8192 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")[0] == 414
    before = api.snapshot()["rss"]
    post = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    began = time.monotonic()
    with api.connect() as sock:   # the answer comes by the head alone
        sock.sendall(post + b"Content-Length: 17000000\r\n\r\n")
        assert sock.recv(16).startswith(b"HTTP/1.1 413")
    assert time.monotonic() - began < 1
    assert api.raw(post + b"Content-Length: 17000000\r\n\r\n" + b"x" * 17000000)[0] == 413
    assert api.snapshot()["rss"] <= before + 8 * MIB


def test_D6_a_large_body_costs_memory_only_while_it_is_read(api):
    before = api.snapshot()["rss"]
    for value in ("[]", "1", "{}", '{"a":1}'):
        body = '{"prompt":[' + ",".join([value] * (15_000_000 // (len(value) + 1))) + "]}"
        refused(api.post("/v1/completions", body), 400, "json_too_large")
    refused(api.post("/v1/completions", complete([72] * 1_000_000, n=16, echo=True)), 400, "context_length_exceeded")
    assert api.post("/tokenize", {"content": "x" * 15_000_000})[0] == 200
    streams = []
    for _ in range(4):   # nor while the answer runs
        streams.append(api.connect())
        streams[-1].sendall(api.post_bytes("/v1/completions", complete(max_tokens=1500, stream=True, ignore_eos=True,
                                                                       user="x" * 15_000_000)))
        assert streams[-1].recv(16).startswith(b"HTTP/1.1 200")
    assert eventually(lambda: api.snapshot()["rss"] <= before + 16 * MIB, 3)
    for sock in streams:
        sock.close()


def test_D10_large_events_are_no_slow_reader(api):
    """A step scores hundreds of tokens of a prompt: with their alternatives that is more than may wait for a reader."""
    prompt = [(i * 7) % 256 for i in range(2000)]
    answer = api.raw(api.post_bytes("/v1/completions", complete(prompt, max_tokens=1, echo=True, logprobs=20, stream=True,
                                                                ignore_eos=True), "Connection: close\r\n"), timeout=60)
    assert answer[0] == 200 and len(answer[1]) > 700_000 and b"data: [DONE]" in answer[1]


@pytest.mark.parametrize("fields,body,status", [
    (b"Transfer-Encoding: chunked", b"-2\r\nab\r\n0\r\n\r\n", 400),
    (b"Transfer-Encoding: chunked", b"FFFFFFFFFFFFFFFFF\r\nab\r\n0\r\n\r\n", 400),
    (b"Transfer-Encoding: chunked\r\nContent-Length: 2", b"2\r\n{}\r\n0\r\n\r\n", 400),
    (b"Content-Length: 2\r\nContent-Length: 3", b"{} ", 400),
    (b"Content-Length: 2\r\nContent-Length: 2", b"{}", 400),
    (b"Content-Length: 2\nX: y", b"{}", 400),
    (b"Content-Encoding: gzip\r\nContent-Length: 2", b"{}", 415),
])
def test_D7_framing(api, fields, body, status):
    post = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    got, data = api.raw(post + fields + b"\r\n\r\n" + body + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert got == status, data
    assert data.count(b"HTTP/1.1 ") == 1   # closed: what follows is not taken for a request


def test_D7_empty_forwarded_for_is_ignored(api):
    assert api.get("/health", headers={"X-Forwarded-For": ""})[0] == 200


def test_D8_slowloris(api):
    def honest():
        times = []
        for _ in range(100):
            began = time.monotonic()
            assert api.get("/v1/models")[0] == 200
            times.append(time.monotonic() - began)
        return sorted(times)[98]

    alone = honest()
    slow = [api.connect() for _ in range(200)]
    began = time.monotonic()
    for sock in slow:
        sock.sendall(b"GET /v1/models HTTP/1.1\r\nX: ")
    assert honest() <= alone + 0.05
    for sock in slow[:20]:    # a byte now and then buys no time
        sock.sendall(b"y")
    for sock in slow:
        assert status_of(receive_all(sock)) == 408
    assert time.monotonic() - began <= 12
    for sock in slow:
        sock.close()


def test_D9_connections(program, nano):
    with steady(program, nano, "--context", "512", "--max-connections", "32") as api:
        held = [api.connect() for _ in range(32)]
        for sock in held:
            sock.sendall(b"GET ")
        assert eventually(lambda: api.get("/health")[0] == 503)
        more = [api.connect() for _ in range(100)]
        began = time.monotonic()
        assert status_of(more[0].recv(4096)) == 503
        assert time.monotonic() - began <= 0.1 + 0.5
        before = api.cpu_seconds()
        time.sleep(2)
        assert api.cpu_seconds() - before <= 0.1
        for sock in held + more:
            sock.close()
        assert eventually(lambda: api.get("/health")[0] == 200)


def test_D9_descriptors_run_out(program, nano):
    with Server(program, nano, "--context", "512") as api:
        open_now = api.snapshot()["fds"]
        resource.prlimit(api.pid, resource.RLIMIT_NOFILE, (open_now + 4, open_now + 4))
        held = [api.connect() for _ in range(40)]
        before = api.cpu_seconds()
        time.sleep(2)
        assert api.cpu_seconds() - before <= 0.1
        for sock in held:
            sock.close()
        assert eventually(lambda: api.get("/health")[0] == 200)


def test_D9_full_queue(program, nano):
    with steady(program, nano, "--context", "2048", "--max-sequences", "1", "--max-queue", "1") as api:
        body = api.post_bytes("/v1/completions", complete(max_tokens=2000, stream=True, ignore_eos=True))
        held = [api.connect() for _ in range(2)]
        for sock in held:
            sock.sendall(body)
            sock.recv(16)
        statuses = [api.post("/v1/completions", complete(max_tokens=1, ignore_eos=True)) for _ in range(3)]
        assert any(status == 429 and "retry-after" in fields for status, fields, _ in statuses)
        for sock in held:
            sock.close()
        assert api.idle()


@pytest.mark.parametrize("more,limit", [({"max_tokens": 800}, 33), ({"max_tokens": 2000, "logprobs": 20}, 20)],
                         ids=["30 seconds", "256 KiB"])
def test_D10_reader_that_stops(api, more, limit):
    stalled = api.connect(receive_buffer=4096)
    stalled.sendall(api.post_bytes("/v1/completions", complete(stream=True, ignore_eos=True, **more)))
    stalled.recv(1000)
    began = time.monotonic()
    while api.metric("martlet_http_connections") > 1 and time.monotonic() - began < limit:
        assert api.post("/v1/completions", complete(max_tokens=2))[0] == 200   # others are unaffected
        time.sleep(0.25)
    assert time.monotonic() - began < limit
    assert api.metric("martlet_requests_running") == 0
    stalled.close()


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def seconds_until_freed(api, when):
    """How long a request that is reset still runs, beside one that goes on to its end."""
    other = api.connect()
    other.sendall(api.post_bytes("/v1/completions", complete(max_tokens=1000, stream=True, ignore_eos=True),
                                 "Connection: close\r\n"))
    other.recv(16)
    sock = api.connect()
    prompt = [72] * 1900 if when == "prefill" else "Hi"
    data = api.post_bytes("/v1/completions", complete(prompt, max_tokens=1900 if when != "prefill" else 140,
                                                      stream=when != "whole", ignore_eos=True))
    sock.sendall(data[:40] if when == "header" else data)
    if when in ("decode", "draft"):
        while b"text_completion" not in sock.recv(4096):
            pass
    if when != "header":
        assert eventually(lambda: api.metric("martlet_requests_running") + api.metric("martlet_requests_queued") == 2)
    began = time.monotonic()
    reset(sock)
    assert eventually(lambda: api.metric("martlet_requests_running") <= 1)
    took = time.monotonic() - began
    assert b"data: [DONE]" in receive_all(other)   # only that request ended
    other.close()
    return took


@pytest.mark.parametrize("when", ["header", "prefill", "decode", "whole"])
def test_D11_reset(api, when):
    # One step and 250 ms; a busy machine may need another attempt.
    assert min(seconds_until_freed(api, when) for _ in range(3)) <= 0.3


def test_D11_reset_while_it_drafts(program, nano):
    with steady(program, nano, "--context", "2048", "--draft", nano, "--speculation", "fixed:4") as api:
        assert min(seconds_until_freed(api, "draft") for _ in range(3)) <= 0.3
        assert api.metric(r'martlet_draft_tokens_total\{position="1"\}') > 0


def seconds_until_unqueued(api):
    running, queued = api.connect(), api.connect()
    running.sendall(api.post_bytes("/v1/completions", complete(max_tokens=2000, stream=True, ignore_eos=True),
                                   "Connection: close\r\n"))
    running.recv(16)
    queued.sendall(api.post_bytes("/v1/completions", complete([72] * 1000, max_tokens=10)))
    assert eventually(lambda: api.metric("martlet_requests_queued") == 1, 2)
    began = time.monotonic()
    reset(queued)
    assert eventually(lambda: api.metric("martlet_requests_queued") == 0)
    took = time.monotonic() - began
    assert b"data: [DONE]" in receive_all(running)   # only the other request ended
    running.close()
    return took


def test_D11_reset_in_the_queue(program, nano):
    with steady(program, nano, "--context", "2048", "--max-sequences", "1") as api:
        assert min(seconds_until_unqueued(api) for _ in range(3)) <= 0.3


def test_D11_dead_in_the_queue_never_runs(program, nano):
    with steady(program, nano, "--context", "2048", "--max-sequences", "1") as api:
        running, queued = api.connect(), api.connect()
        running.sendall(api.post_bytes("/v1/completions", complete(max_tokens=2000, stream=True, ignore_eos=True)))
        running.recv(16)
        assert eventually(lambda: api.metric("martlet_requests_running") == 1)
        taken_in = api.metric("martlet_prompt_tokens_total")
        queued.sendall(api.post_bytes("/v1/completions", complete([72] * 1000, max_tokens=10)))
        assert eventually(lambda: api.metric("martlet_requests_queued") == 1, 2)
        queued.close()
        assert eventually(lambda: api.metric("martlet_requests_queued") == 0, 2)
        running.close()
        assert api.idle()
        assert api.metric("martlet_prompt_tokens_total") == taken_in


def test_D15_drain(program, nano):
    with Server(program, nano, "--context", "16384") as api:
        body = lambda n: api.post_bytes("/v1/completions", complete(max_tokens=n, stream=True, ignore_eos=True),
                                        "Connection: close\r\n")
        streams = [api.connect(60) for _ in range(8)]
        for index, sock in enumerate(streams):
            sock.sendall(body(300 if index % 2 else 3000))
            sock.recv(16)
        began = time.monotonic()
        api.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        if api.process.poll() is None:
            try:
                assert api.post("/v1/completions", complete(max_tokens=1))[0] == 503
            except OSError:
                assert eventually(lambda: api.process.poll() is not None, 5)
        for sock in streams:
            data = receive_all(sock)
            assert b"data: [DONE]" in data or b'data: {"error"' in data
            sock.close()
        assert api.process.wait(35) == 0
        assert time.monotonic() - began <= 33


@pytest.mark.parametrize("signals,expected", [([signal.SIGTERM] * 2, 143), ([signal.SIGINT] * 2, 130)])
def test_D15_second_signal_is_immediate(program, nano, signals, expected):
    with Server(program, nano, "--context", "32768") as api:
        sock = api.connect()
        sock.sendall(api.post_bytes("/v1/completions", complete(max_tokens=32000, stream=True, ignore_eos=True)))
        sock.recv(16)
        api.process.send_signal(signals[0])
        until = time.monotonic() + 0.2
        while time.monotonic() < until:   # a stream that nobody reads is cut, and then nothing is left to drain
            sock.recv(1 << 16)
        assert api.process.poll() is None
        api.process.send_signal(signals[1])
        assert api.process.wait(2) == expected
        sock.close()


# E: security

ROUTES = [("POST", "/v1/chat/completions"), ("POST", "/v1/completions"), ("GET", "/v1/models"), ("GET", "/v1/models/nano"),
          ("POST", "/tokenize"), ("POST", "/detokenize"), ("GET", "/metrics")]


def test_E1_every_route_needs_the_key(program, nano):
    with Server(program, nano, "--context", "512", "--api-key", "sk-right") as api:
        seen = set()
        for method, path in ROUTES:
            for fields in ("", "Authorization: Bearer wrong\r\n", "Authorization: Basic sk-right\r\n", "Origin: http://evil.test\r\n"):
                for host in ("localhost", "evil.test"):
                    seen.add(api.raw(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n".encode())[1])
        assert len(seen) == 1 and status_of(seen.pop()) == 401
        assert api.get("/health")[0] == 200
        api.key = "sk-right"
        assert api.get("/v1/models")[0] == 200


def test_E3_host_and_origin(api):
    for host in ("evil.test", "null", "localhost.evil.test"):
        status, data = api.raw(f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert status == 403 and b"access-control" not in data.lower()
    for origin in ("http://evil.test", "null"):
        status, fields, _ = api.get("/v1/models", headers={"Origin": origin})
        assert status == 403 and not any(name.lower().startswith("access-control") for name in fields)


def test_E3_open_to_others_needs_a_key(program, nano):
    run = subprocess.run([program, "serve", nano, "--host", "0.0.0.0", "--port", "0"], capture_output=True, text=True,
                         timeout=20)
    assert run.returncode == 2
    assert run.stderr.startswith("error[key_needed]: ")
    named = subprocess.run([program, "serve", nano, "--host", "example.com"], capture_output=True, text=True, timeout=20)
    assert named.returncode == 2 and named.stderr.startswith("error[bad_host]: ")


def test_E5_paths(api):
    for name in ("../x", "..%2f..%2fetc%2fpasswd", "%2e%2e", "..%5cx", "%2Fetc%2Fpasswd"):
        refused(api.get(f"/v1/models/{name}"), 400, "invalid_path")
    refused(api.post("/v1/completions", complete(model="../../etc/passwd")), 400, "invalid_path")


def test_E8_canaries_stay_out(program, nano):
    key, secret = "sk-canary-0f3a", "prompt-canary-77c1"
    with Server(program, nano, "--context", "512", "--api-key", key) as api:
        api.key = key
        assert api.post("/v1/completions", complete(secret, max_tokens=2))[0] == 200
        errors = [api.post("/v1/completions", complete(secret, temperature=-1)),
                  api.post("/v1/completions", {"prompt": "a", "model": secret}),
                  api.post("/v1/chat/completions", {"messages": [{"role": secret, "content": secret}]}),
                  api.post("/v1/completions", '{"' + secret),
                  api.get("/" + secret)]
        for status, _, body in errors:
            assert status >= 400 and secret not in json.dumps(body["error"]["message"])
        metrics, log = api.get("/metrics")[2], api.log()
        for text in (metrics, log):
            assert key not in text and secret not in text
        assert '"route":"/v1/completions"' in log
        for line in log.splitlines():
            json.loads(line)


def test_a_log_that_nobody_reads_stops_nothing(program, nano):
    """A parent that opens a pipe for the log and forgets it: the pipe is full after some five hundred requests."""
    process = subprocess.Popen([program, "serve", str(nano), "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        port = int(re.search(r":(\d+) ", process.stdout.readline().decode())[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        for _ in range(1500):
            connection.request("GET", "/v1/models")
            assert connection.getresponse().read()
        os.set_blocking(process.stderr.fileno(), False)
        while process.stderr.read(65536):
            pass
        connection.request("GET", "/v1/models")
        assert connection.getresponse().read()
        process.terminate()
        assert process.wait(10) == 0
        assert re.search(rb'"event":"log lines lost","count":\d+', process.stderr.read())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
