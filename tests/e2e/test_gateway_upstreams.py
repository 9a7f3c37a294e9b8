"""What the gateway does with upstreams themselves: starts and stops them, compares them, warms them."""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gateway import CHAT, STREAM, Gateway, openai_upstream
from server import eventually, receive_all
from stub_upstream import Stub

STUB = str(Path(__file__).parent / "stub_upstream.py")


def started(name, attributes=None, **more):
    """An upstream that the gateway starts itself."""
    command = [sys.executable, STUB, "{port}", name, json.dumps(attributes or {})]
    return {"name": name, "kind": "openai", "command": command, "model": "m", "memory": "100MiB",
            "accept_differences": ["all"], "timeouts": {"stop_ms": 2000}} | more


def processes(name):
    """Ids of running stubs of that name."""
    out = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if STUB.encode() in words and name.encode() in words:
            out.append(int(entry.name))
    return out


def sender(gateway):
    return gateway.post("/v1/chat/completions", CHAT)[2].get("from")


def test_a_program_is_started_restarted_and_stopped(program, tmp_path):
    config = {"log_dir": str(tmp_path), "upstreams": [started("sup1")]}
    with Gateway(program, config).wait_up() as gateway:
        assert sender(gateway) == "sup1"
        assert "serving on" in (tmp_path / "sup1-0.log").read_text()
        [first] = processes("sup1")
        os.kill(first, signal.SIGKILL)
        assert eventually(lambda: processes("sup1") not in ([], [first]), 10)
        assert eventually(lambda: sender(gateway) == "sup1", 10)
        assert gateway.metric('martlet_gateway_restarts_total{upstream="sup1"}') == 1
        gateway.terminate()
    assert not processes("sup1")


def test_a_program_dies_with_a_gateway_that_is_killed(program, tmp_path):
    gateway = Gateway(program, {"log_dir": str(tmp_path), "upstreams": [started("sup2")]}).wait_up()
    gateway.process.kill()
    gateway.process.wait()
    assert eventually(lambda: not processes("sup2"), 5)


@pytest.mark.beside
def test_what_a_stop_cannot_wait_for_ends_with_an_error(program):
    """After 30 seconds: an answer where none has begun, a last event where one has."""
    with Stub("a") as a, Gateway(program, {"upstreams": [openai_upstream("a", a)]}).wait_up() as gateway:
        def asking(mode, body):
            already, a.mode = len(a.requests), mode
            sock = gateway.connect()
            sock.settimeout(60)
            sock.sendall(gateway.post_bytes("/v1/chat/completions", body))
            assert eventually(lambda: len(a.requests) > already)
            return sock

        with asking("hang", CHAT) as plain, asking("hang_after_first", STREAM) as stream:
            begin = time.monotonic()
            gateway.process.send_signal(signal.SIGTERM)
            unanswered, cut = receive_all(plain), receive_all(stream)
            assert gateway.process.wait(10) == 0 and 29 < time.monotonic() - begin < 45
        assert b" 503 " in unanswered.split(b"\r\n")[0] and b'"shutting_down"' in unanswered
        assert b'data: {"error"' in cut and b'"shutting_down"' in cut and b"[DONE]" not in cut


def test_a_program_that_cannot_start_is_said_so(program, tmp_path):
    bad = started("sup3") | {"command": ["/does/not/exist", "{port}"]}
    with Gateway(program, {"log_dir": str(tmp_path), "upstreams": [bad]}) as gateway:
        assert eventually(lambda: "sup3: the program cannot be started: /does/not/exist" in gateway.log(), 5)
        assert gateway.post("/v1/chat/completions", CHAT)[0] == 503


def test_a_program_that_ends_or_never_listens_is_said_so(program, tmp_path):
    ends = started("sup5") | {"command": ["sh", "-c", "echo {port} >&2; exit 7"]}
    silent = started("sup6", timeouts={"start_ms": 1500, "stop_ms": 500}) | {"command": ["sh", "-c", "sleep 20 # {port}"]}
    with Gateway(program, {"log_dir": str(tmp_path), "upstreams": [ends, silent]}) as gateway:
        assert eventually(lambda: f"sup5: ended with status 7; what it wrote is in {tmp_path}/sup5-0.log" in gateway.log(), 5)
        assert eventually(lambda: "sup6: does not come up (the upstream cannot be reached): started again" in gateway.log(), 5)


