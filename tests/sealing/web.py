"""What anchors talk to, on this machine: a place that keeps a text, and a witness as C2SP tlog-witness asks for."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from readback import bootstrap
from readback.log.checkpoint import open_checkpoint
from readback.log.cosignature import WitnessKey, cosign
from readback.log.fault import LogError, LogProofError
from readback.log.note import VerifierKey, hash_bytes, number
from readback.log.proof import check_consistency

Answer = tuple[int, bytes, dict[str, str]]


@dataclass
class Place:
    """Keeps a text by PUT, and gives it by GET; it names versions, and minds If-Match and If-None-Match."""

    text: bytes | None = None
    status: int = 0
    """What it answers in place of everything else."""
    token: str = ""
    puts: int = 0
    tag: str = ""
    """What it says of its version, in place of what that is."""
    age: str = ""
    """What a cache before it says of its answers."""

    def answer(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        if self.status:
            return self.status, b"", {}
        if self.token and headers.get("authorization") != f"Bearer {self.token}":
            return 401, b"", {}
        tag = self.tag or f'"{sha256(self.text or b"").hexdigest()[:12]}"'
        if method == "GET":
            aged = {"Age": self.age} if self.age else {}
            return (404, b"", aged) if self.text is None else (200, self.text, {"ETag": tag, **aged})
        if headers.get("if-match", tag) != tag or (headers.get("if-none-match") == "*" and self.text is not None):
            return 412, b"", {}
        self.text, self.puts = body, self.puts + 1
        return 204, b"", {}


@dataclass
class Witness:
    """Remembers the last checkpoint of one log, and cosigns what goes on from it."""

    log: VerifierKey
    name: str = "witness.example/w1"
    status: int = 0
    size: int = 0
    root: bytes = b""
    asked: int = 0
    forge: Callable[[bytes], bytes] = field(default=lambda answer: answer)
    at_s: int = 1_767_268_800
    tick_s: int = 0
    """How far its clock goes on with each cosignature."""
    _key: Ed25519PrivateKey = field(default_factory=lambda: Ed25519PrivateKey.from_private_bytes(b"\x31" * 32))

    @property
    def key(self) -> WitnessKey:
        return WitnessKey(self.name, self._key.public_key().public_bytes_raw())

    def answer(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        self.asked += 1
        if self.status or (method, path) != ("POST", "/prefix/add-checkpoint"):
            return self.status or 404, b"", {}
        head, _, note = body.partition(b"\n\n")
        lines = head.decode("ascii").split("\n")
        old = number(lines[0].removeprefix("old "), "size")
        try:
            signed = open_checkpoint(note, [self.log], bootstrap.verify_signature)
        except LogError:
            return 403, b"", {}
        found = signed.checkpoint
        if old > found.size:
            return 400, b"", {}
        if old != self.size or (old == found.size and self.root != found.root):
            return 409, f"{self.size}\n".encode(), {"Content-Type": "text/x.tlog.size"}
        try:
            if old:
                path_ = [hash_bytes(line, "hash") for line in lines[1:]]
                check_consistency(old, found.size, self.root, found.root, path_)
        except LogProofError:
            return 422, b"", {}
        self.size, self.root = found.size, found.root
        line = cosign(signed.note.text, self.key, self._key.sign, self.at_s).line()
        self.at_s += self.tick_s
        return 200, self.forge(line.encode()), {}


@contextmanager
def dribbling(head: bytes, more: bytes) -> Iterator[str]:
    """The address of somebody who answers with `head`, and then with `more` for ever, a little at a time."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def dribble() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(head)
                while not over.wait(0.01):
                    try:
                        connection.sendall(more)
                    except OSError:
                        return

        thread = threading.Thread(target=dribble)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


@contextmanager
def serving(what: Place | Witness) -> Iterator[str]:
    """Its address, for as long as it is served."""

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            given = {name.lower(): value for name, value in self.headers.items()}
            status, answer, headers = what.answer(self.command, self.path, body, given)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_POST = _do  # noqa: N815 - names of the standard library

        def log_message(self, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
