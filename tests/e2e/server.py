"""Starts `martlet serve`, talks to it with raw sockets, and knows what it looked like before."""
import contextlib
import hashlib
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

MIB = 1 << 20


class Server:
    def __init__(self, program, model, *flags, key=None, env=None, wait=True, start=None):
        """`model`: None for a server that gets its models from flags; `start`: called in the new process first."""
        self.model, self.key = model and Path(model), key
        self.log_file = tempfile.NamedTemporaryFile(prefix="martlet-", suffix=".log")
        command = [str(program), "serve", *([str(model)] if model else []), "--port", "0", *map(str, flags)]
        full = {k: v for k, v in os.environ.items() if not k.startswith("MARTLET_")} | (env or {})
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log_file, env=full,
                                        preexec_fn=start)
        self.pid = self.process.pid
        try:
            self.port = self._listening_port()
            if wait:
                self.wait_ready()
        except BaseException:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    # Life

    def _listening_port(self):
        deadline = time.time() + 30
        while time.time() < deadline and self.process.poll() is None:
            found = re.search(r"listening on http://\S+?:(\d+)", self.log())
            if found:
                return int(found[1])
            time.sleep(0.01)
        raise RuntimeError(f"the server does not listen:\n{self.log()}")

    def wait_ready(self):
        ready, _, _ = select.select([self.process.stdout], [], [], 60)
        line = self.ready = self.process.stdout.readline().decode() if ready else ""
        if not line.startswith("ready: "):
            raise RuntimeError(f"the server is not ready: {line}\n{self.log()}")

    def log(self):
        return Path(self.log_file.name).read_text()

    def terminate(self, timeout=40):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def wait_draining(self):
        """Waits until a signal to end has been heard, which takes a moment: nothing new is taken from then on."""
        answer = None

        def draining():
            nonlocal answer
            answer = self.get("/health")
            return answer[0] == 503 and answer[2]["status"] == "draining"
        assert eventually(draining), answer

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    # Requests

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def headers(self):
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def request(self, method, path, body=None, headers=None, timeout=60):
        """(status, fields, parsed body) of one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            fields = self.headers() | (headers or {})
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
            if body is not None:
                fields.setdefault("Content-Type", "application/json")
            connection.request(method, path, body.encode() if isinstance(body, str) else body, fields)
            answer = connection.getresponse()
            data = answer.read()
            is_json = answer.headers.get("content-type", "").startswith("application/json")
            return answer.status, dict(answer.headers), json.loads(data) if is_json else data.decode()
        finally:
            connection.close()

    def post(self, path, body, **more):
        return self.request("POST", path, body, **more)

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def connect(self, timeout=15, receive_buffer=None):
        sock = socket.socket()
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(timeout)
        sock.connect(("127.0.0.1", self.port))
        return sock

    def raw(self, data, timeout=15):
        """(status, everything received until the server closed) of raw bytes."""
        with self.connect(timeout) as sock:
            try:
                sock.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass
            return status_of(received := receive_all(sock)), received

    def post_bytes(self, path, body, fields=""):
        body = json.dumps(body).encode() if isinstance(body, dict) else body
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        if self.key:
            head += f"Authorization: Bearer {self.key}\r\n"
        return (head + fields + f"Content-Length: {len(body)}\r\n\r\n").encode() + body

    def reading(self, body, path="/v1/completions"):
        return Reading(self, path, body)

    # State

    def metric(self, name):
        """Not a number while the server has too many connections to say."""
        status, _, text = self.get("/metrics")
        if status == 503:
            return float("nan")
        found = re.search(rf"^{name} (\S+)$", text, re.M)
        return float(found[1])

    def idle(self, timeout=10):
        """Waits until nothing runs and every connection but the asking one is closed."""
        return eventually(lambda: self.metric("martlet_requests_running") == 0 and
                          self.metric("martlet_requests_queued") == 0 and
                          self.metric("martlet_http_connections") <= 1, timeout)

    def canary(self):
        """Token ids of a greedy answer to a prompt that never changes."""
        body = {"prompt": [72, 101, 108, 108, 111], "max_tokens": 16, "temperature": 0, "logprobs": 0, "ignore_eos": True}
        return self.post("/v1/completions", body)[2]["choices"][0]["logprobs"]["token_ids"]

    def cpu_seconds(self):
        """Of all threads that run, to the microsecond where the kernel counts so: what others do on the machine is not in it."""
        if not Path(f"/proc/{self.pid}/schedstat").exists():
            fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return sum(int(ticks) for ticks in fields[11:13]) / os.sysconf("SC_CLK_TCK")
        nanoseconds = 0
        for path in Path(f"/proc/{self.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):   # a thread that has ended meanwhile
                nanoseconds += int(path.read_text().split()[0])
        return nanoseconds / 1e9

    def snapshot(self):
        base = Path(f"/proc/{self.pid}")
        status = (base / "status").read_text()
        return {"fds": len(os.listdir(base / "fd")), "threads": int(re.search(r"Threads:\s+(\d+)", status)[1]),
                "rss": int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10}

    def peak(self):
        """Most memory that the process ever had, the mapped weights included."""
        return int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())[1]) << 10

    # What every fault must leave behind (INV of the fault list)

    def warm(self):
        """Lets it answer once of everything, so that what it keeps for good is not taken for a leak; then remembers it."""
        self.first_canary = self.canary()
        streams = [self.connect() for _ in range(40)]
        for sock in streams:
            sock.sendall(self.post_bytes("/v1/completions", {"prompt": "warm", "max_tokens": 4, "stream": True}))
        for sock in streams:
            sock.close()
        assert self.idle()
        self.model_hash = hashlib.sha256(self.model.read_bytes()).hexdigest()
        self.before = self.snapshot()
        return self

    def healthy_within(self, seconds):
        began = time.monotonic()
        try:
            status = self.get("/health", timeout=2 * seconds)[0]
        except TimeoutError:
            return False
        assert status == 200
        return time.monotonic() - began <= seconds

    def unharmed(self):
        assert self.process.poll() is None and self.process.pid == self.pid
        assert any(self.healthy_within(1) for _ in range(3)), "health"   # a busy machine may need another attempt
        assert self.idle()   # or what the test has just left counts against the canary where a key's requests are limited
        assert self.canary() == self.first_canary
        assert self.idle()
        assert self.metric("martlet_pages_used") == 0
        for what in ("fds", "threads"):
            assert eventually(lambda: self.snapshot()[what] <= self.before[what]), what
        assert eventually(lambda: self.snapshot()["rss"] <= self.before["rss"] + 16 * MIB), "rss"
        assert hashlib.sha256(self.model.read_bytes()).hexdigest() == self.model_hash


class Reading:
    """A stream that somebody reads: one that nobody reads is cut, on a fast machine within a fifth of a second."""

    def __init__(self, server, path, body):
        self.received, self.over, self.end = 0, False, b""
        self.sock = server.connect()
        self.sock.sendall(server.post_bytes(path, body, "Connection: close\r\n"))
        assert status_of(self.sock.recv(1 << 16)) == 200
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        with contextlib.suppress(OSError):
            while piece := self.sock.recv(1 << 16):
                self.received += len(piece)
                self.end = (self.end + piece)[-1024:]
        self.over = True

    def goes_on(self):
        """Whether more comes, and still more after that."""
        for _ in range(2):
            seen = self.received
            if not eventually(lambda: self.received > seen, 2):
                return False
        return not self.over

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.sock.close()


@contextlib.contextmanager
def steady(*arguments, fill=None, **more):
    """A server of one test's own that is the same before and after it. `fill` uses first what it was planned to take."""
    with Server(*arguments, **more) as server:
        if fill:
            fill(server)
        yield server.warm()
        server.unharmed()


def complete(prompt="Hi", **more):
    return {"prompt": prompt, **more}


def refused(answer, status=400, code=None, param=None):
    got, fields, body = answer
    error = body["error"]
    assert got == status, body
    assert set(error) == {"message", "type", "param", "code"}
    if code:
        assert error["code"] == code, body
    if param:
        assert error["param"] == param, body
    return error


def status_of(received):
    return int(received[9:12]) if received.startswith(b"HTTP/1.1 ") else 0


def receive_all(sock):
    data = b""
    try:
        while piece := sock.recv(65536):
            data += piece
    except (ConnectionResetError, socket.timeout):
        pass
    return data


def eventually(condition, timeout=10):
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True
