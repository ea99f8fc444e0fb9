"""An S3 server (moto) in a thread, with faults on demand: `with S3Server() as server: ...`.

For tests and examples. The server stands for an external object store and verifies nothing. `held` reports the real
contents. Needs moto with flask.
"""

from __future__ import annotations

import io
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Self, TypedDict

if TYPE_CHECKING:
    from types import TracebackType

    from werkzeug.serving import BaseWSGIServer

HOST: Final = "127.0.0.1"
ACCESS_KEY, SECRET_KEY, REGION = "readback", "not-a-secret", "us-east-1"
FAULTS: Final = frozenset(
    {"lost", "truncated", "garbled", "landed_unanswered", "elsewhere", "twice", "down", "refused"}
)
"""Faults of the next write: answered and not stored; cut short; other bytes of the same length; stored, and the
connection cut; stored under another key; stored twice. `down` and `refused` apply to every request, until `honest`.
"""

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Access(TypedDict):
    """The server's address and credentials."""

    endpoint: str
    region: str
    access_key: str
    secret_key: str


class S3Server:
    """One server with buckets in memory. `endpoint` is the address.

    Example:
        >>> from readback.testing import S3Server
        >>> with S3Server("photos") as server:
        ...     server.endpoint.startswith("http://127.0.0.1:")
        True
    """

    def __init__(self, *buckets: str, versioned: bool = True) -> None:
        self._buckets = buckets
        self._versioned = versioned
        self._fault = ""
        self._server: BaseWSGIServer | None = None
        self._thread: threading.Thread | None = None
        self._app: Wsgi | None = None
        self._own: Any = None

    def __enter__(self) -> Self:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Quiet(WSGIRequestHandler):
            def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - its own name
                """Log no requests."""

        logging.getLogger("werkzeug").setLevel(logging.CRITICAL)  # a connection that is cut is what was ordered
        self._app = DomainDispatcherApplication(create_backend_app)
        self._server = make_server(HOST, 0, self._answer, request_handler=Quiet)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, name="s3-server", daemon=True
        )
        self._thread.start()
        self._own = self._client()
        for bucket in self._buckets:
            self.bucket(bucket)
            if self._versioned:
                self.begin_versions(bucket)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def endpoint(self) -> str:
        assert self._server is not None
        return f"http://{HOST}:{self._server.port}"

    @property
    def access(self) -> Access:
        """The access data for an executor or a source."""
        return Access(endpoint=self.endpoint, region=REGION, access_key=ACCESS_KEY, secret_key=SECRET_KEY)

    def fault(self, word: str) -> None:
        """Order one of FAULTS."""
        assert word in FAULTS, word
        self._fault = word

    def honest(self) -> None:
        self._fault = ""

    def held(self, bucket: str, key: str) -> bytes | None:
        """The objects really stored."""
        client, fault, self._fault = self._own, self._fault, ""
        try:
            listed = client.list_objects_v2(Bucket=bucket, Prefix=key).get("Contents", [])
            if not [each for each in listed if each["Key"] == key]:
                return None
            return bytes(client.get_object(Bucket=bucket, Key=key)["Body"].read())
        finally:
            self._fault = fault

    def bucket(self, name: str) -> None:
        """Create a bucket without versions."""
        self._own.create_bucket(Bucket=name)

    def begin_versions(self, bucket: str) -> None:
        """Store later writes as versions beside the present objects."""
        self._own.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})

    def put(self, bucket: str, key: str, data: bytes) -> None:
        """Store an object of another writer."""
        self._own.put_object(Bucket=bucket, Key=key, Body=data)

    def remove(self, bucket: str, key: str) -> None:
        self._own.delete_object(Bucket=bucket, Key=key)

    def close(self) -> None:
        """End the server and its thread. May be called twice."""
        server, thread, self._server, self._thread = self._server, self._thread, None, None
        if server is not None and thread is not None:
            if self._own is not None:
                self._own.close()
            server.shutdown()
            thread.join()
            server.server_close()

    # --- lying ---

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        assert self._app is not None
        if self._fault in ("down", "refused"):
            said = "503 Slow Down" if self._fault == "down" else "403 Forbidden"
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start(said, [("Content-Length", "0")])
            return [b""]
        write = environ["REQUEST_METHOD"] == "PUT" and environ["PATH_INFO"].count("/") > 1
        complete = environ["REQUEST_METHOD"] == "POST" and "uploadId=" in environ.get("QUERY_STRING", "")
        part = "partNumber=" in environ.get("QUERY_STRING", "")
        if not (complete or (write and not part)) or not self._fault:
            return self._app(environ, start)
        fault, self._fault = self._fault, ""
        return self._spoiled(fault, environ, start)

    def _spoiled(self, fault: str, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        assert self._app is not None
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        match fault:
            case "lost":
                start("200 OK", [("ETag", '"d41d8cd98f00b204e9800998ecf8427e"'), ("Content-Length", "0")])
                return [b""]
            case "truncated":
                return self._app(_with(environ, body[:-1]), start)
            case "garbled":
                return self._app(_with(environ, body[::-1]), start)
            case "elsewhere":
                path = environ["PATH_INFO"] + "-elsewhere"
                return self._app(
                    {**_with(environ, body), "PATH_INFO": path, "RAW_URI": path, "REQUEST_URI": path}, start
                )
            case "twice":
                environ.pop("HTTP_IF_NONE_MATCH", None)
                b"".join(self._app(_with(environ, body), lambda *_: lambda _: None))
                return self._app(_with(environ, body), start)
            case _:  # landed_unanswered
                b"".join(self._app(_with(environ, body), lambda *_: lambda _: None))
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
                start("200 OK", [("Content-Length", "0")])
                return [b""]

    def _client(self) -> Any:
        import boto3.session
        from botocore.config import Config

        config = Config(
            s3={"addressing_style": "path"},
            proxies={},
            retries={"total_max_attempts": 1},
            response_checksum_validation="when_required",
        )
        return boto3.session.Session().client(
            "s3", endpoint_url=self.endpoint, region_name=REGION, aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY, config=config,
        )  # fmt: skip


def _with(environ: dict[str, Any], body: bytes) -> dict[str, Any]:
    return {**environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
