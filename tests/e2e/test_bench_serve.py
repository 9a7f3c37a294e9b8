"""`martlet bench serve`: engines side by side with tiny settings, what it leaves behind, and its report in a browser.

mlx_lm.server and llama-cpp-python's server are found as in test_gateway_real.py and left out where they are not installed.
"""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import jsonschema
import pytest

from conftest import mlx_server_program

HERE = Path(__file__).resolve().parent
SCHEMA = json.loads((HERE.parents[1] / "docs/bench/result.schema.json").read_text())
STUB = f"{sys.executable} {HERE / 'stub_engine.py'}"


def bench(program, *arguments, check=True, timeout=120):
    return subprocess.run([program, "bench", *arguments], capture_output=True, text=True, timeout=timeout, check=check)


def result_in(folder):
    files = list(Path(folder).glob("bench-*.json"))
    assert len(files) == 1
    result = json.loads(files[0].read_text())
    jsonschema.validate(result, SCHEMA)
    return result


@pytest.fixture(scope="module")
def measured(program, nano, tmp_path_factory):
    """Martlet and a stub as llama-cpp-python, which tells of no tokens, all loads."""
    out = tmp_path_factory.mktemp("bench")
    done = bench(program, "serve", nano, "--engines", "martlet,llama-cpp-python", "--program",
                 f"llama-cpp-python={STUB} --delay 0.002 --no-usage --note {out / 'requests'}", "--quick", "--tokens", "8", "--context", "512", "--out", out)
    return out, done, result_in(out)


def test_every_engine_runs_under_every_load_in_turn(measured):
    _, done, result = measured
    turns = [(r["engine"], r["kind"], r["concurrency"], r["instances"], r["round"]) for r in result["runs"]]
    loads = [("single", 1, 1), ("sweep", 1, 1), ("sweep", 4, 1), ("dispatch", 1, 1), ("dispatch", 1, 2)]
    assert turns == [(engine, *load, round) for load in loads for round in (0, 1) for engine in ("martlet", "llama-cpp-python")]
    assert result["quick"] and not result["interrupted"] and result["contract_version"] == 1
    assert result["machine"]["int8_peak_gops"] > 1 and result["matrices"]["head"] > 0
    for run in result["runs"]:
        assert len(run["requests"]) == 4 and not any(m["error"] for m in run["requests"])
        assert run["cold"]["output_tokens"] > 0
        assert run["peak_memory_mib"] > 1
        assert run["of_peak"] > 0
        assert not any(m["cached_tokens"] for m in run["requests"]), "no prompt is taken from an earlier one"
        assert run["of_bandwidth"] > 0 or run["engine"] == "martlet", "which may say all in one piece"
    assert "[20/20]" in done.stderr and " left" in done.stderr


def test_martlet_is_exact_and_the_stub_is_not(measured):
    """Random weights answer greedily as their float32 path does; words that the model never said are seen."""
    _, done, result = measured
    assert re.search(r"^martlet: (9[7-9]\.\d|100\.0) % of its tokens are good$", done.stderr, re.M)
    assert re.search(r"llama-cpp-python: [\d.]+ % of its tokens are good, which is too few", done.stderr)
    for run in result["runs"]:
        share = run["quality"]["good"] / run["quality"]["tokens"]
        assert share >= 0.97 if run["engine"] == "martlet" else share < 0.5, run["quality"]


def test_how_it_was_started_is_told(measured):
    _, _, result = measured
    martlet, stub = result["engines"]
    assert martlet["version"] == "0.1.0" and "--no-prefix-cache" in martlet["command"]
    assert martlet["weight_bytes_per_token"] > 0
    assert "--logits_all false" in stub["command"]
    assert "--engines martlet,llama-cpp-python" in result["command"] and "--quick" in result["command"]
    assert martlet["on_processor"] and stub["on_processor"]
    for words in (result["command"], martlet["command"], stub["command"]):
        assert "/" not in words, "folders of this machine are nobody's business"
    assert "--program 'llama-cpp-python=python" in result["command"] and "stub_engine.py" in result["command"]