def test_instances_share_one_queue(program, tmp_path):
    config = {"log_dir": str(tmp_path), "upstreams": [started("sup4", {"first_delay": 0.3}, instances=3, concurrent=1)]}
    with Gateway(program, config) as gateway:
        ready = lambda: all(i["state"] == "closed" and not i["preparing"] for i in gateway.upstreams()["sup4"]["instances"])
        assert eventually(ready, 20)
        assert len(processes("sup4")) == 3
        one_by_one = gateway.seconds(3)
        sums = "martlet_gateway_queue_seconds_sum", 'martlet_gateway_first_byte_seconds_sum{upstream="sup4"}'
        figures = lambda: [gateway.metric(name) for name in sums]
        before = figures()
        took = gateway.seconds(9, at_once=9)
        assert took < 1.6 * one_by_one, "three rounds"
        waited, answered = (after - earlier for after, earlier in zip(figures(), before))
        assert 1.0 < waited < 6 * (took - 0.3), "six waited 0.3 or 0.6 s"
        assert answered > waited + 9 * 0.3 - 0.1


def test_g1_the_sum_of_all_peaks_is_held_to_one_ceiling(program, tmp_path):
    path = tmp_path / "gateway.json"
    two = [started("x", memory="400MiB", instances=2), started("y", memory="300MiB")]
    path.write_text(json.dumps({"memory_ceiling": "1GiB", "log_dir": str(tmp_path), "upstreams": two}))
    done = subprocess.run([program, "gateway", path], capture_output=True, text=True, timeout=20)
    assert done.returncode == 4 and "1100 MiB" in done.stderr and "1024 MiB" in done.stderr
    assert not processes("x") and not processes("y")


def test_memory_pressure_moves_requests_and_stops_the_unbounded(program, tmp_path):
    signal_file = tmp_path / "share"
    signal_file.write_text("0.5")
    config = {"log_dir": str(tmp_path), "pressure_source": f"file:{signal_file}", "pressure": {"calm_ms": 1500},
              "upstreams": [started("big", bounded=False), started("small", standby=True)]}
    with Gateway(program, config).wait_up() as gateway:
        assert sender(gateway) == "big"
        signal_file.write_text("0.85")
        began = time.time()
        assert eventually(lambda: sender(gateway) == "small", 3)
        assert time.time() - began < 1.2
        assert processes("big"), "avoided, not stopped"
        signal_file.write_text("0.97")
        assert eventually(lambda: not processes("big"), 5)
        assert sender(gateway) == "small"
        signal_file.write_text("0.3")
        assert eventually(lambda: sender(gateway) == "big", 10)
        assert "came back" in gateway.log()
        # What the system says of its stalls counts as well.
        signal_file.write_text("some")
        assert eventually(lambda: sender(gateway) == "small", 3)
        assert "the system says some" in gateway.log()
        signal_file.write_text("none")
        assert eventually(lambda: sender(gateway) == "big", 10)


def test_an_administrators_drain_outlives_a_stop_for_want_of_memory(program, tmp_path):
    """And the stop lets a stream that runs come to its end."""
    share = tmp_path / "share"
    share.write_text("0.3")
    words = ["w"] * 50   # all of this happens before the last
    big = started("big", {"words": words, "word_delay": 0.1}, bounded=False, timeouts={"stop_ms": 20000})
    config = {"log_dir": str(tmp_path), "pressure_source": f"file:{share}", "pressure": {"calm_ms": 500},
              "upstreams": [big, started("small", standby=True)]}
    with Gateway(program, config).wait_up() as gateway:
        state = lambda: gateway.upstreams()["big"]["instances"][0]
        admin = lambda verb: gateway.admin("POST", f"/admin/upstreams/big/{verb}")[0]
        serves = lambda: (s := state())["state"] == "closed" and not s["preparing"] and not s["retiring"]
        for verb, before in (("drain", "resume"), ("resume", "drain")):
            assert admin("resume") == 200
            answers = []
            streams = threading.Thread(target=lambda: answers.append(gateway.post("/v1/chat/completions", STREAM)[2]))
            streams.start()
            assert eventually(lambda: state()["running"] == 1, 5)
            assert admin(before) == 200
            share.write_text("0.97")
            assert eventually(lambda: state()["retiring"], 5)
            assert admin(verb) == 200
            assert state()["retiring"] and state()["draining"] == (verb == "drain") and sender(gateway) == "small"
            streams.join()
            assert answers[0].count('"content": "w ') == len(words) and answers[0].rstrip().endswith("[DONE]")
            assert eventually(lambda: not processes("big"), 5)
            share.write_text("0.3")
            assert eventually(serves, 15)
            assert state()["draining"] == (verb == "drain")
            assert sender(gateway) == ("small" if verb == "drain" else "big")


