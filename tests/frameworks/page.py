"""The recorded results of the bed, and the page of the six features by framework that is made from them.

python -m tests.frameworks.page langchain      run the bed, record the results, and write the page
python -m tests.frameworks.page                write the page from the recorded results
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.docs.pages import blocks
from tests.frameworks.scenarios import FEATURES

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).parent / "results"
PAGE = ROOT / "docs" / "frameworks" / "features.md"
TITLES = {
    "langchain": "LangChain and LangGraph",
    "openai_agents": "OpenAI Agents",
    "pydantic_ai": "Pydantic AI",
    "claude_agent": "Claude Agent SDK",
    "google_adk": "Google ADK",
    "strands": "Strands",
    "agent_framework": "Microsoft Agent Framework",
    "crewai": "CrewAI",
    "llama_index": "LlamaIndex",
    "smolagents": "smolagents",
}


def page_of(name: str) -> str:
    """The page of a framework, relative to the root of the project."""
    return f"docs/frameworks/{name.replace('_', '-')}.md"


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def to_record(results: dict[str, Any]) -> dict[str, Any]:
    """What is the same in every run: no time, no path, no version of Python."""
    kept = {}
    for name, each in results["scenarios"].items():
        wanted = ("feature", "status", "reason", "acts", "false_successes", "second_effects")
        kept[name] = {key: each[key] for key in wanted if key in each}
    return {**{key: results[key] for key in ("framework", "versions", "notes")}, "scenarios": kept}


def names() -> list[str]:
    """The frameworks with recorded results, in the order of the titles."""
    return [name for name in TITLES if (RESULTS / f"{name}.json").exists()]


def render() -> str:
    """The page, from the recorded results alone."""
    found = {name: recorded(name) for name in names()}
    lines = [
        "# Features by framework",
        "",
        "At the end of this page the reader knows the tested behaviour of each adapter. `make frameworks` runs all",
        "scenarios and compares the results with this page. The script `tests/frameworks/page.py` writes the page.",
        "",
        "*Yes*: every scenario of the feature passed. *Partly*: a limit applies, with a number from the list below.",
        "",
        "| framework, version | " + " | ".join(FEATURES.values()) + " |",
        "|---|" + "---|" * len(FEATURES),
    ]
    limits: list[str] = []
    for name, results in found.items():
        plain = name.replace("_", "-")
        version = results["versions"][min((each for each in results["versions"] if each.startswith(plain)), key=len)]
        cells = [_cell(name, feature, results, limits) for feature in FEATURES]
        link = f"[{TITLES[name]}]({Path(page_of(name)).name}) {version}"
        lines.append(f"| {link} | " + " | ".join(cells) + " |")
    lines += ["", "## Limits", "", *[f"{number}. {text}" for number, text in enumerate(limits, 1)], ""]
    lines += [
        "## Counts",
        "",
        "| framework | scenarios passed | not possible | false successes | second effects |",
        "|---|---|---|---|---|",
    ]
    for name, results in found.items():
        each = results["scenarios"].values()
        counts = (
            f"{sum(one['status'] == 'passed' for one in each)} of {len(each)}",
            str(sum(one["status"] == "cannot" for one in each)),
            str(sum(one.get("false_successes", 0) for one in each)),
            str(sum(one.get("second_effects", 0) for one in each)),
        )
        lines.append(f"| {TITLES[name]} | " + " | ".join(counts) + " |")
    return "\n".join(lines) + "\n"


def _cell(name: str, feature: str, results: dict[str, Any], limits: list[str]) -> str:
    mine = {key: each for key, each in results["scenarios"].items() if each["feature"] == feature}
    assert mine, f"{name} has no results for {feature}"
    if any(each["status"] == "failed" for each in mine.values()):
        return "no"
    reasons = [
        f"*{key.replace('_', ' ')}*: {each['reason']}" for key, each in mine.items() if each["status"] == "cannot"
    ]
    reasons += [results["notes"][feature]] if feature in results["notes"] else []
    if not reasons:
        return "yes"
    first = len(limits) + 1
    limits += [f"{TITLES[name]}, {reason}" for reason in reasons]
    return "partly (" + ", ".join(str(first + each) for each in range(len(reasons))) + ")"


def programs(name: str) -> tuple[tuple[str, str], ...]:
    """The programs of a framework's page, each with the text that it prints.

    Blocks with the note `environment` are joined to one program, up to the `text` block with the output.
    """
    found: list[tuple[str, str]] = []
    code = ""
    for block in blocks(page_of(name)):
        if "environment" in block.notes:
            code += block.text
        elif block.language == "text" and code:
            found.append((code, block.text))
            code = ""
    assert not code, f"{page_of(name)}: a program without its output"
    return tuple(found)


def main() -> None:
    for name in sys.argv[1:]:
        python = ROOT / ".venv" / "frameworks" / f"{name}-latest" / "bin" / "python"
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "results.json"
            subprocess.run([str(python), "-m", "tests.frameworks.run", name, "--out", str(out)], cwd=ROOT, check=False)
            record = to_record(json.loads(out.read_text(encoding="utf-8")))
        (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
