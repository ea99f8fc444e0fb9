"""Tokens of identity providers: JSON Web Tokens checked by the provider's published keys.

The provider's own document names the keys (OpenID Connect Discovery 1.0). The keys are fetched again for an unknown key
id and for a signature that does not fit, at most every 30 seconds, so that a provider can change its keys. PyJWT checks
signature, issuer, audience and time.
Source: RFC 8725 (best practices): only listed public-key algorithms count, and the issuer is compared before any key is
looked up.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from readback.client.session import check_id
from readback.errors import ReadbackError, UnknownPrincipalError, UnknownTenantError, UsageError
from readback.server.access.principal import Caller, Right, rights_of
from readback.server.errors import ProviderError, UnauthenticatedError

if TYPE_CHECKING:
    from jwt import PyJWK

LEEWAY_S: Final = 30
"""How far the provider's clock may differ, in seconds."""
FETCH_S: Final = 5.0
"""Time limit of one request to a provider, in seconds."""
DOCUMENT_MAX_BYTES: Final = 262_144
KEYS_MAX: Final = 64
AGAIN_US: Final = 30_000_000
"""The pause between two fetches of a provider's keys, in microseconds: an unknown key id cannot cause more requests."""
FRESH_US: Final = 3_600_000_000
"""The age of keys that are fetched again, in microseconds."""
REFUSED: Final = "The token of the identity provider is not valid."


class Issuer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An identity provider, by `[oidc.NAME]`. Claims of its tokens give the tenant, the principal and the rights."""

    issuer: str
    """The provider's URL, exactly as in the tokens' `iss`."""
    audience: str
    """This server's name at the provider, as in the tokens' `aud`."""
    tenant: str = ""
    """The tenant of every token; "" reads the tenant from `tenant_claim`."""
    tenant_claim: str = "tenant"
    principal_claim: str = "sub"
    rights_claim: str = "readback_rights"
    rights: list[str] = msgspec.field(default_factory=list)
    """The rights of a token without `rights_claim`; empty: such a token is refused."""
    algorithms: list[str] = msgspec.field(default_factory=lambda: ["RS256", "ES256", "EdDSA", "PS256"])
    ca_file: str = ""
    """A file of root certificates for the provider's HTTPS; "" for the system's."""


class _Keys:
    """One provider's public keys by id, fetched when needed."""

    def __init__(self, issuer: Issuer, now_us: Callable[[], int]) -> None:
        self._issuer, self._now_us = issuer, now_us
        self._found: dict[str, PyJWK] = {}
        self._fetched_us = 0
        self._away = ""
        """Why the last fetch failed; "" after a success."""
        self._lock = asyncio.Lock()

    async def key(self, key_id: str, refused: PyJWK | None = None) -> PyJWK:
        """Return the key of an id; "" names the only key of a provider with one key.

        `refused`: the key of this id that did not make the signature; the provider may have another one now.

        Raises UnauthenticatedError where the provider has no other key, ProviderError where the last fetch failed.
        """
        age_us = self._now_us() - self._fetched_us
        if (self._named(key_id) is refused and age_us >= AGAIN_US) or age_us >= FRESH_US:
            async with self._lock:
                if self._now_us() - self._fetched_us >= min(age_us, FRESH_US):
                    await self._fetch()
        found = self._named(key_id)
        if found is not None and found is not refused:
            return found
        if self._away:  # nobody knows whether the provider has this key
            raise ProviderError(self._away)
        raise UnauthenticatedError(REFUSED)

    def _named(self, key_id: str) -> PyJWK | None:
        if not key_id and len(self._found) == 1:
            return next(iter(self._found.values()))
        return self._found.get(key_id)

    async def _fetch(self) -> None:
        """Replace the keys by the provider's present keys. After a failure the known keys still count."""
        import httpx
        from jwt import PyJWK, PyJWTError

        home = self._issuer.issuer.rstrip("/")
        self._fetched_us = self._now_us()
        try:
            listed = await self._listed(home)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            self._away = f"The keys of {home} cannot be read: {type(error).__name__}."
            return
        except ProviderError as error:
            self._away = error.message
            return
        keys: dict[str, PyJWK] = {}
        for each in listed[:KEYS_MAX] if isinstance(listed, list) else []:
            if not isinstance(each, dict) or each.get("use", "sig") != "sig" or each.get("kty") == "oct":
                continue
            try:
                keys[str(each.get("kid", ""))] = PyJWK.from_dict(each)
            except (PyJWTError, NotImplementedError, TypeError):
                continue  # a key of a kind that this server does not know; another key may fit
        self._found, self._away = keys, ""

    async def _listed(self, home: str) -> object:
        """Return the provider's published keys. Raises httpx.HTTPError, httpx.InvalidURL, ValueError, ProviderError."""
        import httpx

        verify: ssl.SSLContext | bool = True
        if self._issuer.ca_file:
            verify = ssl.create_default_context(cafile=self._issuer.ca_file)
        async with httpx.AsyncClient(verify=verify, timeout=FETCH_S, trust_env=False) as client:
            described = await _json(client, f"{home}/.well-known/openid-configuration")
            if described.get("issuer") != self._issuer.issuer:
                raise ProviderError(f"The provider at {home} names another issuer than the settings.")
            return (await _json(client, str(described.get("jwks_uri", "")))).get("keys")


