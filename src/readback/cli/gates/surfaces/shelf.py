"""The probe: a shelf of slots in a temporary folder, with a tool and a source of settable behaviour.

The contract is a module in the folder, so a process of its own and this process run the same action. The tool counts
its calls in a file. The tool claims success in every behaviour.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from readback.assurance.surfaces import Behaviour
from readback.client.client import Readback
from readback.domain.outcome.outcome import Outcome
from readback.errors import UsageError

MODULE: Final = "readback_probe"
TENANT, PRINCIPAL = "default", "agent:local"
REVIEWER: Final = "human:release-gate"
CONTRACT: Final = '''
"""The probe of the release gates."""

import json
from pathlib import Path

from readback import Context, Reading, action

HERE = Path(__file__).parent


def behaviour() -> str:
    return (HERE / "behaviour").read_text()


@action(
    name="fill",
    kind="set",
    side_effect="low_risk_internal",
    target="slot/{requested.slot}",
    identity={"target": "authoritative.id", "tenant": "not_offered"},
    key_fields=["slot"],
    ensure={"filled": "authoritative.filled"},
    within="200ms",
    polls=["0s", "50ms"],
    late_window="1h",
    execute={"timeout": "5s"},
)
def fill(ctx: Context, slot: str) -> object:
    """Fill a slot of the shelf."""
    with (HERE / "calls").open("a") as calls:
        calls.write(slot + "\\n")
    if behaviour() != "lying":
        (HERE / f"slot-{slot}").write_text("filled")
    return {"status": "ok", "message": "The slot was filled."}


@fill.read(source="shelf", consistency="strong", independence="other_client", timeout="1s", attributes=True)
def read(ctx: Context, slot: str) -> Reading:
    now = behaviour()
    if now == "blind" and (HERE / "calls").exists() and slot in (HERE / "calls").read_text().split():
        raise ConnectionError("The shelf does not answer.")
    filled = (HERE / f"slot-{slot}").exists() and now != "late"
    return Reading.of({"id": slot, "filled": filled}, version=2 if filled else 1)


@fill.compensate(name="empty", kind="set", ensure={"empty": "!authoritative.filled"}, within="200ms")
def empty(ctx: Context, slot: str) -> object:
    (HERE / f"slot-{slot}").unlink(missing_ok=True)
    return {"status": "ok"}
'''


class Shelf:
    """The probe of the surfaces that run an action. Removed by `close`."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="readback-gate-"))
        (self.folder / f"{MODULE}.py").write_text(CONTRACT, encoding="utf-8")
        self.behave(Behaviour.HONEST)

    @property
    def url(self) -> str:
        """The ledger of this probe."""
        return f"sqlite:///{self.folder / 'ledger.db'}"

    def action(self) -> Any:
        """Return the probe's action, loaded in this process."""
        spec = importlib.util.spec_from_file_location(f"{MODULE}_{self.folder.name}", self.folder / f"{MODULE}.py")
        if spec is None or spec.loader is None:  # pragma: no cover - the file was just written
            raise UsageError("The probe cannot be loaded.")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.fill

    def opened(self) -> Readback:
        """Open the probe's ledger in this process, as a worker and a reviewer do."""
        return Readback.open(
            self.url, tenant=TENANT, principal=PRINCIPAL, actions=[self.action()], subscribers=[], seal=False
        )

    def behave(self, behaviour: Behaviour) -> None:
        (self.folder / "behaviour").write_text(behaviour.value, encoding="utf-8")

    def calls(self, slot: str) -> int:
        file = self.folder / "calls"
        return file.read_text(encoding="utf-8").split().count(slot) if file.exists() else 0

    def wake(self) -> None:
        with self.opened() as rb:
            for each in rb.list():
                rb.signal(each.id)
            rb.resume()

    def decide_not_done(self, slot: str) -> None:
        with self.opened() as rb:
            found = self._of(rb, slot)
            case = rb.review(found.id)
            decided: dict[str, Any] = {"expect_version": case.version, "who": REVIEWER, "reason": "A release gate."}
            rb.resolve(found.id, "attest_not_done", **decided)
        (self.folder / f"slot-{slot}").unlink(missing_ok=True)

    def _of(self, rb: Readback, slot: str) -> Outcome:
        found = next((each for each in rb.list() if each.target == f"slot/{slot}"), None)
        if found is None:
            raise UsageError(f"The surface recorded no action for the slot {slot!r}.")
        return found

    def outcome(self, slot: str) -> Outcome:
        """Return the recorded outcome of a slot."""
        with self.opened() as rb:
            return self._of(rb, slot)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def words_of(outcome: Outcome) -> str:
    """Return both texts of an outcome."""
    return f"{outcome.message}\n{outcome.for_model()}"


def shown(value: object) -> str:
    """Return a JSON value as text."""
    return json.dumps(value, ensure_ascii=False)
