"""A real server behind a real nginx. The proxy forbids one route, as a proxy with rules of its own does."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.tree import ROOT
from tests.demo.waiting import eventually
from tests.server.bed import Bed, running

NGINX: Final = ROOT / ".venv" / "proxy" / "usr" / "sbin" / "nginx"
NAME: Final = "api.example"
"""The server's name for clients. The proxy hands on the client's Host."""
CONFIGURATION: Final = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log info;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  client_header_timeout 1s; client_body_timeout 1s; keepalive_timeout 1s;
  upstream readback {{ server 127.0.0.1:{upstream}; keepalive 1; }}  # one kept connection: the next client gets it
  server {{
    listen 127.0.0.1:{port};
    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
    proxy_request_buffering {buffering};
    location / {{ proxy_pass http://readback; }}
    location = /v1/actions {{ if ($request_method = POST) {{ return 403; }} proxy_pass http://readback; }}
  }}
}}
"""


@dataclass
class Proxied:
    """A server and the proxy in front of the server."""

    bed: Bed
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def send(self, raw: bytes) -> bytes:
        """Send bytes to the proxy, and return the answer up to the end of the connection."""
        with closing(socket.create_connection(("127.0.0.1", self.port), timeout=20)) as connection:
            found = b""
            with suppress(ConnectionError):  # a refusal may come before the last byte
                connection.sendall(raw)
                while chunk := connection.recv(65_536):
                    found += chunk
            return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _listens(port: int) -> bool:
    with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), timeout=5)):
        return True
    return False


@pytest.fixture(scope="module", params=["off", "on"], ids=["streamed", "buffered"])
def proxied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    """The proxy hands on a request while the request arrives, or as a whole."""
    assert NGINX.is_file(), "run scripts/proxy.sh, or `make proxy`"
    folder = tmp_path_factory.mktemp("proxy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOP_DB", str(folder / "shop.db"))
        patch.setenv("SHOP_SANDBOX", str(folder / "sandbox.db"))
        with running(folder, allow_hosts=(NAME,)) as bed:
            port = free_port()
            text = CONFIGURATION.format(
                folder=folder, upstream=bed.url.rpartition(":")[2], port=port, buffering=request.param
            )
            (folder / "nginx.conf").write_text(text, encoding="utf-8")
            with _nginx(folder) as process:
                eventually(lambda: _listens(port) or process.poll() is not None)
                assert process.poll() is None, Path(folder / "error.log").read_text(encoding="utf-8")
                try:
                    yield Proxied(bed, port)
                finally:
                    process.terminate()


def _nginx(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([str(NGINX), "-p", str(folder), "-c", "nginx.conf", "-e", str(folder / "error.log")])
