"""What the gateway does with models' files itself: it compares folders with files, and makes token ids."""
import json
import ssl
import subprocess

import openai
import pytest

from conftest import CHATML
from gateway import CHAT, STREAM, Gateway, openai_upstream
from model_folder import write_model_folder
from server import eventually
from stub_upstream import Stub

STOPS = [259, 260]  # of the small model: <|im_end|>, and <|endoftext|> by its name


def test_an_mlx_folder_is_compared_with_a_file(program, nano, tmp_path):
    folders = {
        "same": dict(template=CHATML, eos=STOPS),
        "template": dict(template=CHATML.replace("\n", "", 1), eos=STOPS),
        "stop": dict(template=CHATML),
        "bos": dict(template=CHATML, eos=STOPS, add_bos_token=True),
        "vocabulary": dict(template=CHATML, eos=STOPS, merges=lambda lines: lines[::-1]),
        "special": dict(template=CHATML, eos=STOPS, eos_token="<|endoftext|>"),
    }
    with Stub("a") as stub:
        def upstream(name, **more):
            return openai_upstream(name, stub, accept_differences=[]) | {"kind": "mlx-lm", "model": str(tmp_path / name)} | more
        for name, what in folders.items():
            write_model_folder(nano, tmp_path / name, **what)
        upstreams = [openai_upstream("file", stub, file=str(nano), accept_differences=[]), *map(upstream, folders)]
        with Gateway(program, {"upstreams": upstreams}).wait_up("file", "same") as gateway:
            found = lambda: {name: u["differences"] for name, u in gateway.upstreams().items()}
            expected = {name: [] if name in ("file", "same") else [name] for name in ("file", *folders)}
            assert eventually(lambda: found() == expected, 10), found()


