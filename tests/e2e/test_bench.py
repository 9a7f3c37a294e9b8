"""`martlet bench`: its figures hang together, in text and as JSON."""

import json
import subprocess


def bench(program, model, *arguments):
    return subprocess.run([program, "bench", model, "-p", "64", "-n", "8", "-b", "1,3", "-d", "0,32", "-r", "2", *arguments],
                          capture_output=True, text=True, timeout=120, check=True).stdout


def test_json(program, nano):
    report = json.loads(bench(program, nano, "--json", "--threads", "1"))
    assert report["threads"] == 1 and report["bandwidth_gb_s"] > 0.1 and report["int8_peak_gops"] > 1
    assert report["backend"] == "cpu" and report["device"] == f"{report['isa']}, 1 thread" and report["half_peak_gops"] is None
    assert [row["tokens"] for row in report["prefill"]] == [64]
    assert [(row["batch"], row["context"]) for row in report["decode"]] == [(1, 0), (3, 0), (1, 32), (3, 32)]
    for row in report["prefill"] + report["decode"]:
        assert row["tokens_per_s"] > 0 and row["stddev"] >= 0 and 0 < row["of_peak"] < 1

    # The nano model's matrices: in each of two layers q, output 64 x 64; k, v 32 x 64; gate, up, down 128 x 64; head 300 x 64.
    layers, head = 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64), 300 * 64
    row = report["decode"][0]
    share = 2 * (layers + head) * row["tokens_per_s"] / (report["int8_peak_gops"] * 1e9)
    assert abs(row["of_peak"] / share - 1) < 1e-6
    # Weights are Q8_0, 34 bytes for 32 values, and five norms of 64 f32 values; the cache adds to them.
    weights = (layers + head) * 34 / 32 + 5 * 64 * 4
    assert row["of_bandwidth"] > weights * row["tokens_per_s"] / (report["bandwidth_gb_s"] * 1e9)
    assert row["of_bandwidth"] < report["decode"][2]["of_bandwidth"] / report["decode"][2]["tokens_per_s"] * row["tokens_per_s"]


def test_table(program, nano):
    text = bench(program, nano)
    assert "memory reads at" in text and "8-bit products at" in text
    rows = [line.split() for line in text.splitlines() if line.startswith(("prefill", "decode"))]
    assert [row[0] for row in rows] == ["prefill"] + 4 * ["decode"]
    assert all(row[-1] == "%" for row in rows)


def test_a_prompt_in_smaller_chunks(program, nano):
    report = json.loads(bench(program, nano, "--json", "--chunk", "16"))
    assert [row["tokens"] for row in report["prefill"]] == [64]


def refused(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120)
    assert done.stdout == ""
    return done.returncode, done.stderr.split(":")[0]


def test_a_backend_that_is_not_there(program, nano, tmp_path):
    """CUDA that is not built, or has no device here, is refused; nothing is measured on the processor in its place."""
    in_process = ["bench", "serve", nano, "--engines", "martlet-in-process", "--quick", "--out", tmp_path]
    for command in (["bench", nano], ["plan", nano], ["bench", "spec", nano, "--draft", "ngram"], in_process):
        told = refused(program, *command, "--backend", "cuda")
        assert told in ((2, "error[backend_not_built]"), (5, "error[no_device]")), (command, told)
        assert refused(program, *command, "--backend", "gpu") == (2, "error[unknown_backend]"), command
    assert refused(program, "bench", "serve", nano, "--backend", "cuda") == (2, "error[invalid_value]")   # of its servers


def test_what_does_not_fit(program, nano):
    """A model that does not fit is refused as by run and serve; a row that does not fit is left out, aloud."""
    assert refused(program, "bench", nano, "--memory", "1MiB") == (4, "error[does_not_fit]")
    done = subprocess.run([program, "bench", nano, "-p", "64,1048576", "-n", "0", "-r", "1", "--memory", "64MiB", "--json"],
                          capture_output=True, text=True, timeout=120, check=True)
    assert [row["tokens"] for row in json.loads(done.stdout)["prefill"]] == [64]
    assert "left out: batch 1 with 1048576 tokens each: error[does_not_fit]" in done.stderr


def bench_spec(program, model, *arguments):
    return subprocess.run([program, "bench", "spec", model, *arguments], capture_output=True, text=True, timeout=120)


def test_spec_json(program, nano):
    """A model that drafts for itself is always right."""
    done = bench_spec(program, nano, "--draft", nano, "--prompts", "predictable,edit", "--controllers", "auto,fixed:2",
                      "-n", "31", "-r", "1", "--context", "2048", "--threads", "1", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["model"] == report["draft"] == str(nano) and report["tokens"] == 31 and report["streams"] == 1
    rows = report["rows"]
    assert [(r["prompts"], r["controller"]) for r in rows] == [(p, c) for p in ("predictable", "edit")
                                                               for c in ("off", "auto", "fixed:2")]
    for row in rows:
        turns = 3   # prompts of a class
        assert row["turns"] == len(row["speeds"]) == turns and row["tokens"] == 31 * turns and row["same_text"] is True
        assert sorted(row["speeds"])[1] == row["tokens_per_s"] > 0
        assert row["speedup_low"] <= row["speedup"] <= row["speedup_high"]
        assert row["accepted"] == row["drafted"] >= 0
        assert row["accepted"] + row["steps"] == row["tokens"]
        if row["controller"] == "off":
            assert row["drafted"] == 0 and row["speedup_low"] == row["speedup_high"] == 1
        if row["controller"] == "fixed:2":   # once the draft model has read the prompt
            assert row["drafted"] > 0 and row["steps"] < row["tokens"]


def test_spec_table_and_errors(program, nano):
    ask = ("--prompts", "edit", "--controllers", "window", "-n", "6", "-r", "1", "--context", "2048", "--threads", "1")
    done = bench_spec(program, nano, "--draft", "ngram", *ask)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("edit ")]
    assert [row[1] for row in rows] == ["off", "window"] and all(row[-1] == "same" for row in rows)
    for arguments, where in ((ask, "--draft"), (("--draft", "ngram", *ask, "--controllers", "fixed:17"), "--controllers"),
                             (("--draft", "ngram", "--prompts", "poems"), "--prompts")):
        refused = bench_spec(program, nano, *arguments)
        assert refused.returncode == 2 and f"({where})" in refused.stderr, refused.stderr
