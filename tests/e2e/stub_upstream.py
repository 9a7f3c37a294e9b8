"""An upstream of nothing but behaviour: answers chats with words that say who it is, or misbehaves as it is told.

In a test: `with Stub("a") as stub:`, then set its attributes while it runs. As a process (to be killed):
    stub_upstream.py PORT [NAME [ATTRIBUTES AS JSON]]
"""
import asyncio
import json
import socket
import sys
import threading
import time


def reserved_port(port=0):
    """A socket that keeps a port for whoever listens there with SO_REUSEADDR: nobody else is given it, nor calls from it."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    return sock


class Stub:
    def __init__(self, name="stub", port=0, **attributes):
        self.name, self.port = name, port
        self.mode = "ok"            # see chat()
        self.healthy = True
        self.words = ["one", "two", "three"]
        self.first_delay = 0.0      # before the answer's head
        self.word_delay = 0.0       # between two words
        self.usage = {}             # beyond prompt_tokens and completion_tokens; None: streams tell none
        self.count_tokens = lambda text: len(text.split())
        self.routes = {}            # path -> function(body) -> (status, object)
        self.sent = 0               # words
        self.requests = []          # (path, fields, body)
        self.health_times = []
        self.tls = None             # an ssl.SSLContext
        self.connections = 0        # that were made to it
        self.most_tokens = None     # of a prompt; longer ones get 400
        self.ballast_mib = 0        # of memory that it holds
        self.disconnects = []       # times at which a client left inside an answer
        self.shape_stall = 0.0      # for each power of two of prompt tokens that it has not seen
        self.shapes = set()
        self.__dict__.update(attributes)
        self.ballast = b"x" * (self.ballast_mib << 20)

    # Life

    def __enter__(self):
        self.reserved = reserved_port(self.port)   # until the end, also while it is stopped
        self.port = self.reserved.getsockname()[1]
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        self.reserved.close()

    def start(self):
        ready = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self.thread.start()
        assert ready.wait(30)

    def stop(self):
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.stopping.set)
            self.thread.join(10)

    def _run(self, ready):
        asyncio.run(self.serve(ready))

    async def serve(self, ready=None):
        self.loop, self.stopping, self.open = asyncio.get_running_loop(), asyncio.Event(), set()
        server = await asyncio.start_server(self.connection, "127.0.0.1", self.port, backlog=2048, ssl=self.tls)
        self.port = server.sockets[0].getsockname()[1]
        if ready:
            ready.set()
        await self.stopping.wait()
        server.close()
        for writer in list(self.open):
            writer.transport.abort()

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    # HTTP

    async def connection(self, reader, writer):
        self.open.add(writer)
        self.connections += 1
        try:
            while await self.one_request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.open.discard(writer)
            writer.close()

    async def one_request(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *rest = head.split("\r\n")
        method, path, _ = line.split(" ")
        fields = {name.lower(): value for name, value in (f.split(": ", 1) for f in rest if f)}
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        body = json.loads(body) if body else None
        if path in self.routes:
            return self.reply(writer, *self.routes[path](body))
        if method == "GET":
            self.health_times.append(time.time())
            return self.reply(writer, 200 if self.healthy else 503, {"status": "ok", "object": "list", "data": []})
        if path not in ("/v1/chat/completions", "/v1/completions"):
            return self.reply(writer, 404, {"error": {"message": "no such route"}})
        self.requests.append((path, fields, body))
        if self.first_delay and await self.left_within(reader, self.first_delay):
            return False
        return await self.chat(reader, writer, body, fields)

    async def left_within(self, reader, seconds):
        """Whether the client leaves while it waits for so long; None: until it does."""
        gone = asyncio.ensure_future(reader.read(1))
        done, _ = await asyncio.wait([gone], timeout=seconds)
        if done:
            gone.exception()
            self.disconnects.append(time.time())
            return True
        gone.cancel()
        await asyncio.wait([gone])
        return False

    def reply(self, writer, status, answer):
        writer.write(self.packed(status, answer))
        return True

    def packed(self, status, answer):
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return (f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n"
                "Set-Cookie: secret=1\r\nX-Powered-By: stub\r\n\r\n".encode() + data)

    def prompt_tokens(self, body):
        if isinstance(body.get("prompt"), list):
            return len(body["prompt"])      # token ids
        messages = body.get("messages") or [{"content": body.get("prompt", "")}]
        return sum(self.count_tokens(str(m["content"])) for m in messages)

    async def chat(self, reader, writer, body, fields):
        if self.mode == "hang":
            await self.left_within(reader, None)
            return False
        if self.mode == "die":              # before the first byte
            writer.transport.abort()
            return False
        if self.mode == "text_only" and isinstance(body.get("prompt"), list):
            return self.reply(writer, 422, {"error": {"message": "prompt must be a string", "code": "x"}})
        if isinstance(self.mode, int):      # a status
            return self.reply(writer, self.mode, {"error": {"message": f"stub says {self.mode} key {fields.get('authorization')}",
                                                            "type": "x", "param": None, "code": "x"}})
        if self.mode == "bad_json":
            return self.reply(writer, 200, b"{ this is no JSON")
        if self.most_tokens and self.prompt_tokens(body) > self.most_tokens:
            return self.reply(writer, 400, {"error": {"message": "too long", "type": "x", "param": None, "code": "x"}})
        shape = max(512, 1 << (self.prompt_tokens(body) - 1).bit_length())
        if self.shape_stall and shape not in self.shapes:
            self.shapes.add(shape)
            await asyncio.sleep(self.shape_stall)
        usage = {"prompt_tokens": self.prompt_tokens(body), "completion_tokens": len(self.words)} | (self.usage or {})
        common = {"id": "x", "created": 1, "model": body["model"]}
        if not body.get("stream"):
            if self.mode == "huge":
                return await self.huge(writer)
            text = " ".join(self.words)
            if self.mode == "show_key":
                text = fields.get("authorization", "")
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}, "text": text}
            answer = common | {"object": "chat.completion", "choices": [choice], "usage": usage, "from": self.name}
            if self.mode == "twice":        # and one that nobody asked for, in a record of its own where there is TLS
                fill = 16384 - len(self.packed(200, answer | {"fill": "x" * 10000})) + 10000
                writer.write(self.packed(200, answer | {"fill": "x" * fill}) + self.packed(200, answer | {"from": "nobody"}))
                return True
            return self.reply(writer, 200, answer)
        return await self.stream(reader, writer, common, usage)

    async def huge(self, writer):
        """A line of 100 MB, as far as the other side reads it."""
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000000\r\n\r\n{\"x\":\"")
        for _ in range(1600):
            writer.write(b"x" * 65536)
            await writer.drain()
        return False

    async def stream(self, reader, writer, common, usage):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")

        async def send(data):
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            await writer.drain()

        gone = asyncio.ensure_future(reader.read(1))
        try:
            await send(b": hello\n\n")
            if self.mode == "die_after_head":
                return writer.transport.abort()
            if self.mode == "bad_event":
                await send(b"data: {oops\n\n")
            if self.mode == "huge":
                for _ in range(1600):
                    await send(b"x" * 65536)
            for i, word in enumerate(self.words):
                if self.mode == "die_after_first" and i == 1:
                    return writer.transport.abort()
                delta = {"delta": {"content": word + " "}, "index": 0, "finish_reason": None, "text": word + " "}
                await send(b"data: " + json.dumps(common | {"choices": [delta], "from": self.name}).encode() + b"\n\n")
                self.sent += 1
                delay = None if self.mode == "hang_after_first" else self.word_delay
                if delay != 0:
                    done, _ = await asyncio.wait([gone], timeout=delay)
                    if done:
                        self.disconnects.append(time.time())
                        return False
            if self.usage is not None:
                await send(b"data: " + json.dumps(common | {"choices": [], "usage": usage}).encode() + b"\n\n")
            await send(b"data: [DONE]\n\n")
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        except ConnectionError:
            self.disconnects.append(time.time())
        finally:
            gone.cancel()
            try:
                await gone
            except (asyncio.CancelledError, ConnectionError):
                pass
        return not gone.done() or gone.cancelled()


if __name__ == "__main__":
    port, name, attributes = (sys.argv[1:] + ["stub", "{}"][len(sys.argv) - 2:])[:3]
    print("serving on", port, flush=True)
    asyncio.run(Stub(name, int(port), **json.loads(attributes)).serve())
