"""The verifier of `verimcp_proxy`, loaded by verimcp itself: it reads the primary until the question holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from verimcp.verifiers.base import Verifier

from bench.hallucinated_success.proxied.reading_back import read_back
from bench.hallucinated_success.tasks import PATIENCE_S


class OrderVerifier(Verifier):
    """Compares the order with what its owner wants."""

    def applies_to(self, tool_name: str) -> bool:
        return tool_name == "change_order"

    def verify(self, request: dict[str, Any], response: dict[str, Any], root: Path | None = None) -> dict[str, Any]:
        if response.get("result", {}).get("isError"):
            return response
        held = read_back(os.environ["BENCH_PORT"], os.environ["BENCH_KIND"], PATIENCE_S)
        if held is False:
            return dict(self._override(response, "the order is not as wanted"))
        return response
