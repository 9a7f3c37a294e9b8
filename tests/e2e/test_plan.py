"""The memory plan: what it says, what it refuses, and whether a server that is used to the full takes what was planned."""
import json
import os
import random
import re
import subprocess
from pathlib import Path

import pytest

import make_model
import memory_models
from server import Server, eventually, steady

pytestmark = pytest.mark.beside
MIB, GIB = 1 << 20, 1 << 30


def plan(program, model, *flags):
    """(exit code, parsed plan or None, stderr)"""
    done = subprocess.run([program, "plan", model, "--json", *flags], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout) if done.returncode == 0 else None, done.stderr


def part(planned, name):
    return next(p["bytes"] for p in planned["parts"] if p["name"] == name)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("memory"), {}

    def get(shape):
        if shape not in made:
            if memory_models.SHAPES[shape]["vocab"] and not make_model.VOCAB.is_dir():
                pytest.skip("the reference vocabularies are not here")
            made[shape] = memory_models.make(shape, folder / f"{shape}.gguf")
        return made[shape]

    return get


# Refusals

def test_G1_G2_refusal_names_need_have_and_flags(program, models):
    code, _, line = plan(program, models("weights"), "--memory", "100MiB")
    assert code == 4
    assert re.match(r"error\[does_not_fit\]: the model needs 0\.\d+ GiB \(weights 0\.\d+, .*\) and 0\.10 GiB may be used "
                    r"\(--memory\): lower --context, raise --memory", line), line
    # run refuses the same way, before it answers anything
    done = subprocess.run([program, "run", models("weights"), "--raw", "-p", "a", "--memory", "100MiB"],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 4 and done.stdout == "" and "does_not_fit" in done.stderr


def test_G3_uncountable(program, models):
    code, _, line = plan(program, models("nano"), "--context", "2000000000", "--streams", "4096")
    assert code == 4 and line.startswith("error[plan_overflow]"), line


def test_G6_a_draft_model_that_does_not_fit(program, models):
    _, alone, _ = plan(program, models("nano"), "--context", "512")
    memory = str(alone["total"] + 40 * MIB)   # room for the model and a server, not for 300 MB of drafts
    code, _, line = plan(program, models("nano"), "--context", "512", "--memory", memory, "--draft", models("weights"))
    assert code == 4 and line.startswith("error[does_not_fit]") and ", draft 0.28" in line, line
    done = subprocess.run([program, "serve", models("nano"), "--port", "0", "--context", "512", "--memory", memory,
                           "--draft", models("weights")], capture_output=True, text=True, timeout=30)
    assert done.returncode == 4 and "error[does_not_fit]" in done.stderr, done.stderr


def test_G4_a_full_prompt_cache_stays_what_it_was_planned(program, models):
    """64 MiB of it, a thousand prompts and one of 70 MiB: everything is there before the first."""
    flags, draw = ("--context", "1152", "--streams", "1", "--prompt-cache", "64MiB"), random.Random(4)
    prompt = lambda length: [draw.randrange(40, 290) for _ in range(length)]
    fill = lambda server: server.post("/v1/completions", {"prompt": [prompt(250) for _ in range(10)], "max_tokens": 1}, timeout=300)
    with steady(program, models("cache"), *flags, fill=fill) as server:
        total, memory = server.metric("martlet_pages_total"), server.get("/health")[2]["memory"]

        def ask(prompts):
            assert server.post("/v1/completions", {"prompt": prompts, "max_tokens": 1}, timeout=300)[0] == 200
            assert server.metric("martlet_pages_total") == total
            assert server.metric("martlet_pages_cached") + server.metric("martlet_pages_used") <= total
            assert server.get("/health")[2]["memory"]["resident"] <= memory["planned"]

        for i in range(20):
            ask([prompt(12) for _ in range(50)])
            if i == 10:
                ask([prompt(1120)])
        assert server.metric("martlet_pages_evicted_total") > 0
        assert server.peak() <= memory["planned"] <= memory["ceiling"]
    _, planned, _ = plan(program, models("cache"), *flags)
    assert 64 * MIB <= part(planned, "prompt cache") < 68 * MIB   # whole pages


def test_fits_the_context_down_and_says_so(program, models):
    _, whole, _ = plan(program, models("cache"), "--memory", "8GiB")
    code, cut, _ = plan(program, models("cache"), "--memory", "256MiB")
    assert code == 0 and cut["context"] < whole["context"] == cut["wanted_context"] == 8192
    assert cut["total"] <= cut["ceiling"] == 256 * MIB
    with Server(program, models("cache"), "--memory", "256MiB") as server:
        assert server.get("/v1/models")[2]["data"][0]["max_model_len"] == cut["context"]
        assert f"the context is {cut['context']} tokens instead of 8192" in server.log()
        assert server.get("/health")[2]["memory"]["planned"] == cut["total"]
    # Without a server's buffers there is room for more.
    _, alone, _ = plan(program, models("cache"), "--memory", "256MiB", "--max-connections", "0")
    assert alone["context"] > cut["context"] and "server" not in [p["name"] for p in alone["parts"]]


def test_a_draft_model_is_counted(program, models):
    _, alone, _ = plan(program, models("nano"), "--context", "256")
    code, both, line = plan(program, models("nano"), "--context", "256", "--draft", models("nano"))
    assert code == 0, line
    assert both["context"] == alone["context"] and part(both, "draft") >= part(both, "weights")
    assert both["total"] >= alone["total"] + part(both, "draft") + part(alone, "cache")
    _, ngram, _ = plan(program, models("nano"), "--context", "256", "--draft", "ngram")
    assert ngram["total"] == alone["total"]


def test_table(program, models):
    text = subprocess.run([program, "plan", models("cache"), "--table", "--bandwidth", "50,100"], capture_output=True,
                          text=True, check=True).stdout
    assert [line.split()[0] for line in text.splitlines()[2:]] == ["8", "16", "24", "32", "64", "128"]
    table = json.loads(subprocess.run([program, "plan", models("cache"), "--table", "--json"], capture_output=True,
                                      text=True, check=True).stdout)
    streams = [row["streams"] for row in table["machines"]]
    assert streams == sorted(streams) and streams[0] < streams[-1]
    slow, fast = table["speeds"][0], table["speeds"][-1]
    assert fast["tokens_per_s"] / slow["tokens_per_s"] == pytest.approx(fast["bandwidth_gb_s"] / slow["bandwidth_gb_s"])


# Planned against measured

def use_everything(server, vocabulary, drafts=False):
    """Fills every page of the pool, with `drafts` those of the drafting model too, runs the widest step and scores many rows."""
    draw = random.Random(1)
    length = min(250, server.get("/v1/models")[2]["data"][0]["max_model_len"] - 16)

    def ask(count, **more):
        prompts = [[draw.randrange(vocabulary) for _ in range(length)] for _ in range(count)]
        answer = server.post("/v1/completions", {"prompt": prompts, "max_tokens": 1, **more}, timeout=300)
        assert answer[0] == 200, answer

    ask(2, echo=True, logprobs=1)
    ask(32, n=1)
    full = lambda: server.metric("martlet_pages_cached") + server.metric("martlet_pages_used") > \
        server.metric("martlet_pages_total") - 40
    for _ in range(40):
        if full():
            break
        ask(64)
    assert full()
    if drafts:   # whose model reads a prompt a little at a time: answers long enough for all that run together
        for _ in range(3):
            ask(6, max_tokens=200, ignore_eos=True)
        assert server.metric(r'martlet_draft_tokens_total\{position="1"\}') > 0


CONFIGURATIONS = [("nano", "--context", "512", "--streams", "4", "--max-connections", "16", "--speculation", "fixed:2",
                   "--draft", "deep"),
                  ("words", "--context", "4096"), ("cache", "--memory", "1280MiB"),
                  ("cache", "--context", "4096", "--streams", "5", "--cache-type", "q4"),
                  ("weights", "--context", "512", "--streams", "2"),
                  ("default", "--context", "2048", "--streams", "2", "--prompt-cache", "40MiB")]


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=" ".join)
def test_planned_against_measured(program, models, request, show, configuration):
    name, *flags = configuration
    if "--draft" in flags:
        flags[-1] = models(flags[-1])
    model = request.getfixturevalue("default_model") if name == "default" else models(name)
    with Server(program, model, *flags) as server:
        planned = server.get("/health")[2]["memory"]
        use_everything(server, 300 if name in ("nano", "cache", "weights") else 49152, drafts="--draft" in flags)
        measured = server.peak()
    show(f"planned {planned['planned'] / MIB:.1f} MiB, measured {measured / MIB:.1f}")
    assert measured <= planned["ceiling"]
    slack = 32 * MIB if measured < GIB else measured * 0.05
    assert abs(planned["planned"] - measured) <= slack


