"""The console as an ASGI application."""

from __future__ import annotations

from starlette.applications import Starlette

from readback.server.app import App, Server


def console_app(server: Server) -> App:
    """Return the application of the console's pages."""
    return Starlette(routes=[])
