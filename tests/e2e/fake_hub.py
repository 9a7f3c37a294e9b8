"""A model hub for tests: the few routes that `martlet pull` uses, with every fault that a hub or what lies between can have.

    with FakeHub() as hub:
        hub.add("owner/repo", "model.gguf", data)
        hub.faults.ignore_range = True
        run(env=hub.environment(home))
        hub.requests   # what was asked: method, path, headers
"""

import dataclasses
import gzip
import hashlib
import http.server
import json
import re
import threading
import time

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclasses.dataclass
class Faults:
    ignore_range: bool = False         # answers 200 with everything
    change_etag_after: int = -1        # the ETag differs after so many body requests
    truncate: int = 0                  # bytes missing at the end of every body, Content-Length still announcing them
    truncate_once: bool = False        # only the first body is cut short
    short_range: int = 0               # bytes missing at the end of every range, announced so
    long_body: int = 0                 # bytes too many after a body that announces no length
    corrupt_at: int = -1               # this byte of the file is wrong
    digest: str = ""                   # in place of the true one, everywhere
    linked_etag: str = ""              # in place of the true one, in X-Linked-Etag only
    manifest: bytes | None = None      # in place of the true one
    gzip_manifest: bool = False        # a small body that unpacks to 1 GiB
    redirect_to: str = ""              # where bodies are, instead of this server's /cdn
    realm: str = ""                    # answers 401 with this realm
    fail_bodies: int = 0               # so many 503 before bodies work
    expire_after: int = -1             # the signed URL stops working after so many body requests
    delay: float = 0.0                 # seconds between blocks of a body
    hold_after: int = -1               # bodies after so many hang for as long as this says so


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # clients that are killed or hang up are what the tests are about


class FakeHub:
    BLOCK = 64 << 10

    def __init__(self):
        self.files, self.faults, self.requests, self.sent = {}, Faults(), [], []
        self.bodies, self.signature, self.lock = 0, 1, threading.Lock()
        handler = type("Handler", (Handler,), {"hub": self})
        self.server = Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        # The hub sends on to another origin for the bytes, as the real one does.
        self.cdn = Server(("127.0.0.1", 0), handler)
        self.cdn_url = f"http://127.0.0.1:{self.cdn.server_address[1]}"

    def __enter__(self):
        for server in (self.server, self.cdn):
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_):
        for server in (self.server, self.cdn):
            server.shutdown()
            server.server_close()

    def add(self, repository, path, data):
        self.files[(repository, path)] = data
        return hashlib.sha256(data).hexdigest()

    def environment(self, home):
        return {"HF_ENDPOINT": self.url, "HF_HOME": str(home), "HF_HUB_CACHE": "", "HF_TOKEN": "", "HF_TOKEN_PATH": "",
                "MARTLET_HOME": str(home / "martlet")}

    def body_ranges(self):
        """(begin, end) of every body that was asked for."""
        ranges = []
        for method, path, headers, _ in self.requests:
            match = re.match(r"bytes=(\d+)-(\d+)", headers.get("Range", ""))
            if method == "GET" and path.startswith("/cdn/") and match:
                ranges.append((int(match[1]), int(match[2]) + 1))
        return ranges


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        port = self.server.server_address[1]
        with self.hub.lock:
            self.hub.requests.append((self.command, self.path, dict(self.headers), port))
        try:
            self.route()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def route(self):
        faults = self.hub.faults
        if faults.realm:
            return self.reply(401, {"WWW-Authenticate": f'Bearer realm="{faults.realm}"'})
        if match := re.match(r"/api/models/([^/]+/[^/]+)/revision/main", self.path):
            return self.manifest(match[1])
        if match := re.match(r"/([^/]+/[^/]+)/resolve/" + COMMIT + "/(.+)$", self.path):
            return self.resolve(match[1], match[2])
        if match := re.match(r"/cdn/([^/]+/[^/]+)/(.+)\?signature=(\d+)$", self.path):
            return self.body(match[1], match[2], int(match[3]))
        return self.reply(404)

    def reply(self, status, headers=None, body=b""):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def manifest(self, repository):
        faults = self.hub.faults
        siblings = []
        for (owner, path), data in self.hub.files.items():
            if owner == repository:
                digest = faults.digest or hashlib.sha256(data).hexdigest()
                siblings.append({"rfilename": path, "size": len(data), "lfs": {"sha256": digest, "size": len(data)}})
        if not siblings:
            return self.reply(404)
        if faults.gzip_manifest:
            bomb = gzip.compress(bytes(64 << 20))
            return self.reply(200, {"Content-Encoding": "gzip", "Content-Type": "application/json"}, bomb)
        body = faults.manifest
        if body is None:
            body = json.dumps({"id": repository, "sha": COMMIT, "siblings": siblings}).encode()
        return self.reply(200, {"Content-Type": "application/json"}, body)

    def resolve(self, repository, path):
        faults, data = self.hub.faults, self.hub.files.get((repository, path))
        if data is None:
            return self.reply(404)
        etag = faults.linked_etag or faults.digest or hashlib.sha256(data).hexdigest()
        place = faults.redirect_to or f"{self.hub.cdn_url}/cdn/{repository}/{path}?signature={self.hub.signature}"
        headers = {"Location": place, "X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(data)), "X-Repo-Commit": COMMIT}
        return self.reply(302, headers, b"Found. Redirecting")

    def body(self, repository, path, signature):
        hub, faults = self.hub, self.hub.faults
        with hub.lock:
            hub.bodies += 1
            number = hub.bodies
            expired = 0 <= faults.expire_after < number and signature == 1
            if number == faults.expire_after:
                hub.signature = 2
        if expired:
            return self.reply(403)
        if number <= faults.fail_bodies:
            return self.reply(503)
        data = hub.files[(repository, path)]
        if faults.corrupt_at >= 0:
            at = faults.corrupt_at
            data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]
        changed = 0 <= faults.change_etag_after < number
        headers = {"ETag": '"second"' if changed else '"first"', "Accept-Ranges": "bytes"}
        match = re.match(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not match or faults.ignore_range:
            return self.send(200, headers, data, number)
        begin, end = int(match[1]), int(match[2]) + 1 - faults.short_range
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(data)}"
        return self.send(206, headers, data[begin:end], number)

    def send(self, status, headers, data, number):
        faults = self.hub.faults
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if faults.long_body:
            data += bytes(faults.long_body)
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        cut = faults.truncate if not faults.truncate_once or number == 1 else 0
        if cut:
            data = data[:-cut]
            self.close_connection = True
        while 0 <= faults.hold_after < number:
            time.sleep(0.01)
        for at in range(0, len(data), FakeHub.BLOCK):
            self.wfile.write(data[at:at + FakeHub.BLOCK])
            if faults.delay:
                threading.Event().wait(faults.delay)