def resident(names):
    """MiB that these stubs hold."""
    pages = 0
    for pid in processes(names):
        try:
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except OSError:
            pass
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


def test_memory_of_one_that_was_stopped_is_seen_to_come_back(program, tmp_path):
    """What is told of memory is what its process really holds, on a machine of 1,000 MiB."""
    share, stop = tmp_path / "share", threading.Event()

    def tell():
        while not stop.is_set():
            (tmp_path / "new").write_text(str(min(1, 0.5 + resident("fat") / 1000)))
            os.replace(tmp_path / "new", share)
            time.sleep(0.05)

    share.write_text("0.5")
    teller = threading.Thread(target=tell)
    teller.start()
    try:
        config = {"log_dir": str(tmp_path), "pressure_source": f"file:{share}", "pressure": {"calm_ms": 500, "confirm_ms": 1500},
                  "upstreams": [started("fat", {"ballast_mib": 450}, bounded=False), started("small", standby=True)]}
        with Gateway(program, config).wait_up() as gateway:
            assert eventually(lambda: "fat: stopping" in gateway.log(), 10)
            assert eventually(lambda: re.search(r"memory pressure: normal, .* MiB came back", gateway.log()), 10), gateway.log()
    finally:
        stop.set()
        teller.join()


def test_a_template_that_differs_by_one_newline_is_named_and_not_used(program):
    count = lambda text: len(text.split()) + 4
    with Stub("a", count_tokens=count) as a, Stub("b", count_tokens=lambda text: count(text) + 1) as b:
        config = {"upstreams": [openai_upstream("a", a, accept_differences=[]),
                                openai_upstream("b", b, standby=True, accept_differences=[])]}
        with Gateway(program, config).wait_up("a") as gateway:
            assert eventually(lambda: gateway.upstreams()["b"]["differences"], 10)
            described = gateway.upstreams()["b"]
            assert described["apart"] and "template" in described["differences"]
            assert "b: differs from a in" in gateway.log()
            a.mode = "die"
            assert gateway.post("/v1/chat/completions", CHAT)[0] == 502, "and no failover"
            assert not [r for r in b.requests if r[2].get("messages") == CHAT["messages"]]


def test_files_say_what_upstreams_cannot_be_asked(program, nano, nano_with_another_template, default_model):
    with Stub("a") as a, Stub("b") as b, Stub("c") as c, Stub("d") as d:
        files = {"a": nano, "b": nano, "c": nano_with_another_template, "d": default_model}
        config = {"upstreams": [openai_upstream(stub.name, stub, file=str(files[stub.name]), accept_differences=[])
                                for stub in (a, b, c, d)]}
        with Gateway(program, config).wait_up("a", "b") as gateway:
            differences = lambda: {name: u["differences"] for name, u in gateway.upstreams().items()}
            assert eventually(lambda: differences()["d"], 10)
            assert differences()["b"] == [] and differences()["c"] == ["template"]
            assert {"special", "template", "vocabulary"} <= set(differences()["d"])


def test_a_difference_may_be_accepted_and_likes_are_interchangeable(program):
    count = lambda text: len(text.split()) + 4
    with Stub("a", count_tokens=count) as a, Stub("b", count_tokens=count) as b, \
            Stub("c", count_tokens=lambda text: count(text) + 1) as c:
        config = {"upstreams": [openai_upstream("a", a, accept_differences=[]),
                                openai_upstream("b", b, accept_differences=[]),
                                openai_upstream("c", c, accept_differences=["template", "bos"])]}
        with Gateway(program, config).wait_up() as gateway:
            assert all(not u["apart"] for u in gateway.upstreams().values())


