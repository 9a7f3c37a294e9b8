"""Several models in one server, memory pressure, and what operators see."""
import ctypes
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from server import Server, eventually, steady

pytestmark = pytest.mark.beside
MIB = 1 << 20


@pytest.fixture(scope="module")
def folder(nano, tmp_path_factory):
    """Three models of about 30 MiB of plan each, and what is no model."""
    folder = tmp_path_factory.mktemp("served")
    for name in ("anna", "bert", "carl"):
        os.link(nano, folder / f"{name}.gguf")
    (folder / "broken.gguf").write_bytes(b"GGUF but not really")
    (folder / "notes.txt").write_text("not a model")
    return folder


def complete(server, model, **more):
    return server.post("/v1/completions", {"prompt": "Hi", "max_tokens": 4, "model": model, **more})


def states(server):
    return {m["id"]: m["state"] for m in server.get("/v1/models")[2]["data"]}


def test_a_folder_of_models_is_loaded_on_first_use(program, folder):
    with Server(program, None, "--models", folder, "--context", "512") as server:
        assert states(server) == dict.fromkeys(["anna", "bert", "broken", "carl"], "unloaded")
        assert complete(server, "bert")[2]["model"] == "bert"
        assert complete(server, "default")[2]["model"] == "anna"
        assert states(server) == {"anna": "loaded", "bert": "loaded", "broken": "unloaded", "carl": "unloaded"}
        status, _, body = complete(server, "broken")
        assert status == 500 and body["error"]["code"] == "bad_header"
        assert server.get("/v1/models/broken")[2]["error"] == "bad_header"
        assert complete(server, "nobody")[0] == 404
        assert complete(server, "carl", keep_alive=0)[0] == 200
        assert eventually(lambda: states(server)["carl"] == "unloaded")
        assert server.post("/tokenize", {"content": "the", "model": "carl"})[2]["count"] == 1
        assert "serves 4 models" in server.ready


def test_a_model_is_opened_once(program, nano, tmp_path):
    """Planned and loaded from the same mapping, as the kernel counts."""
    libc, model = ctypes.CDLL(None, use_errno=True), tmp_path / "once.gguf"
    if not hasattr(libc, "inotify_init1"):
        pytest.skip("needs inotify")
    model.write_bytes(nano.read_bytes())
    watch = libc.inotify_init1(os.O_NONBLOCK)
    # Opened and closed, by readers and writers: equal events in a row are one, so the closing between them is asked for too.
    assert libc.inotify_add_watch(watch, str(model).encode(), 0x38) >= 0
    try:
        with Server(program, model, "--context", "512"):
            opened = os.read(watch, 4096)
        events = [int.from_bytes(opened[at + 4:at + 8], sys.byteorder) for at in range(0, len(opened), 16)]
        assert events == [0x20], events   # IN_OPEN, and open it stays
    finally:
        os.close(watch)


def test_memory_decides_which_stay(program, folder):
    _, planned, _ = plan_of(program, folder / "anna.gguf", "--context", "2048", "--streams", "4")
    model = sum(p["bytes"] for p in planned["parts"] if p["name"] not in ("program", "server"))
    ceiling = planned["total"] + model + 2 * MIB  # two of them, not three
    flags = ("--context", "2048", "--streams", "4", "--memory", str(ceiling))
    with Server(program, folder / "anna.gguf", folder / "bert.gguf", folder / "carl.gguf", *flags) as server:
        assert states(server) == {"anna": "loaded", "bert": "unloaded", "carl": "unloaded"}
        mapped = Path(f"/proc/{server.pid}/maps").read_text()
        assert "anna.gguf" in mapped and "bert.gguf" not in mapped   # looked at, and closed again
        assert complete(server, "bert")[0] == 200
        assert complete(server, "anna")[0] == 200
        assert complete(server, "carl")[0] == 200
        assert states(server) == {"anna": "loaded", "bert": "unloaded", "carl": "loaded"}
        health = server.get("/health")[2]
        assert health["memory"]["planned"] <= health["memory"]["ceiling"] == ceiling
        assert health["models"] == {"served": 3, "loaded": 2}


def plan_of(program, model, *flags):
    done = subprocess.run([program, "plan", model, "--json", *flags], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout), done.stderr


def test_what_cannot_be_served_is_said_at_the_start(program, folder, tmp_path):
    def start(*arguments):
        done = subprocess.run([program, "serve", "--port", "0", *arguments], capture_output=True, text=True, timeout=30)
        return done.returncode, done.stderr.splitlines()[-1]

    code, line = start(folder / "anna.gguf", folder / "broken.gguf")
    assert code == 3 and line.startswith("error[bad_header]")
    code, line = start(folder / "anna.gguf", folder / "anna.gguf")
    assert code == 2 and line.startswith("error[duplicate_name]")
    code, line = start("--models", tmp_path)
    assert code == 5 and line.startswith("error[no_models]")
    code, line = start(folder / "anna.gguf", "--keep-alive", "soon")
    assert code == 2 and "--keep-alive" in line
    code, line = start(folder / "anna.gguf", "--memory", "30MiB")
    assert code == 4 and line.startswith("error[does_not_fit]")