def test_prompts_count_also_where_an_engine_does_not_count_them(measured):
    _, _, result = measured
    assert len(result["prompt_tokens"]) == 12
    for run in result["runs"]:
        for m in run["requests"]:
            assert m["prompt_tokens"] == (result["prompt_tokens"][m["prompt"]] if run["engine"] == "martlet" else 0)


def test_answers_are_asked_for_greedily(measured):
    """llama-cpp-python would punish repetitions unless it is told not to."""
    out, _, result = measured
    asked = [json.loads(line) for line in (out / "requests").read_text().splitlines()]
    assert len(asked) >= 40 and all(a["temperature"] == 0 and a["repeat_penalty"] == 1 for a in asked)
    assert [json.loads(e["request"] or "{}") for e in result["engines"]] == [{}, {"repeat_penalty": 1}]


def test_martlet_has_room_for_each_stream(measured):
    """As many whole contexts as requests run at once, and no longer ones than the others have."""
    _, _, result = measured
    assert "--context 512 --streams 4 --max-sequences 4" in result["engines"][0]["command"]


def test_dispatch_waits_in_one_queue(measured):
    _, _, result = measured
    two = [r for r in result["runs"] if r["instances"] == 2]
    assert all({m["instance"] for m in run["requests"]} == {0, 1} for run in two)
    one = [r for r in result["runs"] if r["kind"] == "dispatch" and r["instances"] == 1]
    assert all(max(m["sent_s"] - m["offered_s"] for m in run["requests"]) > 0 for run in one)


def test_reports_and_comparison(program, measured, tmp_path):
    out, _, result = measured
    page = tmp_path / "page.html"
    assert bench(program, "report", out, "--out", page).stdout.strip() == str(page)
    text = page.read_text()
    assert text.count("<svg") >= 4 and "<script" not in text and "http://" not in text.replace("http://127.0.0.1", "")
    file = next(Path(out).glob("bench-*.json"))
    compared = bench(program, "report", "--compare", file, file).stdout
    assert compared.count("x 1.000") >= 10 and "no certain change" in compared

    other = tmp_path / "other.json"
    other.write_text(json.dumps(result | {"contract_version": 2}))
    refused = bench(program, "report", "--compare", file, other, check=False)
    assert refused.returncode == 2 and "error[contract_mismatch]" in refused.stderr
    other.write_text(json.dumps(result | {"quick": False, "max_tokens": 256}))
    refused = bench(program, "report", "--compare", file, other, check=False)
    assert refused.returncode == 2 and "error[work_mismatch]" in refused.stderr
    other.write_text(json.dumps(result | {"threads": result["threads"] + 1, "model": "other.gguf"}))
    compared = bench(program, "report", "--compare", file, other).stdout.splitlines()
    assert compared[0].startswith("not the same in both") and compared[1] == "  model: nano.gguf, then other.gguf"
    assert compared[2] == f"  threads: {result['threads']}, then {result['threads'] + 1}"


def png_pixels(path):
    """(width, height, number of different rows) of an 8-bit PNG."""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height = struct.unpack(">II", data[at + 8:at + 16])
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + size]
        at += size + 12
    raw = zlib.decompress(packed)
    stride = len(raw) // height
    return width, height, len({raw[i * stride:(i + 1) * stride] for i in range(height)})


