"""The gateway in front of real runtimes: Martlet inside it, mlx_lm.server, llama-server, llama-cpp-python's server, with
the `openai` client in front. mlx_lm.server is found beside this Python or by MARTLET_MLX_SERVER; llama-server on the path
or by MARTLET_LLAMA_SERVER; llama-cpp-python's server by MARTLET_LLAMA_PYTHON, a Python that has it: each is skipped where
it is not installed."""
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import openai
import pytest

from gateway import CHAT, Gateway
from server import eventually

ASK = dict(model="smollm2", messages=[{"role": "user", "content": "What is the capital of France?"}], max_tokens=6,
           temperature=0)

# Two runtimes round differently; and an MLX folder lists fewer tokens that end an answer (docs/gateway.md, Parity).
DIFFER = ["greedy", "stop", "bos"]


def client_of(gateway):
    return openai.OpenAI(base_url=gateway.url + "/v1", api_key="unused", max_retries=0, timeout=120)


def inside(model, **more):
    return {"name": "inside", "kind": "martlet", "model": str(model), "context": 1024, "concurrent": 4} | more


def text_of(stream):
    return "".join(c.choices[0].delta.content or "" for c in stream if c.choices)


def test_martlet_inside(program, nano, tmp_path):
    config = {"log_dir": str(tmp_path), "upstreams": [inside(nano, serves="nano")]}
    with Gateway(program, config).wait_up() as gateway:
        client = client_of(gateway)
        ask = dict(model="nano", messages=CHAT["messages"], max_tokens=8, temperature=0)
        whole = client.chat.completions.create(**ask)
        assert whole.model == "nano"
        assert text_of(client.chat.completions.create(**ask, stream=True)) == whole.choices[0].message.content
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(**ask, extra_body={"no_such_field": 1})
        assert refused.value.code == "unsupported_parameter"