def test_a_folder_that_cannot_be_read_is_said_before_anything_starts(program, nano, tmp_path):
    folder = write_model_folder(nano, tmp_path / "broken", CHATML)
    (folder / "tokenizer.json").write_text('{"model": {"vocab": {"a": -1}}}')
    config = tmp_path / "gateway.json"
    config.write_text(json.dumps({"upstreams": [{"name": "x", "kind": "mlx-lm", "model": str(folder), "url": "http://127.0.0.1:1"}]}))
    done = subprocess.run([program, "gateway", config, "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and "error[bad_vocab]: upstream x: " in done.stderr and "tokenizer.json" in done.stderr


def tokenized(name, url, nano, **more):
    return {"name": name, "kind": "openai", "url": url, "model": "default", "serves": "nano", "file": str(nano),
            "context": 512, "gateway_tokenizes": True} | more


def test_token_ids_give_the_same_answers_as_text(program, server, nano):
    """Martlet's own server behind the gateway, asked for chats by token ids, against its own chats."""
    with Gateway(program, {"upstreams": [tokenized("ids", server.url, nano)]}).wait_up() as gateway:
        ask = dict(model="nano", messages=CHAT["messages"], max_tokens=8, temperature=0)
        direct = server.post("/v1/chat/completions", ask | {"model": "default"})[2]
        client = openai.OpenAI(base_url=gateway.url + "/v1", api_key="unused", max_retries=0, timeout=60)
        whole = client.chat.completions.create(**ask)
        assert whole.object == "chat.completion" and whole.model == "nano"
        assert whole.choices[0].message.role == "assistant"
        assert whole.choices[0].message.content == direct["choices"][0]["message"]["content"]
        assert whole.choices[0].finish_reason == direct["choices"][0]["finish_reason"]
        assert whole.usage.prompt_tokens == direct["usage"]["prompt_tokens"]
        chunks = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
        assert {c.object for c in chunks} == {"chat.completion.chunk"} and chunks[0].choices[0].delta.role == "assistant"
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert text == whole.choices[0].message.content and chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens
        completion = client.completions.create(model="nano", prompt="Hello", max_tokens=4, temperature=0)
        direct = server.post("/v1/completions", {"prompt": "Hello", "max_tokens": 4, "temperature": 0})[2]
        assert completion.choices[0].text == direct["choices"][0]["text"] and completion.object == "text_completion"
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(**ask, response_format={"type": "json_object"})
        assert refused.value.code == "unsupported_parameter" and refused.value.param == "response_format"
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(**ask | {"messages": [{"role": "user", "content": "x" * 600}]})
        assert refused.value.code == "context_length_exceeded"


def test_upstreams_that_get_token_ids_see_nothing_else(program, nano):
    """Two whose own templates differ stand in for each other; one that takes no ids, or has other ones, gets no request."""
    wrong = lambda body: (200, {"tokens": [1, 2, 3]})
    with Stub("a") as a, Stub("b") as b, Stub("c", mode="text_only") as c, Stub("d", routes={"/tokenize": wrong}) as d:
        upstreams = [tokenized(stub.name, stub.url, nano) for stub in (a, b, c, d)]
        with Gateway(program, {"upstreams": upstreams}).wait_up("a", "b") as gateway:
            assert gateway.post("/v1/chat/completions", STREAM | {"model": "nano"})[0] == 200
            a.mode = "die"
            status, _, answer = gateway.post("/v1/chat/completions", CHAT | {"model": "nano"})
            assert status == 200 and answer["from"] == "b" and answer["choices"][0]["message"]["role"] == "assistant"
            for path, _, body in a.requests + b.requests:
                assert path == "/v1/completions" and "messages" not in body and all(isinstance(t, int) for t in body["prompt"])
            assert b.requests[-1][2]["max_tokens"] == 512 - len(b.requests[-1][2]["prompt"])
            refused = lambda name: "token_ids" in gateway.upstreams()[name]["differences"]
            assert eventually(lambda: refused("c") and refused("d"), 10)
            assert gateway.upstreams()["c"]["apart"] and gateway.upstreams()["d"]["apart"]
            assert "c: takes no token ids: gets no request" in gateway.log()
            assert "d: has another vocabulary than its file: gets no request" in gateway.log()


def test_token_ids_are_tried_again_until_they_are_taken(program, nano):
    """Of one that says nothing of ids nothing is concluded; one that takes them later gets requests then."""
    with Stub("loading", mode=404) as loading, Stub("late", mode="text_only") as late:
        with Gateway(program, {"upstreams": [tokenized(s.name, s.url, nano, serves=s.name) for s in (loading, late)]}) as gateway:
            differences = lambda name: gateway.upstreams()[name]["differences"]
            assert eventually(lambda: loading.requests and "token_ids" in differences("late"), 10)
            assert differences("loading") == []
            loading.mode, late.mode = "text_only", "ok"
            assert eventually(lambda: "token_ids" in differences("loading") and differences("late") == [], 15)
            assert gateway.post("/v1/chat/completions", CHAT | {"model": "late"})[2]["from"] == "late"


def test_token_ids_are_tried_where_there_is_no_chat_template(program, nano_with_bad_template):
    with Stub("a", mode="text_only") as a, Stub("b") as b:
        upstreams = [tokenized(s.name, s.url, nano_with_bad_template, serves=s.name) for s in (a, b)]
        with Gateway(program, {"upstreams": upstreams}).wait_up("b") as gateway:
            assert eventually(lambda: gateway.upstreams()["a"]["differences"] == ["token_ids"], 10)
            assert b.requests and b.requests[0][2]["max_tokens"] == 1


def test_what_cannot_be_sent_as_token_ids_is_asked_of_others(program, nano):
    tools = CHAT | {"model": "nano", "tools": [{"type": "function", "function": {"name": "f"}}]}
    alike = dict(serves="nano", accept_differences=["all"])
    with Stub("text") as text, Stub("ids") as ids, Stub("more") as more:
        with_text = lambda **how: openai_upstream("text", text, **alike, **how)
        with_ids = lambda stub, **how: tokenized(stub.name, stub.url, nano, **alike | how)
        with Gateway(program, {"upstreams": [with_text(hedge_after_ms=200), with_ids(ids, standby=True)]}).wait_up() as gateway:
            ask = lambda body: gateway.post("/v1/chat/completions", body)
            text.first_delay = 3
            assert ask(CHAT | {"model": "nano"})[2]["from"] == "ids", "the faster one"
            text.first_delay = 0.6
            status, _, answer = ask(tools)
            assert status == 200 and answer["from"] == "text", "asked beside it in vain"
            text.first_delay, text.mode = 0, 500
            status, _, answer = ask(tools)
            assert status == 502 and answer["error"]["code"] == "upstream_error", "what failed may go well the next time"
            text.mode = "ok"
        with Gateway(program, {"upstreams": [with_ids(ids), with_ids(more), with_text(standby=True)]}).wait_up() as gateway:
            asked = len(ids.requests) + len(more.requests)
            status, _, answer = gateway.post("/v1/chat/completions", tools)
            assert status == 200 and answer["from"] == "text"
            assert len(ids.requests) + len(more.requests) == asked
        with Gateway(program, {"upstreams": [with_ids(ids), with_ids(more)]}).wait_up() as gateway:
            status, _, answer = gateway.post("/v1/chat/completions", tools)
            assert status == 400 and answer["error"]["code"] == "unsupported_parameter" and answer["error"]["param"] == "tools"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Of this address, and of another."""
    folder = tmp_path_factory.mktemp("tls")
    for name, subject in (("good", "IP:127.0.0.1"), ("other", "DNS:elsewhere")):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem", "-subj", "/CN=stub",
                        "-addext", f"subjectAltName={subject}"], check=True, capture_output=True, timeout=30)
    return folder


def server_side(certificates, name):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")
    return context


def test_what_follows_an_answer_through_tls_answers_nobody_else(program, certificates):
    with Stub("a", tls=server_side(certificates, "good")) as a:
        with Gateway(program, {"upstreams": [openai_upstream("a", a, tls_ca=str(certificates / "good.pem"))]}).wait_up() as gateway:
            for _ in range(5):
                for a.mode in ("twice", "ok"):
                    assert gateway.post("/v1/chat/completions", CHAT)[2]["from"] == "a"


def test_https_upstreams_are_asked_where_their_certificate_is_good(program, certificates):
    with Stub("a", tls=server_side(certificates, "good")) as a, Stub("b", tls=server_side(certificates, "other")) as b, Stub("plain") as plain:
        good, other = str(certificates / "good.pem"), str(certificates / "other.pem")
        upstreams = [openai_upstream("a", a, tls_ca=good), openai_upstream("host", b, tls_ca=other),
                     openai_upstream("unknown", a),
                     openai_upstream("plain", plain, tls_ca=good) | {"url": plain.url.replace("http:", "https:")}]
        with Gateway(program, {"upstreams": upstreams}).wait_up("a") as gateway:
            before = a.connections
            for _ in range(8):
                assert gateway.post("/v1/chat/completions", CHAT)[2]["from"] == "a"
                assert gateway.post("/v1/chat/completions", STREAM)[2].rstrip().endswith("[DONE]")
            assert a.connections - before < 8, "connections are kept"
            invalid, silent = "speaks no TLS, or its certificate is not valid", "did not answer in time"
            for name, why in (("host", invalid), ("unknown", invalid), ("plain", silent)):
                assert eventually(lambda: f"{name}: not up: the upstream {why}" in gateway.log(), 5), gateway.log()
            assert not b.requests
