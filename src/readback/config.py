"""Settings, read once: flags win over the environment. Called by bootstrap and the command line."""

from __future__ import annotations

import os
from dataclasses import dataclass

URL_DEFAULT = "sqlite:///readback.db"
TENANT_DEFAULT = "default"
PRINCIPAL_DEFAULT = "agent:local"


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the ledger is, and in whose name it is used."""

    url: str
    tenant: str
    principal: str


def settings(*, url: str | None = None, tenant: str | None = None, principal: str | None = None) -> Settings:
    """What was given, else the environment (READBACK_URL, READBACK_TENANT, READBACK_PRINCIPAL), else the defaults."""
    environment = os.environ
    return Settings(
        url if url is not None else environment.get("READBACK_URL") or URL_DEFAULT,
        tenant if tenant is not None else environment.get("READBACK_TENANT") or TENANT_DEFAULT,
        principal if principal is not None else environment.get("READBACK_PRINCIPAL") or PRINCIPAL_DEFAULT,
    )
