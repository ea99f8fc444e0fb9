"""`readback ledger keys`: the log's own key for signing checkpoints. For approvers' keys see `keys`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from readback import bootstrap
from readback.audit.evidence.attest import Authority, key_of
from readback.audit.maintenance.rotate import following, state
from readback.canon import Json
from readback.cli import options
from readback.cli.progress import counted
from readback.cli.sessions import settings_of
from readback.cli.terminal import moment, note, print_json, safe
from readback.errors import SettingsError, UsageError
from readback.log.note import VerifierKey, parse_key
from readback.log.rotation import ROTATIONS_MAX_BYTES, Span, parse_rotations, spans

if TYPE_CHECKING:
    from readback.ports.signer import LogSigner

ROTATIONS: Final = "readback.rotations"
VARIABLE: Final = "READBACK_SIGNING_KEY_FILE"
KEY_FILE: Final = click.option("--key-file", metavar="FILE", help=f"The file of the log's own key ({VARIABLE}).")
_KEY: Final = click.option("--key", metavar="VKEY", help="The log's verifier key (default: from the key file).")
ROTATIONS_FILE: Final = click.option(
    "--rotations",
    metavar="FILE",
    expose_value=False,
    callback=lambda context, _, given: context.meta.update({ROTATIONS: given}),
    help="Rotation statements, so that heads of earlier keys count (default: the file beside the key file).",
)
F = TypeVar("F", bound=Callable[..., Any])


def verifier(command: F) -> F:
    """Options for accepted signatures."""
    return _KEY(ROTATIONS_FILE(command))


def key_path(given: str | None) -> Path:
    """The file of the log's key. Raises SettingsError if none is named."""
    named = given or settings_of().signing_key_file
    if not named:
        raise SettingsError(
            "No key of the log is named.",
            remedy=f"Create a key with `readback ledger keys create --key-file FILE`, and set {VARIABLE} to it.",
            code="settings.signing-key",
        )
    return Path(named)


def signer(given: str | None) -> LogSigner:
    """The opened key of the log. Raises SettingsError."""
    return bootstrap.log_key(key_path(given))


@contextmanager
def signing_with(given: str | None) -> Iterator[LogSigner]:
    """The log's key, locked against rotation. Raises SettingsError, also during a rotation."""
    with bootstrap.log_key_in_use(key_path(given)):
        yield signer(given)


def authority_of(signing: LogSigner, key_file: str | None = None) -> Authority:
    """The signing key and the earlier keys whose heads still count."""
    settings = settings_of()
    former = [parse_key(each) for each in settings.log_keys]
    place = key_file or settings.signing_key_file
    beside = rotations_at(None, str(bootstrap.rotations_of(Path(place)))) if place else None
    return following(key_of(signing), bootstrap.verify_signature, beside, former)


def trusted(given: str | None) -> Authority:
    """The accepted signatures: of the given verifier key, else of this installation's own, and of earlier and later
    keys with known rotations. Raises UsageError.
    """
    settings = settings_of()
    context = click.get_current_context(silent=True)
    named = context.meta.get(ROTATIONS) if context is not None else None
    own = settings.signing_key_file
    if given is None and not own:
        raise UsageError(
            "No key is known for checking the checkpoint.",
            remedy=f"Pass --key with the output of `readback ledger keys show`, or set {VARIABLE}.",
        )
    key = parse_key(given) if given is not None else key_of(signer(None))
    beside = str(bootstrap.rotations_of(Path(own))) if own and given is None else None
    former = [parse_key(each) for each in settings.log_keys] if given is None else []
    return following(key, bootstrap.verify_signature, rotations_at(named, beside), former)


def rotations_at(named: str | None, beside: str | None) -> bytes | None:
    """The rotation statements of the named file, else of the file beside the own key, if any."""
    place = named or beside
    found = bootstrap.kept_file(Path(place), ROTATIONS_MAX_BYTES) if place else None
    if named and found is None:
        raise UsageError(f"There is no file {safe(named)}.", remedy="Name the rotation file beside the log's key file.")
    return found


@click.group("keys")
def log_keys() -> None:
    """Manage the log's own key for signing checkpoints."""


@log_keys.command("create")
@KEY_FILE
@click.option(
    "--name", metavar="NAME", default="", help="The log's name, as a URL without scheme (default: generated)."
)
@options.as_json
def create(key_file: str | None, name: str, as_json: bool) -> int:
    """Create a key in a new file (mode 0600), and print the verifier key.

    The name identifies the log in every checkpoint: use one key and one name for each ledger. The key has no
    passphrase, so that a service can sign. Every reader of the file can sign in the log's name.
    """
    path = key_path(key_file)
    return _tell(path, key_of(bootstrap.create_log_key(path, name)), as_json=as_json, fresh=True)


