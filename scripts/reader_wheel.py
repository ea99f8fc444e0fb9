"""Make the reader of a release as a small wheel: the modules that open, verify and replay a ledger.

    python scripts/reader_wheel.py COMMIT OUT.whl LEDGER

The package is taken from the commit. Only modules that `ledger verify`, `ledger export --bundle` and `replay` load for
LEDGER are kept, with the files beside them. The wheel serves the test of new entries with an earlier reader.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
STAMP: Final = (2026, 1, 1, 0, 0, 0)
"""One moment for every file, so that the same commit gives the same wheel."""
DATA: Final = (".sql", ".json", ".toml", ".typed")
PROBE: Final = """
import json, sys
from readback.cli.cli import main
url, out = sys.argv[1:]
def run(*arguments):
    try:
        main([*arguments])
    except SystemExit as ended:
        assert ended.code == 0, (arguments, ended.code)
run("ledger", "verify", "--url", url, "--json")
from readback import bootstrap
store = bootstrap.store(url, read_only=True)
ids = [p.projection.action_id for p in store.projections() if p.projection.kind in ("set", "create", "delete")]
store.close()
for number, each in enumerate(ids):
    run("ledger", "export", "--bundle", each, "--out", f"{out}{number}", "--url", url)
    run("replay", f"{out}{number}", "--json")
import readback.cli.failures, readback.moved
names = sorted(n for n, m in sys.modules.items() if n.split(".")[0] == "readback" and getattr(m, "__file__", None))
print("MODULES " + json.dumps(names))
"""


def loaded(package: Path, ledger: Path, folder: Path) -> list[str]:
    """Return the modules of the package that a reader loads."""
    command = [sys.executable, "-c", PROBE, f"sqlite:///{ledger}", str(folder / "bundle.json")]
    environment = {"PYTHONPATH": str(package), "PATH": "", "HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    line = next(each for each in done.stdout.splitlines() if each.startswith("MODULES "))
    found: list[str] = json.loads(line.removeprefix("MODULES "))
    return found


def main(commit: str, out: str, ledger: str) -> int:
    """Write the wheel, and print its size."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        archive = subprocess.run(
            ["git", "archive", commit, "src/readback"], cwd=ROOT, capture_output=True, check=True
        ).stdout
        subprocess.run(["tar", "x"], cwd=folder, input=archive, check=True)
        source = folder / "src"
        files: set[Path] = set()
        for module in loaded(source, Path(ledger).resolve(), folder):
            place = source / Path(*module.split("."))
            files.add(place / "__init__.py" if place.is_dir() else place.with_suffix(".py"))
        for parent in {each.parent for each in files}:
            files |= {each for each in parent.iterdir() if each.suffix in DATA and each.is_file()}
            files |= set(parent.glob("migrations/*.sql"))
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
            for each in sorted(files):
                entry = zipfile.ZipInfo(str(each.relative_to(source)), STAMP)
                entry.compress_type = zipfile.ZIP_DEFLATED
                wheel.writestr(entry, each.read_bytes())
    print(f"{out}: {Path(out).stat().st_size} bytes, {len(files)} files of {commit}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:4]))
