#!/usr/bin/env python3
"""Writes window_trace.txt: for each step, what drafts of a simulated text did and what the window rule decides, by the
rule's words alone (docs/speculation.md). Columns: length that the rule gives, drafts accepted, tokens that joined."""
import random
from collections import deque

rng = random.Random(9)
# (drafts' chance of being right, tokens): hopeless, predictable, surprising, a code edit, surprising again, predictable
PHASES = [(0.05, 100), (0.95, 150), (0.1, 400), (0.7, 200), (0.0, 300), (0.9, 200)]

window, length, pause, probing = deque(maxlen=32), 3, 0, False
lines = []
for chance, tokens in PHASES:
    while tokens > 0:
        wanted = 0 if pause > 0 else length
        accepted = 0
        while accepted < wanted and rng.random() < chance:
            accepted += 1
        joined = accepted + 1
        lines.append(f"{wanted} {accepted} {joined}")
        tokens -= joined
        if pause > 0:                       # off: waits for 64 tokens
            pause = max(0, pause - joined)
            continue
        if probing:
            if accepted / wanted < 0.4:     # the probe failed: off again
                pause = 64
                continue
            probing, length = False, 3      # it is on again and starts anew
            window.clear()
        window.extend([True] * accepted + [False] * (wanted - accepted))
        length = min(6, length + 1) if accepted == wanted else max(3, length - 1)
        if sum(window) + 32 - len(window) < 0.4 * 32:  # even if all that are missing were right
            pause, probing, length = 64, True, 3
open(__file__.replace("make.py", "window_trace.txt"), "w").write("\n".join(lines) + "\n")
