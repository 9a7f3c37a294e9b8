"""An engine for the benchmark to start: behaves as stub_upstream.py on the port that --port names, and ignores the other
arguments of the engine that it stands for. --delay SECONDS: between two words."""
import asyncio
import sys

from stub_upstream import Stub


def argument(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


stub = Stub("engine", routes={"/v1/models": lambda body: (200, {"data": [{"id": "stub"}]})},
            port=int(argument("--port", "0")), words=["zebra", "quartz", "zebra", "nine"],
            word_delay=float(argument("--delay", "0")), first_delay=0.01)
asyncio.run(stub.serve())
