"""The gateway in front of real runtimes: Martlet inside it, mlx_lm.server, llama-cpp-python's server, with the `openai`
client in front. mlx_lm.server is found beside this Python or by MARTLET_MLX_SERVER; llama-cpp-python's server by
MARTLET_LLAMA_PYTHON, a Python that has it: both are skipped where they are not installed."""
import importlib.util
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

ROOT = Path(__file__).resolve().parents[2]
ASK = dict(model="smollm2", messages=[{"role": "user", "content": "What is the capital of France?"}], max_tokens=16,
           temperature=0)


def client_of(gateway):
    return openai.OpenAI(base_url=gateway.url + "/v1", api_key="unused", max_retries=0, timeout=120)


def inside(model, **more):
    return {"name": "inside", "kind": "martlet", "model": str(model), "context": 1024, "concurrent": 4} | more


@pytest.fixture(scope="module")
def mlx_server():
    found = os.environ.get("MARTLET_MLX_SERVER") or shutil.which("mlx_lm.server", path=str(Path(sys.executable).parent))
    if not found:
        pytest.skip("mlx_lm.server is not installed")
    return found


@pytest.fixture(scope="module")
def mlx_folder(mlx_server, default_model, tmp_path_factory):
    """The default model as an MLX folder, values exactly equal; MARTLET_MLX_FOLDER has one ready."""
    if os.environ.get("MARTLET_MLX_FOLDER"):
        return Path(os.environ["MARTLET_MLX_FOLDER"])
    folder = tmp_path_factory.mktemp("mlx")
    python = Path(mlx_server).parent / "python"
    subprocess.run([python, ROOT / "tools/to_mlx.py", default_model, folder], check=True, timeout=300)
    return folder


def mlx(server, folder, **more):
    return {"name": "mlx", "kind": "mlx-lm", "model": str(folder), "serves": "smollm2", "memory": "2GiB",
            "command": [server, "--model", str(folder), "--host", "127.0.0.1", "--port", "{port}"], "concurrent": 4,
            "timeouts": {"stop_ms": 3000}} | more


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


def kill_under_load(gateway, victim, seconds, rate):
    """Streams at a steady rate while `victim` is killed; statuses, and whether each ended as it should."""
    outcomes, threads, client = [], [], client_of(gateway)

    def one():
        try:
            chunks = list(client.chat.completions.create(**ASK, stream=True))
            outcomes.append("whole" if chunks[-1].choices and chunks[-1].choices[0].finish_reason or chunks else "empty")
        except openai.APIError as error:
            outcomes.append("cut" if getattr(error, "code", None) == "upstream_disconnected" else repr(error))

    begin = time.time()
    for i in range(int(seconds * rate)):
        time.sleep(max(0, begin + i / rate - time.time()))
        threads.append(threading.Thread(target=one))
        threads[-1].start()
        if i == int(seconds * rate) // 3:
            os.kill(victim(), signal.SIGKILL)
    [t.join() for t in threads]
    return outcomes


def child_of(gateway, words):
    for entry in Path("/proc").iterdir():
        try:
            stat = (entry / "stat").read_text().rsplit(")", 1)[1].split() if entry.name.isdigit() else None
            if stat and int(stat[1]) == gateway.pid and words in (entry / "cmdline").read_text():
                return int(entry.name)
        except OSError:
            continue
    raise AssertionError(f"no child of the gateway runs {words}")


def test_mlx_and_martlet_are_alike_and_stand_in_for_each_other(program, default_model, mlx_server, mlx_folder, tmp_path):
    accepted = ["greedy", "stop", "bos"]  # see docs/gateway.md: two runtimes round differently
    upstreams = [mlx(mlx_server, mlx_folder, accept_differences=accepted),
                 inside(default_model, serves="smollm2", standby=True, accept_differences=accepted)]
    with Gateway(program, {"log_dir": str(tmp_path), "upstreams": upstreams}).wait_up(timeout=300) as gateway:
        print("differences:", {name: u["differences"] for name, u in gateway.upstreams().items()})
        client = client_of(gateway)
        answer = client.chat.completions.with_raw_response.create(**ASK)
        assert answer.headers["x-martlet-upstream"] == "mlx" and answer.parse().choices[0].message.content
        outcomes = kill_under_load(gateway, lambda: child_of(gateway, "mlx_lm"), 6, 2)
        assert set(outcomes) <= {"whole", "cut"} and outcomes.count("whole") >= len(outcomes) - 4, outcomes
        back = lambda: client.chat.completions.with_raw_response.create(**ASK).headers["x-martlet-upstream"] == "mlx"
        assert eventually(back, 60)


@pytest.fixture(scope="module")
def llama_python():
    found = os.environ.get("MARTLET_LLAMA_PYTHON")
    if not found and importlib.util.find_spec("llama_cpp") and importlib.util.find_spec("uvicorn"):
        found = sys.executable
    if not found:
        pytest.skip("llama-cpp-python's server is not installed")
    return found


def test_llama_and_martlet_are_alike(program, default_model, llama_python, tmp_path):
    accepted = ["greedy", "stop"]
    llama = {"name": "llama", "kind": "llama-server", "model": "smollm2", "serves": "smollm2", "memory": "2GiB",
             "health": "/v1/models", "accept_differences": accepted, "concurrent": 1, "standby": True,
             "command": [llama_python, "-m", "llama_cpp.server", "--model", str(default_model), "--n_ctx", "1024",
                         "--host", "127.0.0.1", "--port", "{port}"]}
    upstreams = [inside(default_model, serves="smollm2", accept_differences=accepted), llama]
    with Gateway(program, {"log_dir": str(tmp_path), "upstreams": upstreams}) as gateway:
        ready = lambda: all(not u["instances"][0]["preparing"] for u in gateway.upstreams().values())
        assert eventually(ready, 240), (tmp_path / "llama-0.log").read_text()[-2000:]
        print("differences:", {name: u["differences"] for name, u in gateway.upstreams().items()})
        assert gateway.admin("POST", "/admin/upstreams/inside/drain")[0] == 200
        if not gateway.upstreams()["llama"]["apart"]:
            answer = client_of(gateway).chat.completions.with_raw_response.create(**ASK)
            assert answer.headers["x-martlet-upstream"] == "llama"
