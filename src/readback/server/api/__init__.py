"""The handlers of the API, one module for each subject, and the whole route table."""

from __future__ import annotations

from readback.server.api import health
from readback.server.routing import RouteTable


def route_table() -> RouteTable:
    """Return the table of every route."""
    return RouteTable([*health.ROUTES])