def test_tokenizers_are_compared_where_they_can_be_asked(program):
    def tokenizer(shift):
        return lambda body: (200, {"tokens": [ord(c) + shift for c in body["content"]]})
    with Stub("a", routes={"/tokenize": tokenizer(0)}) as a, \
            Stub("b", routes={"/tokenize": tokenizer(1), "/version": lambda _: (200, {"version": "1.0"})}) as b:
        config = {"upstreams": [openai_upstream("a", a, accept_differences=[]), openai_upstream("b", b, accept_differences=[])]}
        with Gateway(program, config).wait_up("a") as gateway:
            assert eventually(lambda: gateway.upstreams()["b"]["differences"] == ["vocabulary"], 10)
            # A new version of b, which does as a does, is noticed when it comes back.
            assert gateway.upstreams()["b"]["version"] == "1.0"
            b.routes |= {"/tokenize": tokenizer(0), "/version": lambda _: (200, {"version": "1.1"})}
            b.healthy = False
            assert eventually(lambda: gateway.upstreams()["b"]["instances"][0]["state"] == "open", 5)
            b.healthy = True
            assert eventually(lambda: not gateway.upstreams()["b"]["apart"], 10)
            assert gateway.upstreams()["b"]["version"] == "1.1"
            # So is one that comes without going away.
            b.routes |= {"/tokenize": tokenizer(1), "/version": lambda _: (200, {"version": "1.2"})}
            assert eventually(lambda: gateway.upstreams()["b"]["apart"], 10)
            assert eventually(lambda: gateway.upstreams()["b"]["differences"] == ["vocabulary"], 10)
            assert "b: has another version: compared again" in gateway.log()


def stumbling(status, tokenizer):
    """A /tokenize that answers with what `status[0]` says, where it says anything."""
    return lambda body: (status[0], {"error": {"message": "no"}}) if status[0] else tokenizer(body)


def letters(shift):
    return lambda body: (200, {"tokens": [ord(c) + shift for c in body["content"]]})


def test_an_upstream_that_stumbles_while_it_is_compared_is_neither_trusted_nor_lost(program):
    """What was found of it holds until it has answered everything; until then it is asked again."""
    status = {"b": [None], "c": [503], "d": [500], "e": [404]}
    shifts = {"b": 1, "c": 0, "d": 0, "e": 0}
    stubs = [Stub("a", routes={"/tokenize": letters(0)})]
    stubs += [Stub(name, routes={"/tokenize": stumbling(status[name], letters(shifts[name])),
                                 "/version": lambda _: (200, {"version": "1"})}) for name in status]
    with contextlib.ExitStack() as stack:
        a, b, c, d, e = (stack.enter_context(stub) for stub in stubs)
        config = {"upstreams": [openai_upstream(stub.name, stub, accept_differences=[]) for stub in stubs]}
        with Gateway(program, config).wait_up("a", "d", "e") as gateway:
            differences = lambda name: gateway.upstreams()[name]["differences"]
            assert eventually(lambda: differences("b") == ["vocabulary"] and differences("c") == ["unfinished"], 10)
            assert "c: cannot be compared now (/tokenize: status 503): asked again" in gateway.log()
            assert gateway.upstreams()["c"]["apart"] and not gateway.upstreams()["d"]["apart"]
            # A known difference is not forgotten because it cannot be seen at this moment.
            status["b"][0] = 503
            b.routes["/version"] = lambda _: (200, {"version": "2"})
            assert eventually(lambda: differences("b") == ["vocabulary", "unfinished"], 15), differences("b")
            assert gateway.upstreams()["b"]["apart"]
            # Nor is one lost for good; and one that fails at a question each time (d) is one that cannot be asked it.
            status["c"][0] = None
            assert eventually(lambda: not gateway.upstreams()["c"]["apart"], 15)
            assert differences("c") == differences("d") == differences("e") == []
            assert "d: /tokenize fails at a question each time (status 500): compared without it" in gateway.log()
            # Nor does a difference go when the question is given up.
            assert eventually(lambda: differences("b") == ["vocabulary"], 30), differences("b")
            assert gateway.upstreams()["b"]["apart"]


