"""Write or check `docs/reference/openapi.json` and `docs/reference/http-api.md`, the description of the HTTP API.

Run `python scripts/openapi.py --write` after a change. Without `--write`, a difference is exit code 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from readback.server.openapi import document, document_bytes
from readback.server.serving import whole_table

PLACE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "openapi.json"
COMMON = ("400", "401", "403", "415", "421", "429", "500", "503")
"""Statuses of nearly every route, named once."""
PAGE = PLACE.with_name("http-api.md")


def page() -> str:
    """The reference as a page: every route by subject, with right, headers and answers."""
    described = document(whole_table())
    lines = [
        "# HTTP API",
        "",
        "At the end of this page you know every route of `readback serve`, with rights and answers. "
        "[Serve actions over HTTP](../how-to/serve-http.md) shows the routes at work. "
        "`/openapi.json` serves the same description for programs.",
        "",
        "Every route but `/healthz`, `/openapi.json` and the webhooks needs `Authorization: Bearer TOKEN`. "
        "Each fault is a problem document (RFC 9457) with `code`, `detail` and `remedy`. "
        "Any route may answer 400, 401, 403, 415, 421, 429, 500 and 503; the tables list the other answers.",
        "",
    ]
    for tag in described["tags"]:
        lines += [f"## {tag['name'].capitalize()}", "", tag["description"], ""]
        lines += ["| route | meaning | right | headers | answers |", "|---|---|---|---|---|"]
        for path, methods in described["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation["tags"]:
                    lines.append(_row(method, path, operation))
        lines.append("")
    return "\n".join(lines)


def _row(method: str, path: str, operation: dict[str, Any]) -> str:
    right = re.search(r"`(\w+)`", operation.get("description", ""))
    named = [each["name"] for each in operation.get("parameters", []) if each["in"] == "header"]
    answers = ", ".join(each for each in operation["responses"] if each not in COMMON)
    headers = ", ".join(f"`{each}`" for each in named)
    shown = f"`{method.upper()} {path}`"
    return f"| {shown} | {operation['summary']} | {right[1] if right else '-'} | {headers or '-'} | {answers} |"


def run(arguments: Sequence[str]) -> int:
    wanted = {PLACE: document_bytes(whole_table()), PAGE: page().encode()}
    if "--write" in arguments:
        for place, content in wanted.items():
            place.write_bytes(content)
        return 0
    return 0 if all(place.exists() and place.read_bytes() == content for place, content in wanted.items()) else 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
