"""An engine for the benchmark to start: behaves as stub_upstream.py on the port that --port names, and ignores the other
arguments of the engine that it stands for. --delay SECONDS: between two words. --no-usage: tells of no tokens, as
llama-cpp-python's streams. --note FILE: requests, one a line."""
import asyncio
import json
import sys

from stub_upstream import Stub


def argument(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


stub = Stub("engine", routes={"/v1/models": lambda body: (200, {"data": [{"id": "stub"}]})},
            port=int(argument("--port", "0")), words=["zebra", "quartz", "zebra", "nine"],
            word_delay=float(argument("--delay", "0")), first_delay=0.01, usage=None if "--no-usage" in sys.argv else {})


class Noted(list):
    def append(self, request):
        with open(argument("--note", None), "a") as notes:
            notes.write(json.dumps(request[2]) + "\n")


if "--note" in sys.argv:
    stub.requests = Noted()
asyncio.run(stub.serve())
