"""Starts `martlet gateway` on a configuration that a test gives as a Python object."""
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

from server import Server, eventually


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

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                pass
        super().kill()
        self.config_file.close()


def openai_upstream(name, stub, **more):
    return {"name": name, "kind": "openai", "url": stub.url, "model": "stub-model", "accept_differences": ["all"]} | more


CHAT = {"model": "default", "messages": [{"role": "user", "content": "one two three"}]}