def test_a_route_that_fails_for_good_is_gone_without(program):
    """After being asked again, later each time; what else can be asked has to tell."""
    asked = {"b": [], "c": []}

    def failing(name):
        return {"/tokenize": lambda _: (asked[name].append(time.time()), (502, {}))[1]}
    count = lambda text: len(text.split()) + 4
    with Stub("a", routes={"/tokenize": letters(0)}, count_tokens=count) as a, Stub("b", routes=failing("b"), count_tokens=count) as b, \
            Stub("c", routes=failing("c"), count_tokens=lambda text: count(text) + 1) as c:
        config = {"upstreams": [openai_upstream(s.name, s, accept_differences=[]) for s in (a, b, c)]}
        with Gateway(program, config).wait_up("a") as gateway:
            differences = lambda name: gateway.upstreams()[name]["differences"]
            assert eventually(lambda: differences("b") == differences("c") == ["unfinished"], 10)
            assert eventually(lambda: not gateway.upstreams()["b"]["apart"], 30), gateway.log()
            assert eventually(lambda: "template" in differences("c"), 10) and gateway.upstreams()["c"]["apart"]
            for name, times in asked.items():
                assert f"{name}: /tokenize fails each time (status 502): compared without it" in gateway.log()
                assert len(times) == 3 and times[2] - times[1] > times[1] - times[0], times


def test_of_a_question_that_is_given_up_the_old_answer_holds_and_no_other(program):
    """A new version fails at every text and at the second chat; what the old one made of the third one is forgotten."""
    def template(third, fails_at=None):
        def answer(body):
            count = len(body["messages"])
            return (500, {}) if count == fails_at else (200, {"prompt": f"{third if count == 3 else ''}{body['messages']}"})
        return answer
    version = lambda name: {"/version": lambda _: (200, {"version": name})}
    old = {"/tokenize": letters(1), "/apply-template": template("old")} | version("1")
    new = {"/tokenize": lambda _: (500, {}), "/apply-template": template("new", fails_at=2)} | version("2")
    with Stub("a", routes={"/tokenize": letters(0), "/apply-template": template("new")}) as a, Stub("b", routes=old) as b:
        config = {"upstreams": [openai_upstream(s.name, s, accept_differences=[]) for s in (a, b)]}
        with Gateway(program, config).wait_up("a") as gateway:
            differences = lambda: gateway.upstreams()["b"]["differences"]
            assert eventually(lambda: differences() == ["template", "vocabulary"], 10), differences()
            b.routes = new
            assert eventually(lambda: differences() == ["vocabulary"], 15), differences()


def test_an_upstream_whose_model_is_damaged_has_not_been_compared(program):
    """What it says then says nothing of what it does with a prompt."""
    invalid = {"error": {"message": "the file is damaged", "type": "invalid_request_error", "code": "model_invalid"}}
    with Stub("a") as a, Stub("b", routes={"/v1/chat/completions": lambda _: (400, invalid)}) as b:
        config = {"upstreams": [openai_upstream(s.name, s, accept_differences=[]) for s in (a, b)]}
        with Gateway(program, config).wait_up("a") as gateway:
            assert eventually(lambda: gateway.upstreams()["b"]["differences"] == ["unfinished"], 10), gateway.upstreams()["b"]
            assert gateway.upstreams()["b"]["apart"]
            b.routes = {}
            assert eventually(lambda: not gateway.upstreams()["b"]["apart"], 15)


def test_a_date_in_a_prompt_is_no_difference(program):
    """Of two that are asked on two days."""
    def template(day):
        return lambda body: (200, {"prompt": f"Today is the {day} of {time.strftime('%b %Y', time.gmtime())}. {body['messages']}"})
    with Stub("a", routes={"/apply-template": template(1)}) as a, Stub("b", routes={"/apply-template": template(2)}) as b:
        config = {"upstreams": [openai_upstream(s.name, s, accept_differences=[]) for s in (a, b)]}
        with Gateway(program, config).wait_up() as gateway:
            assert all(u["differences"] == [] for u in gateway.upstreams().values())