def test_G8_pressure(program, nano, tmp_path):
    level = tmp_path / "level"
    level.write_text("none")
    with steady(program, nano, "--context", "2048", "--pressure", f"file:{level}") as server:
        body = {"prompt": list(range(40, 240)), "max_tokens": 4}
        server.post("/v1/completions", body)
        assert server.metric("martlet_pages_cached") > 0
        level.write_text("some")
        assert eventually(lambda: server.metric("martlet_pages_cached") == 0)
        assert server.post("/v1/completions", body)[0] == 200
        level.write_text("critical")
        assert eventually(lambda: server.post("/v1/completions", body)[0] == 503)
        status, fields, answer = server.post("/v1/completions", body)
        assert status == 503 and answer["error"]["code"] == "memory_pressure" and "retry-after" in fields
        assert server.metric("martlet_refusing_work") == 1
        level.write_text("none")
        assert eventually(lambda: server.post("/v1/completions", body)[0] == 200, 20)
        assert "memory pressure: critical" in server.log()


def test_G8_pressure_closes_the_draft_model_and_streams_go_on(program, nano, tmp_path):
    level = tmp_path / "level"
    level.write_text("none")
    body = {"prompt": [72, 101, 108], "max_tokens": 1500, "temperature": 0, "ignore_eos": True, "logprobs": 0}
    flags = ("--context", "2048", "--draft", nano, "--speculation", "fixed:4", "--pressure", f"file:{level}")
    with Server(program, nano, *flags) as server, ThreadPoolExecutor(3) as pool:
        def answer():
            text = server.post("/v1/completions", body)[2]
            return text["choices"][0]["logprobs"]["token_ids"], text["usage"]["completion_tokens_details"]["drafted_tokens"]

        def answers_until_it_is_closed():
            done = []
            while not server.metric("martlet_draft_given_back") and len(done) < 200:
                done.append(answer())
            return done

        expected, all_drafted = answer()
        assert all_drafted > 1000
        streams = [pool.submit(answers_until_it_is_closed) for _ in range(3)]
        assert eventually(lambda: server.metric("martlet_requests_running") > 0)
        level.write_text("some")
        done = [one for stream in streams for one in stream.result()]
        assert server.metric("martlet_draft_given_back") == 1
        assert all(tokens == expected for tokens, _ in done)
        assert any(0 < drafted < all_drafted for _, drafted in done), "it was closed under a stream"
        assert answer() == (expected, 0)


def test_logs_have_ids_and_no_prompts(program, nano):
    secret = "xyzzy-secret-prompt"
    with Server(program, nano, "--context", "512", "--log-format", "json") as server:
        status, fields, body = server.post("/v1/completions", {"prompt": secret, "max_tokens": 2},
                                           headers={"X-Request-Id": "mine-" + secret})
        assert status == 200
        assert re.fullmatch(r"[0-9a-f]{16}", fields["x-request-id"])
        assert body["id"] == "cmpl-" + fields["x-request-id"]
        refused = server.post("/v1/completions", {"prompt": secret, "temperature": 99})
        assert refused[0] == 400
        server.terminate()
        events = [json.loads(line) for line in server.log().splitlines()]
        by_id = {e["id"]: e for e in events if e["event"] == "request"}
        assert by_id[fields["x-request-id"]]["status"] == 200
        assert by_id[refused[1]["x-request-id"]]["status"] == 400
        (done,) = [e for e in events if e["event"] == "completion"]
        assert done["id"] == fields["x-request-id"] and done["model"] == "nano" and done["outcome"] == "complete"
        assert done["prompt_tokens"] == body["usage"]["prompt_tokens"]
        assert done["output_tokens"] == body["usage"]["completion_tokens"]
        assert 0 <= done["queued_ms"] <= done["first_token_ms"] <= done["ms"]
        assert secret not in server.log()


def test_the_live_line_is_for_terminals(program, nano):
    import pty
    main, side = pty.openpty()
    process = subprocess.Popen([program, "serve", nano, "--port", "0", "--context", "512"], stdout=subprocess.PIPE,
                               stderr=side)
    os.close(side)
    try:
        seen = b""
        while b"running, " not in seen:
            seen += os.read(main, 4096)
        assert re.search(rb"\r0 running, 0 waiting \| 0 tokens/s out, 0 in \| cache .* MiB of [\d.]+ GiB", seen), seen
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        os.close(main)


def test_the_prompt_cache_survives_a_restart(program, nano, tmp_path):
    folder = tmp_path / "cache"
    flags = ("--context", "2048", "--cache-dir", folder)
    body = {"prompt": list(range(30, 250)), "max_tokens": 8, "temperature": 0, "logprobs": 0}

    def ask(server):
        answer = server.post("/v1/completions", body)[2]
        return answer["choices"][0]["logprobs"]["token_ids"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    with Server(program, nano, *flags) as server:
        ids, cached = ask(server)
        assert cached == 0
        assert server.terminate() == 0
    (saved,) = folder.iterdir()
    with Server(program, nano, *flags) as server:
        assert "prompt cache restored" in server.log()
        assert ask(server) == (ids, 219)
        server.process.kill()  # nothing is written, and nothing half
    assert [f.name for f in folder.iterdir()] == [saved.name]
    damaged = bytearray(saved.read_bytes())
    damaged[-100] ^= 1
    saved.write_bytes(damaged)
    with steady(program, nano, *flags) as server:
        assert "prompt cache was damaged" in server.log() and not saved.exists()
        assert ask(server) == (ids, 0)
    done = subprocess.run([program, "serve", nano, "--port", "0", "--cache-dir", folder, "--api-key", "a", "--api-key", "b"],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and "tenants_apart" in done.stderr