@log_keys.command("show")
@KEY_FILE
@options.as_json
def show(key_file: str | None, as_json: bool) -> int:
    """Print the verifier key. The verifier key is public and lets others check signatures."""
    path = key_path(key_file)
    return _tell(path, key_of(bootstrap.log_key(path)), as_json=as_json, fresh=False)


@log_keys.command("list")
@KEY_FILE
@options.as_json
def list_keys(key_file: str | None, as_json: bool) -> int:
    """List the present and earlier keys of the log, each with the log sizes of its valid heads."""
    path = key_path(key_file)
    key = key_of(bootstrap.log_key(path))
    data = rotations_at(None, str(bootstrap.rotations_of(path)))
    known = spans(key, parse_rotations(data or b"", bootstrap.verify_signature))
    if as_json:
        print_json([_described(each) for each in known])
        return 0
    for each in known:
        until = "now" if each.until is None else str(each.until)
        since = f", since {moment(each.at_us)}" if each.at_us else ""
        print(f"{each.key}  heads of {each.since} to {until} entries{since}")
    return 0


def _described(span: Span) -> dict[str, Json]:
    key: dict[str, Json] = {"name": span.key.name, "key_id": span.key.key_id.hex(), "key": str(span.key)}
    return {**key, "since": span.since, "until": span.until, "at_us": span.at_us, "present": span.until is None}


@log_keys.command("rotate")
@KEY_FILE
@click.option("--url", metavar="URL", help="The ledger (READBACK_URL; else sqlite:///readback.db).")
@options.as_json
def rotate(key_file: str | None, url: str | None, as_json: bool) -> int:
    """Create a new key for the log, sign the succession with the old key, and delete the old key.

    \b
    Both keys sign the statement in FILE.rotations, beside the key file. Give the
    statement to every verifier, and keep it with the checkpoints. A verifier with
    the old key follows the statement to the new key. Earlier heads of the old key
    stay valid; later heads do not.

    Workers and clients seal nothing during a rotation, and use the new key from the next checkpoint on. Run the command
    again to continue an interrupted rotation. Exit code 1: the log does not extend its last checkpoint; 6: an entry of
    the ledger is damaged. In both cases nothing was rotated.
    """
    path = key_path(key_file)
    place = bootstrap.rotations_of(path)
    with bootstrap.log_key_in_use(path, alone=True):
        old, new = _rotated(path, place, url, as_json=as_json)
    told = _tell(path, key_of(new), as_json=as_json, fresh=False)
    if not as_json:
        note(f"The key follows {safe(old.name)}+{key_of(old).key_id.hex()}. Also pass {safe(place)} to the verifiers.")
        note("Next: restart the processes that sign with the old key.")
    return told


def _rotated(path: Path, place: Path, url: str | None, *, as_json: bool) -> tuple[LogSigner, LogSigner]:
    """The old key, and the new key in its place."""
    old = bootstrap.log_key(path)
    new, beside = bootstrap.next_log_key(path, old.name)
    before = bootstrap.kept_file(place, ROTATIONS_MAX_BYTES) or b""
    stated = parse_rotations(before, bootstrap.verify_signature)
    if not stated or stated[-1].new != key_of(new):
        bootstrap.store(settings_of(url).url, read_only=True).close()  # one that is not there is not made
        store = bootstrap.store(settings_of(url).url)
        try:
            with counted("reading the ledger", enabled=not as_json) as step:
                authority = authority_of(old, str(path))
                statement = state(store, old, new, bootstrap.runtime().now_us(), authority, step)
        finally:
            store.close()
        # A crash after this line leaves a new key that is introduced and not in place: the next run puts it there.
        bootstrap.keep_file(place, before + statement, own=True)
    bootstrap.take_over(path, beside)
    return old, new


def _tell(path: Path, key: VerifierKey, *, as_json: bool, fresh: bool) -> int:
    if as_json:
        print_json({"file": str(path), "name": key.name, "key_id": key.key_id.hex(), "key": str(key)})
        return 0
    print(str(key))
    note(f"The key of the log {safe(key.name)} in {safe(path)}.")
    if fresh:
        note(f"Next: set {VARIABLE}={safe(path)}, and give the line above to the verifiers.")
    return 0
