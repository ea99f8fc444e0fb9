"""The handlers of the API, one module for each subject, and the whole route table."""

from __future__ import annotations

from readback.server.api import actions, attempts, catalog, events, health, people
from readback.server.routing import Route, RouteTable


def route_table(*more: Route) -> RouteTable:
    """Return the table of every route."""
    return RouteTable(
        [
            *actions.ROUTES,
            *attempts.ROUTES,
            *people.ROUTES,
            *catalog.ROUTES,
            *events.ROUTES,
            *health.ROUTES,
            *more,
        ]
    )