class Group:
    """A memory cgroup of its own with a limit, where one can be made: version 2 or 1."""
    def __init__(self, limit):
        name = f"martlet-test-{os.getpid()}"
        self.folder = None
        for version, parent in ((2, Path("/sys/fs/cgroup")), (1, Path("/sys/fs/cgroup/memory"))):
            files = {2: ("memory.max", "memory.peak"), 1: ("memory.limit_in_bytes", "memory.max_usage_in_bytes")}[version]
            folder = parent / name
            try:
                folder.mkdir()
            except OSError:
                continue
            # Where the parent is a plain folder, or memory is not delegated to us, no such file appears.
            try:
                (folder / files[0]).open("r+").write(str(limit))
            except OSError:
                folder.rmdir()
                continue
            self.folder, self.peak_file, self.version = folder, folder / files[1], version
            return

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        eventually(lambda: not (self.folder / "cgroup.procs").read_text(), 10)
        self.folder.rmdir()


def test_G2_stays_within_a_cgroup(program, models, show):
    limit = 400 * MIB
    group = Group(limit)
    if not group.folder:
        pytest.skip("no memory cgroup can be made here: the peak of the process alone is held to the plan")
    try:
        with Server(program, models("cache"), "--streams", "1", start=group.enter) as server:
            memory = server.get("/health")[2]["memory"]
            assert limit * 0.9 < memory["ceiling"] < limit
            assert memory["planned"] <= memory["ceiling"]
            use_everything(server, 300)
            assert server.process.poll() is None
            show(f"cgroup version {group.version}: limit {limit / MIB:.0f} MiB, planned {memory['planned'] / MIB:.1f}, "
                 f"peak of the process {server.peak() / MIB:.1f}, of the group {int(group.peak_file.read_text()) / MIB:.1f}")
            assert server.peak() <= memory["ceiling"]
            assert int(group.peak_file.read_text()) <= limit
            server.warm()
            use_everything(server, 300)
            server.unharmed()
        refused = subprocess.run([program, "serve", models("cache"), "--port", "0", "--context", "32768"],
                                 preexec_fn=group.enter, capture_output=True, text=True, timeout=20)
        assert refused.returncode == 4 and "(cgroup)" in refused.stderr, refused.stderr
    finally:
        group.remove()


