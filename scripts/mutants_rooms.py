"""Which modules are changed, by which tests a change has to be noticed, and how many may go unnoticed.

Called by `mutants.py` and `mutants_run.py`. A room is a set of modules that decide whether an effect is believed. The
domain is one of them: its tests are quick, and its tables are tried from the import on. In the other rooms only
functions are changed, in a warm process, since their tests take minutes to import for each change.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "readback"
SOURCE = ROOT / "src" / PACKAGE


@dataclass(frozen=True, slots=True)
class Room:
    """Modules and the tests that answer for them.

    Attributes:
        name: What the command line calls the room.
        modules: Files or folders below `src/readback`.
        tests: Files or folders of tests, from the project's root.
        sample: How many mutants of the room the sample holds.
        floor: The share of mutants that the tests have to kill.
        whole: Whether what an import computes is changed too.
    """

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    sample: int
    floor: float
    whole: bool = False

    def files(self) -> list[Path]:
        """The source files of the room, in a fixed order."""
        places = [SOURCE / module for module in self.modules]
        return sorted(file for place in places for file in ([place] if place.is_file() else place.rglob("*.py")))


DOMAIN = Room(
    "domain",
    ("domain",),
    ("tests/unit",),
    sample=100,
    floor=0.90,
    whole=True,
)
"""The domain's own tests have to notice. What only a test three rooms above would notice is not held here."""

STAGES = Room(
    "stages",
    (
        "engine/stages/validate.py",
        "engine/stages/execute.py",
        "engine/stages/verify.py",
        "engine/stages/evaluate.py",
        "engine/stages/recover.py",
        "engine/stages/compensate.py",
        "engine/stages/watch.py",
        "engine/schedule.py",
        "engine/stages/approve.py",
        "engine/stages/escalate.py",
        "engine/resume.py",
        "engine/people",
        "engine/claims",
        "engine/saga",
    ),
    ("tests/lifecycle", "tests/expressions/test_language.py"),
    sample=40,
    floor=0.70,
)
"""The engine's stages, approvals and claims. Their tests run under virtual time."""

AUDIT = Room(
    "audit",
    ("audit/checks",),
    (
        "tests/cli/test_tampering.py",
        "tests/evidence/test_heads.py",
        "tests/lifecycle/test_approvals.py",
        "tests/lifecycle/test_audit_forged.py",
        "tests/lifecycle/test_audit_quick.py",
        "tests/lifecycle/test_claims.py",
        "tests/lifecycle/test_claims_saga.py",
        "tests/lifecycle/test_freezes.py",
        "tests/lifecycle/test_outbox.py",
        "tests/lifecycle/test_review.py",
        "tests/lifecycle/test_saga_audit.py",
        "tests/lifecycle/test_saga_review.py",
        "tests/lifecycle/test_signatures.py",
        "tests/lifecycle/test_trips.py",
        "tests/privacy/test_erase_audit.py",
        "tests/sealing/test_audit_memory.py",
        "tests/sealing/test_commands.py",
        "tests/sealing/test_seal.py",
    ),
    sample=15,
    floor=0.73,
)
"""`ledger verify`: each check has to fail on the damage that it is for."""

STORES = Room(
    "stores",
    (
        "stores/sqlite/transaction.py",
        "stores/sqlite/commands.py",
        "stores/sqlite/queries.py",
        "stores/sqlite/due_queries.py",
    ),
    ("tests/store/test_conformance.py", "tests/store/test_sqlite_due.py", "tests/store/test_sqlite_faults.py"),
    sample=20,
    floor=0.70,
)
"""Appends, leases and keys, in the store that is always there."""

GATE = Room(
    "gate",
    (
        "gateway/policy/gate.py",
        "gateway/policy/results.py",
        "gateway/policy/active_contracts.py",
        "gateway/policy/ungoverned.py",
    ),
    (
        "tests/gateway/test_apart.py",
        "tests/gateway/test_circles.py",
        "tests/gateway/test_gate_ahead.py",
        "tests/gateway/test_gate_calls.py",
        "tests/gateway/test_gate_contracts.py",
        "tests/gateway/test_gate_crossed.py",
        "tests/gateway/test_gate_evidence.py",
        "tests/gateway/test_gate_golden.py",
        "tests/gateway/test_gate_life.py",
        "tests/gateway/test_gate_operations.py",
        "tests/gateway/test_gate_own_tools.py",
        "tests/gateway/test_gate_progress.py",
        "tests/gateway/test_gate_room.py",
        "tests/gateway/test_gate_searches.py",
        "tests/gateway/test_gate_ungoverned.py",
        "tests/gateway/test_rogue.py",
        "tests/gateway/test_verdict.py",
    ),
    sample=12,
    floor=0.75,
)
"""What decides about a tool call, and what the client is told."""

SOURCES = Room(
    "sources",
    ("systems/files/source.py", "systems/sql/source.py", "systems/git", "systems/http"),
    (
        "tests/adapters/test_source_files.py",
        "tests/adapters/test_source_lines.py",
        "tests/adapters/test_source_sql.py",
        "tests/adapters/test_source_tables.py",
        "tests/adapters/test_source_git.py",
        "tests/adapters/test_source_git_runs_nothing.py",
        "tests/adapters/test_source_git_status.py",
        "tests/adapters/test_source_http.py",
        "tests/adapters/test_executor_http.py",
        "tests/adapters/test_sql_bounds.py",
        "tests/adapters/test_conformance_source.py",
    ),
    sample=15,
    floor=0.66,
)
"""What a reading is worth: consistency, completeness and absence."""

ROOMS = (DOMAIN, STAGES, AUDIT, STORES, GATE, SOURCES)


def label_of(path: Path) -> str:
    """A module by its file: `state` or `saga/moves` in the domain, `engine/stages/recover` elsewhere."""
    label = path.relative_to(SOURCE).with_suffix("").as_posix().removesuffix("/__init__")
    return label.removeprefix("domain/")


def path_of(module: str) -> Path:
    """The file of a module."""
    for place in (SOURCE / "domain" / module, SOURCE / module):
        if place.is_dir():
            return place / "__init__.py"
        if place.with_suffix(".py").is_file():
            return place.with_suffix(".py")
    raise FileNotFoundError(module)


def dotted(module: str) -> str:
    """The name that Python imports a module by."""
    path = path_of(module).relative_to(SOURCE).with_suffix("").as_posix().removesuffix("/__init__")
    return f"{PACKAGE}.{path.replace('/', '.')}"