def test_the_report_opens_in_a_browser(program, measured, tmp_path):
    browser = os.environ.get("MARTLET_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        pytest.skip("chromium is not installed")
    out, _, _ = measured
    page, photo = tmp_path / "page.html", tmp_path / "page.png"
    bench(program, "report", out, "--out", page)
    common = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
              f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1000,3000"]
    dom = subprocess.run([*common, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=90, check=True).stdout
    for title in ("One stream", "Throughput of many streams", "Time to the first token", "Separate processes behind one queue",
                  "Read bandwidth used in decode", "8-bit products used", "Many at once", "of 8-bit peak"):
        assert title in dom
    subprocess.run([*common, f"--screenshot={photo}", page.as_uri()], capture_output=True, timeout=90, check=True)
    width, height, rows = png_pixels(photo)
    assert (width, height) == (1000, 3000) and rows > 500, "a page full of text and plots"


def test_a_server_by_url_is_measured_but_not_started(program, nano, server, tmp_path):
    bench(program, "serve", nano, "--engines", f"mine={server.url}", "--quick", "--tokens", "4", "--loads", "single", "--out",
          tmp_path, "--no-quality")
    result = result_in(tmp_path)
    assert all(run["cold"] is None and run["peak_memory_mib"] == 0 and run["quality"] is None for run in result["runs"])
    assert not any(run["of_peak"] or run["of_bandwidth"] for run in result["runs"]), "it may compute on any machine"
    assert any(m["cached_tokens"] for m in result["runs"][1]["requests"]), "told, where a server does reuse prompts"
    refused = bench(program, "serve", nano, "--engines", f"mine={server.url}", "--loads", "dispatch", "--out", tmp_path, check=False)
    assert refused.returncode == 2 and "error[nothing_to_measure]" in refused.stderr


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def test_what_ollama_and_vllm_are_told(program, nano, tmp_path):
    """As their manuals have it: stand-ins note how they are started and what they are asked."""
    ollama = script(tmp_path / "ollama", f"""case $1 in
  --version) echo ollama version is 1.2.3 ;;
  serve) echo $$ >> {tmp_path}/pids; exec {STUB} --port "${{OLLAMA_HOST#127.0.0.1:}}" --note {tmp_path}/asked ;;
  create) echo "$OLLAMA_MODELS" "$2" "$3" > {tmp_path}/created; cat "$4" >> {tmp_path}/created ;;
esac""")
    vllm = script(tmp_path / "vllm", f"""case $1 in
  --version) echo 4.5.6 ;;
  serve) echo "$@" > {tmp_path}/served; echo $$ >> {tmp_path}/pids; exec {STUB} "$@" --note {tmp_path}/asked ;;
esac""")
    folder = tmp_path / "model"
    folder.mkdir()
    bench(program, "serve", os.path.relpath(nano), "--engines", "ollama,vllm", "--program", f"ollama={ollama}", "--program", f"vllm={vllm}",
          "--model-of", f"vllm={folder}", "--quick", "--tokens", "4", "--context", "512", "--threads", "2", "--rounds", "1", "--loads",
          "single", "--no-quality", "--out", tmp_path / "out")
    result = result_in(tmp_path / "out")
    assert [e["version"] for e in result["engines"]] == ["ollama version is 1.2.3", "4.5.6"]
    files = tmp_path / "out/engines/ollama"
    assert (tmp_path / "created").read_text().splitlines() == [
        f"{files}/models bench -f", f"FROM {Path(nano).resolve()}", "PARAMETER num_ctx 512", "PARAMETER num_thread 2",
        "PARAMETER repeat_penalty 1.0"]
    served = (tmp_path / "served").read_text()
    assert served.startswith(f"serve {folder} ") and "--max-model-len 512" in served
    assert "--no-enable-prefix-caching" in served and "--generation-config vllm" in served
    asked = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    assert len(asked) == 12 and all(a["model"] == "bench" and a["temperature"] == 0 and a["max_tokens"] == 4 for a in asked)
    for run in result["runs"]:
        assert run["peak_memory_mib"] > 1 and not any(m["error"] for m in run["requests"])
        assert not run["of_peak"] and not run["of_bandwidth"], "nobody knows whether they compute on a processor"
    pids = [int(line) for line in (tmp_path / "pids").read_text().splitlines()]
    assert len(pids) >= 2 and not any(alive(pid) for pid in pids)


def test_in_process(program, nano, tmp_path):
    """With as long a context as the model has, 32768, for each of four streams."""
    bench(program, "serve", nano, "--engines", "martlet-in-process", "--quick", "--tokens", "8", "--context", "32768", "--loads",
          "sweep:4,single", "--out", tmp_path)
    result = result_in(tmp_path)
    assert [(run["kind"], run["concurrency"]) for run in result["runs"]] == [("single", 1)] * 2 + [("sweep", 4)] * 2
    assert all(m["output_tokens"] == 8 or m["finish_reason"] == "stop" for run in result["runs"] for m in run["requests"])
    assert all(run["quality"]["good"] >= 0.97 * run["quality"]["tokens"] for run in result["runs"])


def test_ctrl_c_keeps_what_was_measured(program, nano, tmp_path):
    running = subprocess.Popen([program, "bench", "serve", nano, "--engines", "llama-cpp-python", "--program",
                                f"llama-cpp-python={STUB} --delay 0.02", "--quick", "--tokens", "8", "--rounds", "50", "--out",
                                tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in running.stderr:
        if line.startswith("[2/"):
            break
    running.send_signal(signal.SIGINT)
    assert running.wait(30) in (-signal.SIGINT, 130)
    running.communicate()
    result = result_in(tmp_path)
    assert result["interrupted"] and len(result["runs"]) >= 2
    assert list(tmp_path.glob("bench-*.html"))
    children = subprocess.run(["pgrep", "-f", f"stub_engine.py.*{tmp_path}"], capture_output=True, text=True).stdout
    assert not children, "the engine has ended too"


@pytest.mark.parametrize("arguments, code", [
    (["--engines", "nothing"], "unknown_engine"),
    (["--engines", "mlx-lm"], "wrong_model"),
    (["--engines", "martlet,martlet-in-process"], "invalid_value"),
    (["--engines", "a=https://example.org"], "invalid_value"),
    (["--program", "vllm=x"], "invalid_value"),
    (["--program", "martlet"], "invalid_value"),
    (["--tokens", "8"], "invalid_value"),
    (["--loads", "double"], "invalid_value"),
    (["--loads", "sweep:3"], "invalid_value"),
    (["--context", "32769"], "invalid_value"),
])
def test_what_makes_no_sense_is_refused(program, nano, tmp_path, arguments, code):
    refused = bench(program, "serve", nano, "--out", tmp_path, *arguments, check=False)
    assert refused.returncode == 2 and f"error[{code}]" in refused.stderr


def test_an_engine_that_does_not_start_is_told_with_its_log(program, nano, tmp_path):
    refused = bench(program, "serve", nano, "--engines", "llama-cpp-python", "--program", "llama-cpp-python=false", "--quick",
                    "--out", tmp_path, check=False)
    assert refused.returncode == 5 and "error[engine_failed]" in refused.stderr and "llama-cpp-python.log" in refused.stderr
    missing = bench(program, "serve", nano, "--engines", "llama-cpp-python", "--program", "llama-cpp-python=/no/such", "--quick", "--out", tmp_path,
                    check=False)
    assert missing.returncode == 5 and "error[cannot_start]" in missing.stderr


def test_real_peers(program, default_model, tmp_path, request):
    """Each that is installed beside Martlet: all answers count, and none is far from the model's float32 path."""
    engines, more = ["martlet"], []
    if python := os.environ.get("MARTLET_LLAMA_PYTHON"):
        engines.append("llama-cpp-python")
        more += ["--program", f"llama-cpp-python={python} -m llama_cpp.server"]
    if mlx := mlx_server_program():
        engines.append("mlx-lm")
        more += ["--program", f"mlx-lm={mlx.parent / 'python'} -m mlx_lm server", "--model-of",
                 f"mlx-lm={request.getfixturevalue('mlx_folder')}"]
    bench(program, "serve", default_model, "--engines", ",".join(engines), *more, "--quick", "--tokens", "6", "--rounds", "1",
          "--loads", "single", "--out", tmp_path, timeout=280)
    result = result_in(tmp_path)
    assert [run["engine"] for run in result["runs"]] == engines
    for run in result["runs"]:
        assert not any(m["error"] for m in run["requests"])
        assert run["quality"]["good"] >= 0.97 * run["quality"]["tokens"], run["engine"]
