#!/usr/bin/env python3
"""The window rule on recorded acceptances.

make.py record MARTLET TARGET DRAFT...   writes acceptance_trace.txt: a line for each greedy answer of TARGET, with what the window
    rule drafted and how much of it was right in a real run, and for each token of the answer (the first comes out of the prompt)
    whether DRAFT's own greedy token at that place is the same: 1 or 0. Recorded with the default model as the target and copies
    that `tools/make_model.py perturb` made of it.
make.py                                  writes window_trace.txt: for each step, what the rule decides by its words alone
    (docs/speculation.md) and what came of it: length, drafts accepted, tokens that joined. A line "-1 0 TOKENS" begins an answer. The
    sums of each answer must be those of the real run."""
import sys
from collections import deque
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOKENS = 300
PROMPTS = ["The days of the week in order, again and again: Monday, Tuesday, Wednesday,",
           "A strange dream in three sentences, then a list of the numbers from 1 to 40, then another dream.",
           "The capital of France is"]


def decide(right):
    """(length, accepted, joined) of each step."""
    window, length, pause, probing = deque(maxlen=32), 3, 0, False
    at = 1                                    # tokens of the answer so far
    while at < len(right):
        wanted = min(0 if pause > 0 else length, len(right) - at - 1)   # the last token is never a draft
        accepted = next((i for i in range(wanted) if not right[at + i]), wanted)
        joined = accepted + 1
        yield wanted, accepted, joined
        at += joined
        if pause > 0:                         # off: waits for 64 tokens
            pause = max(0, pause - joined)
            continue
        if wanted == 0:
            continue
        if probing:
            if accepted / wanted < 0.4:       # the probe failed: off again
                pause = 64
                continue
            probing, length = False, 3        # it is on again and starts anew
            window.clear()
        window.extend([True] * accepted + [False] * (wanted - accepted))
        length = min(6, length + 1) if accepted == wanted else max(3, length - 1)
        if sum(window) + 32 - len(window) < 0.4 * 32:  # even if all that are missing were right
            pause, probing, length = 64, True, 3


def record(program, target, drafts):
    sys.path.insert(0, str(HERE.parents[1] / "e2e"))
    from server import Server
    lines = []
    for draft in drafts:
        for prompt in PROMPTS:
            ask = {"prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True, "logprobs": 0, "echo": True}
            with Server(program, target, "--context", "1024", "--draft", draft, "--speculation", "window") as server:
                answer = server.post("/v1/completions", ask)[2]
            text, details = answer["choices"][0]["logprobs"]["token_ids"], answer["usage"]["completion_tokens_details"]
            with Server(program, draft, "--context", "1024") as server:
                score = {"prompt": text, "max_tokens": 0, "echo": True, "logprobs": 1}
                scored = server.post("/v1/completions", score)[2]["choices"][0]["logprobs"]
            best = [max(top.values()) if top else None for top in scored["top_logprobs"]]
            right = "".join("01"[mine == top] for mine, top in zip(scored["token_logprobs"], best))[-TOKENS:]
            lines.append(f"{Path(draft).stem} {details['drafted_tokens']} {details['accepted_tokens']} {right}")
            print(lines[-1], flush=True)
    (HERE / "acceptance_trace.txt").write_text("\n".join(lines) + "\n")


def make():
    lines = []
    for answer in (HERE / "acceptance_trace.txt").read_text().splitlines():
        name, drafted, accepted, bits = answer.split()
        steps = list(decide([bit == "1" for bit in bits]))
        sums = sum(step[0] for step in steps), sum(step[1] for step in steps)
        assert sums == (int(drafted), int(accepted)), f"{name}: {sums} by the rule's words, {drafted} and {accepted} in truth"
        lines += [f"-1 0 {len(bits)}"] + [" ".join(map(str, step)) for step in steps]
    (HERE / "window_trace.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    record(*sys.argv[2:4], sys.argv[4:]) if sys.argv[1:2] == ["record"] else make()