def test_an_8b_model_within_6_gib(program, tmp_path, show):
    """In a memory cgroup where one can be made; else by the peak of the process, mapped weights included."""
    if not make_model.VOCAB.is_dir():
        pytest.skip("the reference vocabularies are not here")
    meminfo = Path("/proc/meminfo").read_text()
    if int(re.search(r"MemAvailable:\s+(\d+)", meminfo)[1]) << 10 < 8 * GIB:
        pytest.skip("fewer than 8 GiB of memory are available")
    model, limit = memory_models.make_hollow("qwen3-8b", "q4_k_m", tmp_path / "qwen3-8b-q4_k_m.gguf"), 6 * GIB
    code, planned, _ = plan(program, model, "--memory", "6GiB")
    assert code == 0 and planned["total"] <= limit and planned["context"] >= 512
    code, _, line = plan(program, model, "--memory", "6GiB", "--context", "32768")
    assert code == 4 and "does_not_fit" in line
    group = Group(limit)
    try:
        with Server(program, model, "--memory", "6GiB", start=group.enter if group.folder else None) as server:
            memory = server.get("/health")[2]["memory"]
            assert memory["planned"] <= memory["ceiling"] <= limit
            answer = server.post("/v1/completions", {"prompt": list(range(1000, 1040)), "max_tokens": 4,
                                                     "ignore_eos": True}, timeout=300)
            assert answer[0] == 200 and answer[2]["usage"]["completion_tokens"] == 4
            measured = server.peak()
        show(f"context {planned['context']}, planned {memory['planned'] / MIB:.0f} MiB, measured "
             f"{measured / MIB:.0f} (the cache fills as it is used), "
             f"{'in a cgroup of version %d' % group.version if group.folder else 'no memory cgroup can be made here'}")
        # Of the embedding table only the rows of the prompt are read.
        assert 0.9 * part(planned, "weights") < measured <= memory["ceiling"]
    finally:
        if group.folder:
            group.remove()
