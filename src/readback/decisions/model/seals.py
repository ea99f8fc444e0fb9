"""Sealing an episode, and recognising the rule of a seal.

Our rule is `sorted-ascii`: SHA-256, in hexadecimal, of the episode without its `seal`, as JSON with sorted keys,
without spaces and with escapes beyond ASCII. The public episodes of this format verify by this rule. Imports recognise
other rules and name the match. Readback never seals by other rules.

A seal shows unchanged bytes, not the sealing person. The ledger's own proof shows more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from readback.canon import Json, UnsupportedValueError, sha256_hex
from readback.canon.unicode_forms import normalized

RULE: Final = "sorted-ascii"


def sealed(episode: Mapping[str, Json], at: str) -> dict[str, Json]:
    """Return the episode with its seal, replacing any earlier seal. Raises UnsupportedValueError."""
    return {**_without(episode, "seal"), "seal": {"sealedAt": at, "sealHash": seal_hash(episode)}}


def seal_hash(episode: Mapping[str, Json]) -> str:
    """Return the hash by our rule. Raises UnsupportedValueError for a value without a unique written form."""
    return _digest(_without(episode, "seal"))


def matching_rule(episode: Mapping[str, Json]) -> str | None:
    """Return the name of the first matching rule, or None."""
    seal = episode.get("seal")
    stated = seal.get("sealHash", seal.get("hash")) if isinstance(seal, Mapping) else None
    if not isinstance(stated, str):
        return None
    return next((name for name, rule in RULES.items() if stated in rule(episode)), None)


def _plain(episode: Mapping[str, Json]) -> tuple[str, ...]:
    return (seal_hash(episode),)


def _unescaped(episode: Mapping[str, Json]) -> tuple[str, ...]:
    return (_digest(_without(episode, "seal"), ascii_only=False),)


def _normalised(episode: Mapping[str, Json]) -> tuple[str, ...]:
    return (_digest(_composed(_without(episode, "seal")), ascii_only=False),)


def _prefixed(episode: Mapping[str, Json]) -> tuple[str, ...]:
    seal = episode.get("seal")
    found = [f"sha256:{seal_hash(episode)}"]
    if isinstance(seal, Mapping):
        for key in ("sealHash", "hash"):
            if key in seal:
                found.append(f"sha256:{_digest({**episode, 'seal': {**seal, key: ''}})}")
    return tuple(found)


def _session(episode: Mapping[str, Json]) -> tuple[str, ...]:
    part = {key: episode[key] for key in ("episodeId", "action", "actor") if key in episode}
    return (_digest(part), f"sha256:{_digest(part)}")


def _scaffold(episode: Mapping[str, Json]) -> tuple[str, ...]:
    return ("scaffold",)


RULES: Final[Mapping[str, Callable[[Mapping[str, Json]], tuple[str, ...]]]] = MappingProxyType(
    {
        RULE: _plain,
        "sorted-utf8": _unescaped,
        "nfc-without-nulls": _normalised,
        "sha256-prefixed": _prefixed,
        "three-fields-only": _session,
        "literal-scaffold": _scaffold,
    }
)
"""The rules by name. The last two bind almost nothing, and are recognised for the report only."""

BINDING: Final = frozenset({RULE, "sorted-utf8", "nfc-without-nulls", "sha256-prefixed"})
"""The rules with a statement about the whole episode."""


def _without(episode: Mapping[str, Json], key: str) -> dict[str, Json]:
    return {name: value for name, value in episode.items() if name != key}


def _digest(value: Json, *, ascii_only: bool = True) -> str:
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii_only, allow_nan=False)
        return sha256_hex(text.encode())
    except (ValueError, TypeError, RecursionError) as error:
        raise UnsupportedValueError(f"The episode has no one written form: {error}.") from error


def _composed(value: Json) -> Json:
    """Return a value in NFC without nulls."""
    if isinstance(value, str):
        return normalized("NFC", value)
    if isinstance(value, dict):
        return {normalized("NFC", k): _composed(v) for k, v in value.items() if v is not None}
    return [_composed(v) for v in value] if isinstance(value, list) else value