def first_token_seconds(gateway, words):
    began = time.time()
    body = STREAM | {"messages": [{"role": "user", "content": "a " * words}]}
    with gateway.connect() as sock:
        data = json.dumps(body).encode()
        sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(data) + data)
        received = b""
        while b"data: " not in received:
            received += sock.recv(65536)
    return time.time() - began


def test_shapes_are_compiled_before_the_first_request(program):
    """An upstream that stalls 300 ms on each shape it has not seen: cold and warm."""
    with Stub("cold", shape_stall=0.3) as cold, Stub("warm", shape_stall=0.3) as warm:
        for stub, buckets in ((cold, []), (warm, [512, 1024, 2048, 4096])):
            with Gateway(program, {"upstreams": [openai_upstream(stub.name, stub, warm_buckets=buckets)]}).wait_up() as gateway:
                seen = set(stub.shapes)
                seconds = [first_token_seconds(gateway, words) for words in (100, 700, 1500, 3000)]
                print(f"{stub.name}: first token after {[round(1000 * s) for s in seconds]} ms")
                stalls = stub.shapes - seen
                assert stalls == (set() if buckets else {512, 1024, 2048, 4096}), stalls
                assert buckets or min(seconds) > 0.3, seconds


def test_only_shapes_that_were_compiled_count_as_warm(program):
    """One that the upstream refuses is told, and one that nobody listed is cold though a larger one is warm."""
    with Stub("a", most_tokens=3000) as a, Stub("b") as b:
        config = {"upstreams": [openai_upstream("a", a, warm_buckets=[512, 2048, 4096]), openai_upstream("b", b, standby=True)]}
        with Gateway(program, config).wait_up() as gateway:
            assert "a: bucket 4096 could not be warmed (status 400)" in gateway.log()
            assert "bucket 512" not in gateway.log() and "bucket 2048" not in gateway.log()
            ask = lambda words: gateway.post("/v1/chat/completions", CHAT | {"messages": [{"role": "user", "content": "abc " * words}]})
            assert [ask(words)[2]["from"] for words in (200, 800, 1500, 2500)] == ["a", "b", "a", "b"]


def test_drafts_are_counted_by_metrics_where_answers_do_not(program):
    drafted = [0]

    def metrics(_):
        drafted[0] += 40
        if drafted[0] == 80:
            return 500, b"one that fails once has not stopped counting"
        series = {"draft": drafted[0], "accepted": drafted[0] // 10}
        return 200, "".join(f'vllm:spec_decode_num_{name}_tokens_total{{engine="0"}} {n}.0\n' for name, n in series.items()).encode()

    with Stub("a", routes={"/metrics": metrics}) as a:
        config = {"upstreams": [openai_upstream("a", a, drafts=True, drafts_off={"speculation": "off"})]}
        with Gateway(program, config).wait_up() as gateway:
            acceptance = 'martlet_gateway_draft_acceptance{upstream="a"} 0.1\n'
            assert eventually(lambda: acceptance in gateway.get("/metrics")[2], 10)
            gateway.post("/v1/chat/completions", STREAM)
            assert a.requests[-1][2].get("speculation") == "off"


def test_drafts_that_do_not_pay_are_not_asked_for(program):
    details = {"accepted_prediction_tokens": 2, "rejected_prediction_tokens": 14}
    with Stub("a", usage={"completion_tokens_details": details}) as a:
        config = {"drafts": {"try_again_ms": 2000},
                  "upstreams": [openai_upstream("a", a, drafts=True, drafts_off={"speculation": "off"})]}
        with Gateway(program, config).wait_up() as gateway:
            ask = lambda: (gateway.post("/v1/chat/completions", STREAM), a.requests[-1][2].get("speculation"))[1]
            assert [ask(), ask(), ask()] == [None, None, "off"]
            assert gateway.metric('martlet_gateway_draft_acceptance{upstream="a"}') == 0.125
            time.sleep(2)
            assert ask() is None, "tried again"
