"""A refusal over HTTP, as a JSON-RPC error without a request's id: nothing of the request was read."""

from __future__ import annotations

import json

from mcp_types import INVALID_REQUEST

from readback.canon import ReadbackError
from readback.gateway.serving.http_fast_path import Send


async def refuse(send: Send, status: int, error: ReadbackError) -> None:
    """Answer a request with a status and an error of ours."""
    said = {"code": INVALID_REQUEST, "message": str(error), "data": {"code": error.code, "remedy": error.remedy}}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": said}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode("ascii"))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
