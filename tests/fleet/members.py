"""The processes of a drill: started, killed and started again, each at the end of a line of its own.

Where the machine allows, each is a host for itself: with namespaces of network, processes and host name of its own, it
cannot see whether another one is alive, and is heard of by its heartbeats alone.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeAlias

from tests.fleet.link import Link
from tests.fleet.program import Order

ROOT = Path(__file__).resolve().parents[2]
UNSHARE = ("unshare", "--net", "--uts", "--pid", "--mount-proc", "--fork", "--kill-child")
STOP_TIMEOUT_S = 30.0
Ops: TypeAlias = tuple[str, ...]


def may_be_apart() -> bool:
    """Whether this machine lets a process have such namespaces of its own."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


@dataclass(slots=True)
class Member:
    """One that runs. `began`: how often it was started."""

    order: Order
    process: subprocess.Popen[bytes]
    link: Link | None
    began: int = 1

    @property
    def running(self) -> bool:
        return self.process.poll() is None


class Members:
    """`url`: the ledger's address by a socket in this folder; the folder is None where there is none between."""

    def __init__(self, folder: Path, url: Callable[[Path | None], str], home: Path | None, *, apart: bool) -> None:
        self._folder, self._url, self._home = folder, url, home
        self._prefix = UNSHARE if apart else ()
        self._all: dict[str, Member] = {}
        self.kills = 0

    def start(self, role: str, number: int, skew_us: int, ops: Ops = (), submits: Ops = ()) -> None:
        name = f"{role}-{number}"
        link = Link(self._home, self._folder / f"line-{name}") if self._home is not None else None
        order = Order(role, name, self._url(link.home if link else None), str(self._folder), skew_us, ops, submits)
        self._all[name] = Member(order, self._process(order), link)

    def of(self, role: str) -> list[Member]:
        """Those that run now."""
        return [member for member in self._all.values() if member.order.role == role and member.running]

    def everybody(self) -> list[Member]:
        return [member for member in self._all.values() if member.running]

    def kill(self, member: Member) -> None:
        """As -9 does: in the middle of whatever it does."""
        member.process.kill()
        member.process.wait()
        self.kills += 1

    def mend(self) -> None:
        """Whoever died or gave up is started again, as whatever supervises processes does. Who is done stays so."""
        for member in self._all.values():
            if member.running or (member.order.role == "caller" and member.process.returncode == 0):
                continue
            member.began += 1
            member.process = self._process(replace(member.order, name=f"{member.order.name}-{member.began}"))

    def stop(self) -> None:
        """All that runs is asked to end, and then has to."""
        for member in self.everybody():
            member.process.kill()  # nobody says good-bye: what they leave is for whoever comes after them
            member.process.wait(STOP_TIMEOUT_S)
        for member in self._all.values():
            if member.link is not None:
                member.link.close()

    def links(self) -> list[Link]:
        return [member.link for member in self._all.values() if member.link is not None]

    def troubles(self) -> str:
        """The end of what each process said before it ended: for a report."""
        said = []
        for path in sorted(self._folder.glob("*.err")):
            text = path.read_text(errors="replace").strip()
            if text:
                said.append(f"{path.name}: {text[-600:]}")
        return "\n".join(said)

    def _process(self, order: Order) -> subprocess.Popen[bytes]:
        path = self._folder / f"{order.name}.json"
        path.write_text(json.dumps(asdict(order)), encoding="utf-8")
        with (self._folder / f"{order.name}.err").open("wb") as err:
            return subprocess.Popen(
                [*self._prefix, sys.executable, "-m", "tests.fleet.program", str(path)], cwd=ROOT,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err,
            )  # fmt: skip
