"""The candidate: it wants a note, too."""

from __future__ import annotations

from tests.canary import in_force

ship = in_force.contract("2", {**in_force.ENSURE, "noted": "authoritative.note == 'n'"})
