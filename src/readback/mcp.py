"""Public: the gateway for programs: tools of MCP servers, verified. Needs the extra `mcp`.

`Gateway` stands in front of existing servers. `verify_server` governs the tools of a program's own server.
`ActionServer` serves decorated actions and sagas.
"""

from __future__ import annotations

try:
    from readback.gateway.actions import ActionServer
    from readback.gateway.embedded import InProcess
    from readback.gateway.embedded import verified_server as verify_server
    from readback.gateway.gateway import Gateway
    from readback.gateway.upstream.upstream import Upstream
except ModuleNotFoundError as error:  # the same type, for callers that test whether the extra is installed
    raise ModuleNotFoundError(
        f"readback.mcp needs the extra `mcp`: pip install 'readback-ai[mcp]'. ({error})", name=error.name
    ) from error

__all__ = ["ActionServer", "Gateway", "InProcess", "Upstream", "verify_server"]