async def _json(client: Any, url: str) -> Mapping[str, Any]:
    """Return a provider's document. Raises httpx.HTTPError, ValueError."""
    answer = await client.get(url)
    answer.raise_for_status()
    if len(answer.content) > DOCUMENT_MAX_BYTES:
        raise ValueError("the document is too large")
    found = json.loads(answer.content)
    if not isinstance(found, dict):
        raise ValueError("the document is no object")
    return found


class Providers:
    """The identity providers of a server."""

    def __init__(self, issuers: Mapping[str, Issuer], now_us: Callable[[], int]) -> None:
        self._known = {each.issuer: (name, each, _Keys(each, now_us)) for name, each in issuers.items()}

    async def authenticate(self, token: str) -> Caller:
        """Return the caller of a token.

        Raises:
            UnauthenticatedError: the token is not valid here. The text does not say why.
            ProviderError: the provider's keys cannot be read.
        """
        import jwt

        try:
            unchecked = jwt.decode(token, options={"verify_signature": False})
            known = self._known.get(str(unchecked.get("iss")))
            if known is None:
                raise UnauthenticatedError(REFUSED)
            name, issuer, keys = known
            head = jwt.get_unverified_header(token)
            if head.get("alg") not in issuer.algorithms:
                raise UnauthenticatedError(REFUSED)
            check = partial(
                jwt.decode,
                token,
                algorithms=issuer.algorithms,
                audience=issuer.audience,
                issuer=issuer.issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"], "strict_aud": False},
            )
            key_id = str(head.get("kid", ""))
            key = await keys.key(key_id)
            try:
                claims = check(key)
            except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError, jwt.InvalidKeyError):
                claims = check(await keys.key(key_id, refused=key))
        except jwt.PyJWTError as error:
            raise UnauthenticatedError(REFUSED) from error
        return _caller(name, issuer, claims)


def _caller(name: str, issuer: Issuer, claims: Mapping[str, Any]) -> Caller:
    tenant = issuer.tenant or claims.get(issuer.tenant_claim)
    principal = claims.get(issuer.principal_claim)
    try:
        check_id("tenant", tenant, UnknownTenantError)
        check_id("principal", principal, UnknownPrincipalError)
        held = _rights(issuer, claims.get(issuer.rights_claim))
    except ReadbackError as error:
        raise UnauthenticatedError("The token lacks a tenant, a principal or rights.") from error
    return Caller(str(tenant), str(principal), held, f"oidc:{name}:{claims['sub']}")


def _rights(issuer: Issuer, claimed: object) -> frozenset[Right]:
    """Return the rights of a claim, as a list or as a text with blanks; without a claim, the settings' rights."""
    if claimed is None:
        return rights_of(issuer.rights)
    named = claimed.split() if isinstance(claimed, str) else claimed
    if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
        raise UsageError("The claim of rights is no list.")
    return rights_of([each for each in named if each in tuple(Right)])