def test_g1_a_model_that_does_not_fit_is_refused_before_it_loads(program, nano, tmp_path):
    path = tmp_path / "gateway.json"
    path.write_text('{"memory_ceiling": "1MiB", "upstreams": [{"name": "x", "kind": "martlet", "model": "%s"}]}' % nano)
    done = subprocess.run([program, "gateway", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 4 and "does_not_fit" in done.stderr


def test_check_reads_models_and_adds_them_up(program, nano, tmp_path):
    def check(upstreams, **more):
        path = tmp_path / "gateway.json"
        path.write_text(json.dumps({"upstreams": upstreams} | more))
        done = subprocess.run([program, "gateway", path, "--check"], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    assert check([inside(nano)]) == (0, "")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(20))
    code, error = check([inside(nano), inside(broken, name="other")])
    assert code == 3 and "upstream other: " in error
    code, error = check([inside(nano)], memory_ceiling="1MiB")
    assert code == 4 and "does_not_fit" in error
    program_of = {"name": "x", "kind": "mlx-lm", "model": "m", "memory": "1MiB", "command": ["no-such-program", "{port}"]}
    code, error = check([program_of])
    assert code == 5 and "upstream x: there is no such program (no-such-program)" in error


def test_a_model_file_that_changes_ends_the_gateway(program, nano, tmp_path):
    model = tmp_path / "model.gguf"
    shutil.copy(nano, model)
    with Gateway(program, {"upstreams": [inside(model, serves="nano")]}).wait_up() as gateway:
        os.truncate(model, 4096)
        gateway.post("/v1/chat/completions", CHAT | {"model": "nano", "max_tokens": 4})
        assert gateway.process.wait(20) == 5
        assert "error[model_file_changed]: " in gateway.log()


def test_a_body_may_be_as_large_as_the_gateway_says(program, nano, tmp_path):
    """Larger than a server takes by default: the engine inside gets it all the same, and counts its tokens."""
    with Gateway(program, {"max_body": "24MiB", "upstreams": [inside(nano, serves="nano")]}).wait_up() as gateway:
        body = {"model": "nano", "messages": [{"role": "user", "content": "x" * (17 << 20)}], "max_tokens": 1}
        status, _, answer = gateway.post("/v1/chat/completions", body)
        assert status == 400 and answer["error"]["code"] != "body_too_large", answer


@pytest.fixture(scope="module")
def llama_python():
    found = os.environ.get("MARTLET_LLAMA_PYTHON")
    if not found and importlib.util.find_spec("llama_cpp") and importlib.util.find_spec("uvicorn"):
        found = sys.executable
    if not found:
        pytest.skip("llama-cpp-python's server is not installed")
    return found


@pytest.fixture(scope="module")
def llama_server():
    found = os.environ.get("MARTLET_LLAMA_SERVER") or shutil.which("llama-server")
    return found or pytest.skip("llama-server is not installed")


def llama_server_upstream(program, model, name, *words, **more):
    command = [program, "-m", str(model), "-c", "2048", "-np", "2", "--host", "127.0.0.1", "--port", "{port}", *words]
    return {"name": name, "kind": "llama-server", "serves": "smollm2", "model": "smollm2", "file": str(model),
            "memory": "2GiB", "concurrent": 2, "timeouts": {"stop_ms": 3000}, "command": command} | more


def test_llama_server_is_compared_through_its_routes(program, llama_server, default_model, tmp_path):
    """It does the same as the engine inside; one with a newline more in its template does not, and stands in for nobody."""
    template = tmp_path / "template.jinja"
    shown = subprocess.run([program, "show", default_model, "--template"], capture_output=True, text=True, check=True)
    template.write_text(shown.stdout.rstrip("\n") + "{{ '\\n' }}")
    upstreams = [llama_server_upstream(llama_server, default_model, "same", accept_differences=["greedy"]),
                 llama_server_upstream(llama_server, default_model, "newline", "--chat-template-file", str(template)),
                 inside(default_model, serves="smollm2", standby=True)]
    with Gateway(program, {"log_dir": str(tmp_path), "upstreams": upstreams}).wait_up("same", "inside", timeout=120) as gateway:
        assert eventually(lambda: "newline: ready" in gateway.log(), 60)
        found = gateway.upstreams()
        assert set(found["same"]["differences"]) <= {"greedy"} and "template" in found["newline"]["differences"]
        assert found["same"]["version"] and "newline: differs from inside in " in gateway.log()
        client = client_of(gateway)
        for name in ("same", "inside"):
            answer = client.chat.completions.with_raw_response.create(**ASK)
            assert answer.headers["x-martlet-upstream"] == name and answer.parse().choices[0].message.content
            assert gateway.admin("POST", f"/admin/upstreams/{name}/drain")[0] == 200
        with pytest.raises(openai.InternalServerError) as nobody:
            client.chat.completions.create(**ASK)
        assert nobody.value.code == "no_upstream"


def test_llama_server_gets_token_ids(program, llama_server, default_model, tmp_path):
    """Its answers are those that it gives to the text itself, but where a text looks like a control token."""
    upstream = llama_server_upstream(llama_server, default_model, "ids", gateway_tokenizes=True, context=1024)
    with Gateway(program, {"log_dir": str(tmp_path), "upstreams": [upstream]}).wait_up(timeout=120) as gateway:
        assert gateway.upstreams()["ids"]["differences"] == []
        straight = openai.OpenAI(base_url=f"http://127.0.0.1:{child_of(gateway, ' -np ')[1]}/v1", api_key="unused", max_retries=0)
        ask = lambda client, text: client.chat.completions.create(**ASK | {"messages": [{"role": "user", "content": text}]})
        by_ids, by_text = (ask(client, "What is the capital of France?") for client in (client_of(gateway), straight))
        assert by_ids.choices[0].message == by_text.choices[0].message
        assert by_ids.usage.prompt_tokens == by_text.usage.prompt_tokens
        assert text_of(client_of(gateway).chat.completions.create(**ASK, stream=True)) == by_text.choices[0].message.content
        forged = [ask(client, "<|im_end|>").usage.prompt_tokens for client in (client_of(gateway), straight)]
        assert forged[0] > forged[1], "letters, not the token that ends a message"


@pytest.fixture(params=["martlet", "mlx", "llama-server", "llama-python"])
def runtime(request, program, default_model):
    """An upstream that the gateway starts, with the default model: Martlet's own server, mlx_lm.server, llama.cpp's; and
    what its process is known by."""
    common = {"name": request.param, "serves": "smollm2", "memory": "2GiB", "concurrent": 2, "timeouts": {"stop_ms": 3000}}
    address = ["--host", "127.0.0.1", "--port", "{port}"]
    if request.param == "martlet":
        return common | {"kind": "openai", "model": "default",
                         "command": [str(program), "serve", str(default_model), "--context", "1024"] + address}, " serve "
    if request.param == "mlx":
        server, folder = request.getfixturevalue("mlx_server"), str(request.getfixturevalue("mlx_folder"))
        return common | {"kind": "mlx-lm", "model": folder, "command": [server, "--model", folder] + address,
                         "accept_differences": DIFFER}, "mlx_lm.server"
    if request.param == "llama-server":
        server = request.getfixturevalue("llama_server")
        return llama_server_upstream(server, default_model, request.param, accept_differences=["greedy"]), " -np "
    python = request.getfixturevalue("llama_python")
    # It serves one request at a time, models' routes among them, and would cut a stream for whoever asks next.
    alone = ["--interrupt_requests", "false"]
    return common | {"kind": "llama-server", "model": "smollm2", "health": "/openapi.json", "concurrent": 1,
                     "command": [python, "-m", "llama_cpp.server", "--model", str(default_model), "--n_ctx", "1024"] + alone + address,
                     "accept_differences": DIFFER}, "llama_cpp.server"


class Load:
    """Streams at a steady rate, and what became of each: "whole", "cut" after it had begun, or what else went wrong."""

    def __init__(self, client):
        self.client, self.outcomes, self.threads = client, [], []

    def one(self):
        begun = ended = False
        try:
            for chunk in self.client.chat.completions.create(**ASK, stream=True):
                begun = True
                ended |= bool(chunk.choices and chunk.choices[0].finish_reason)
            self.outcomes.append("whole" if ended else "no end")
        except openai.APIError as error:
            cut = begun and getattr(error, "code", None) == "upstream_disconnected"
            self.outcomes.append("cut" if cut else repr(error))

    def start(self):
        self.threads.append(threading.Thread(target=self.one))
        self.threads[-1].start()

    def run(self, rate, seconds):
        begin = time.time()
        for i in range(max(4, int(seconds * rate))):
            time.sleep(max(0, begin + i / rate - time.time()))
            self.start()

    def finish(self):
        [t.join() for t in self.threads]
        assert len(self.outcomes) == len(self.threads)
        return self.outcomes


def capacity(client, at_once, rounds=2):
    """Requests a second that the preferred upstream serves when it is full."""
    load, begin = Load(client), time.time()
    for _ in range(rounds * at_once):
        load.start()
    assert set(load.finish()) == {"whole"}, load.outcomes
    return len(load.outcomes) / (time.time() - begin)


def child_of(gateway, words):
    for entry in Path("/proc").iterdir():
        try:
            stat = (entry / "stat").read_text().rsplit(")", 1)[1].split() if entry.name.isdigit() else None
            command = (entry / "cmdline").read_text().split("\0") if stat and int(stat[1]) == gateway.pid else []
            if words in " ".join(command):
                return int(entry.name), int(command[command.index("--port") + 1])
        except (OSError, ValueError):
            continue
    return None


def answers(port, model):
    """Whether this server gives a token: some listen before their model is there."""
    try:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="unused", max_retries=0, timeout=60)
        return client.chat.completions.create(**ASK | {"model": model, "max_tokens": 1}).choices
    except openai.APIError:
        return False


def test_a_runtime_that_is_killed_under_load_is_stood_in_for(program, default_model, runtime, tmp_path):
    """kill -9 of the preferred runtime at 60 % of its measured capacity, Martlet inside the gateway stands by: each request
    has its answer, whole unless it had begun on the one that died, and the preferred one is back 5 s after its recovery."""
    runtime, words = runtime
    upstreams = [runtime, inside(default_model, serves="smollm2", standby=True)]
    with Gateway(program, {"log_dir": str(tmp_path), "upstreams": upstreams}).wait_up(timeout=240) as gateway:
        client = client_of(gateway)
        who = lambda: client.chat.completions.with_raw_response.create(**ASK).headers["x-martlet-upstream"]
        answer = client.chat.completions.with_raw_response.create(**ASK)
        assert answer.headers["x-martlet-upstream"] == runtime["name"] and answer.parse().choices[0].message.content
        rate = 0.6 * capacity(client, runtime["concurrent"])
        load = Load(client)
        load.run(rate, 2)
        killed, _ = child_of(gateway, words)
        os.kill(killed, signal.SIGKILL)
        load.run(rate, 4)
        outcomes = load.finish()
        assert set(outcomes) <= {"whole", "cut"}, outcomes
        assert outcomes.count("cut") <= runtime["concurrent"], "only what ran there"
        recovered = lambda: (child := child_of(gateway, words)) and child[0] != killed and answers(child[1], runtime["model"])
        assert eventually(recovered, 90), gateway.log()
        back = time.time()
        assert eventually(lambda: who() == runtime["name"], 5), gateway.log()
        print(f"{runtime['name']}: {rate:.1f} requests/s, {outcomes.count('whole')} whole, {outcomes.count('cut')} cut, "
              f"back after {time.time() - back:.1f} s, accepted: {runtime.get('accept_differences')}")
