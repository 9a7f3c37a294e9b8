"""Starts `martlet gateway` on a configuration that a test gives as a Python object."""
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from server import MIB, Server, eventually, receive_all
from stub_upstream import Stub


class Gateway(Server):
    """A Server whose requests go to the gateway; see server.py for what it can be asked."""

    def __init__(self, program, config, key=None, env=None, wait=True, admin_key="admin"):
        self.key, self.admin_key, self.model = key, admin_key, None
        self.config_file = tempfile.NamedTemporaryFile("w", prefix="gateway-", suffix=".json")
        json.dump({"listen": "127.0.0.1:0", "admin_keys": [admin_key]} | config, self.config_file)
        self.config_file.flush()
        self.log_file = tempfile.NamedTemporaryFile(prefix="gateway-", suffix=".log")
        full = {k: v for k, v in os.environ.items() if not k.startswith("MARTLET_")} | (env or {})
        self.process = subprocess.Popen([str(program), "gateway", self.config_file.name], stdout=subprocess.PIPE,
                                        stderr=self.log_file, env=full)
        self.pid = self.process.pid
        self.port = None
        if wait:
            self.wait_ready()

    def wait_ready(self):
        line = self.process.stdout.readline().decode()
        if not line.startswith("ready: "):
            raise RuntimeError(f"the gateway is not ready: {line}\n{self.log()}")
        self.port = int(line.strip().rsplit(":", 1)[1])

    def wait_up(self, *names, timeout=30):
        """Waits until these upstreams (all, when none is named) can serve."""
        def up():
            states = self.upstreams()
            return all(any(i["state"] == "closed" and not i["preparing"] for i in states[name]["instances"]) and not states[name].get("apart")
                       for name in names or states)
        if not eventually(up, timeout):
            told = f"{self.upstreams()}\n{self.log()}"
            self.kill()  # nobody has entered it yet
            raise AssertionError(told)
        return self

    def admin(self, method, path, **more):
        return self.request(method, path, headers={"Authorization": f"Bearer {self.admin_key}"}, **more)

    def upstreams(self):
        return {u["name"]: u for u in self.admin("GET", "/admin/upstreams")[2]["upstreams"]}

    def seconds(self, count, at_once=1):
        """Until so many chats are answered."""
        with ThreadPoolExecutor(at_once) as pool:
            began = time.monotonic()
            answers = list(pool.map(lambda _: self.post("/v1/chat/completions", CHAT)[0], range(count)))
            took = time.monotonic() - began
        assert answers == [200] * count
        return took

    # What every fault must leave behind (INV of the fault list)

    def idle(self, timeout=10):
        """Waits until nothing runs and nobody waits."""
        running = lambda: [i["running"] for u in self.upstreams().values() for i in u["instances"]]
        return eventually(lambda: not any(running()) and self.metric("martlet_gateway_queue") == 0 and
                          self.metric("martlet_gateway_connections") <= 1, timeout)

    def canary(self):
        """What the preferred upstream answers."""
        status, _, answer = self.post("/v1/chat/completions", CHAT)
        return status, answer["choices"][0]["message"]["content"] if status == 200 else answer

    def warm(self):
        """Lets every upstream answer, several requests at once, so that connections that it keeps are not taken for a leak;
        then remembers what it looks like."""
        names = list(self.upstreams())
        for name in names:
            others = [other for other in names if other != name]
            for other in others:
                assert self.admin("POST", f"/admin/upstreams/{other}/drain")[0] == 200
            for _ in range(2):
                socks = [self.connect() for _ in range(4)]
                for sock in socks:
                    sock.sendall(self.post_bytes("/v1/chat/completions", CHAT | {"stream": True}, "Connection: close\r\n"))
                for sock in socks:
                    receive_all(sock)
                    sock.close()
            for other in others:
                assert self.admin("POST", f"/admin/upstreams/{other}/resume")[0] == 200
        self.first_canary = self.canary()
        assert self.first_canary[0] == 200 and self.idle()
        self.before = self.snapshot()
        return self

    def unharmed(self):
        assert self.process.poll() is None
        assert any(self.healthy_within(1) for _ in range(3)), "health"
        assert self.canary() == self.first_canary
        assert self.idle(), self.upstreams()
        for what in ("fds", "threads"):
            assert eventually(lambda: self.snapshot()[what] <= self.before[what]), (what, self.before, self.snapshot())
        assert eventually(lambda: self.snapshot()["rss"] <= self.before["rss"] + 16 * MIB), "rss"

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                pass
        super().kill()
        self.config_file.close()


@contextlib.contextmanager
def steady(program, config, *stubs):
    """A gateway in front of `stubs` that is the same before and after a test; their requests are counted from then on."""
    usual = [dict(vars(Stub(stub.name))) for stub in stubs]
    with Gateway(program, config).wait_up() as gateway:
        gateway.warm()
        for stub in stubs:
            stub.requests.clear()
        yield gateway
        if gateway.process.poll() == 0:
            return  # it was asked to end
        for stub, attributes in zip(stubs, usual):
            for name in ("mode", "words", "first_delay", "word_delay", "routes", "healthy"):
                setattr(stub, name, attributes[name])
            if not stub.thread.is_alive():
                stub.start()
        assert eventually(lambda: gateway.canary() == gateway.first_canary, 15), gateway.log()
        gateway.unharmed()


def openai_upstream(name, stub, **more):
    return {"name": name, "kind": "openai", "url": stub.url, "model": "stub-model", "accept_differences": ["all"]} | more


CHAT = {"model": "default", "messages": [{"role": "user", "content": "one two three"}]}
STREAM = CHAT | {"stream": True}


def events(gateway, body, path="/v1/chat/completions"):
    """(status, data of each event) of a stream."""
    status, _, text = gateway.post(path, body)
    return status, [line[6:] for line in text.split("\n") if line.startswith("data: ")] if isinstance(text, str) else text


def code_of(answer):
    return answer[0], answer[2]["error"]["code"]
