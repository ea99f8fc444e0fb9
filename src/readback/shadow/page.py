"""The shadow report as one page of HTML, for a browser without a network.

Called by `readback shadow report --format html`. The page has no script and loads nothing. The content security policy
allows the style sheet of the page by hash. Every outside value is escaped, and control characters become code points,
so a tool's output stays text.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from typing import Final
from unicodedata import category

from readback.canon import json_text
from readback.shadow.judging import JudgedCall, Look, Result
from readback.shadow.report import (
    SHOWN_MAX,
    ContractCounts,
    ShadowAction,
    ShadowReport,
    ToolCounts,
    state_text,
)

ARGUMENTS_MAX_CHARACTERS: Final = 2_000
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --bad: #b3261e; --good: #18663b; --open: #7a5900; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --good: #7ddba3; --open: #ffd166; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.lead { font-size: 1.1rem; } .bad { color: var(--bad); font-weight: 600; } .good { color: var(--good); }
.open { color: var(--open); } .scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; } th, td { padding: .35rem .6rem; text-align: right; }
th { border-bottom: 2px solid var(--line); font-weight: 600; vertical-align: bottom; }
td { border-bottom: 1px solid var(--line); } th:first-child, td:first-child { text-align: left; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: #8881; border-radius: 4px; margin: .2rem 0; max-height: 14rem; overflow: auto; padding: .5rem; }
pre { overflow-wrap: anywhere; white-space: pre-wrap; }
article { border: 1px solid var(--line); border-left: 4px solid var(--bad); border-radius: 4px; }
article { margin: 1rem 0; padding: .6rem 1rem 1rem; } article h3 { font-size: 1rem; margin: 0 0 .4rem; }
.pair { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(18rem, 1fr)); }
.pair h4 { font-size: .85rem; margin: .5rem 0 0; } li { margin: .2rem 0; } footer { margin-top: 3rem; opacity: .75; }
"""
_POLICY: Final = (
    "default-src 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    + "'; base-uri 'none'; form-action 'none'"
)


def page(report: ShadowReport, made_at: str) -> str:
    """Return the report as a page. `made_at`: the time of the report, in words."""
    body = "\n".join(
        [
            "<h1>What the tools said, and what was there</h1>",
            f"<p>Readback shadow report, {text(made_at)}</p>",
            _lead(report),
            _tools(report.tools),
            _contradictions(report.contradictions),
            _reasons(report.tools),
            _contracts(report.contracts, report.differing),
            _explained(),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>Readback shadow report</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def text(value: object) -> str:
    """Return a value from outside as inert text: escaped, with control and direction characters as code points."""
    return escape("".join(_shown(each) for each in str(value)), quote=True)


def _shown(character: str) -> str:
    if character in "\n\t" or category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
        return character
    return f"\\u{{{ord(character):x}}}"


def _lead(report: ShadowReport) -> str:
    calls = sum(each.calls for each in report.tools)
    claimed = sum(each.claimed for each in report.tools)
    if not report.tools:
        return '<p class="lead">No call was watched.</p>'
    if report.contradicted:
        said = f'<span class="bad">{report.contradicted} of {claimed} claimed successes are contradicted</span>'
    elif sum(each.changed + each.unchanged for each in report.tools):
        said = '<span class="good">No claimed success is contradicted</span>'
    else:
        said = '<span class="open">No claimed success could be judged</span>'
    return f'<p class="lead">{said} in {calls} watched calls.</p>'


_HEADS: Final = (
    "tool",
    "calls",
    "claimed successes",
    "changes seen",
    "nothing changed: contradicted",
    "nothing changed: as asked already",
    "could not be judged",
    "reported failures",
    "failures with a change",
    "no answer",
)


def _tools(tools: Iterable[ToolCounts]) -> str:
    rows = [_row(each) for each in tools]
    if not rows:
        return ""
    heads = "".join(f'<th scope="col">{each}</th>' for each in _HEADS)
    return (
        '<h2>By tool</h2>\n<div class="scroll"><table>\n<thead><tr>'
        + heads
        + "</tr></thead>\n<tbody>\n"
        + "\n".join(rows)
        + "\n</tbody></table></div>"
    )


def _row(each: ToolCounts) -> str:
    name = f"{each.server}__{each.tool}" if each.server else each.tool
    bad = f'<td class="bad">{each.contradicted}</td>' if each.contradicted else "<td>0</td>"
    numbers = (each.calls, each.claimed, each.changed)
    rest = (each.unchanged, each.not_judged, each.failed, each.failed_and_changed, each.unanswered)
    cells = "".join(f"<td>{number}</td>" for number in numbers)
    cells += bad + "".join(f"<td>{number}</td>" for number in rest)
    return f"<tr><td><code>{text(name)}</code></td>{cells}</tr>"


def _contradictions(calls: tuple[JudgedCall, ...]) -> str:
    if not calls:
        return ""
    shown = calls[-SHOWN_MAX:]
    more = f"<p>The newest {len(shown)} of {len(calls)} are shown.</p>" if len(shown) < len(calls) else ""
    return "<h2>Said done, and not there</h2>\n" + more + "\n".join(map(_article, shown))


def _article(each: JudgedCall) -> str:
    call = each.watched
    arguments = json_text(None if call.arguments is None else dict(call.arguments))[:ARGUMENTS_MAX_CHARACTERS]
    looks = "\n".join(_pair(look) for look in call.looks if look.tool == each.read)
    return (
        f"<article><h3><code>{text(call.tool)}</code> {text(arguments)}</h3>\n<p>{text(each.reason)}</p>\n"
        f"<p>The tool said (its own words):</p><pre>{text(call.answer)}</pre>\n{looks}\n"
        f"<p>Action <code>{text(call.id)}</code>: <code>readback show {text(call.id)}</code></p></article>"
    )


def _pair(look: Look) -> str:
    asked = json_text(dict(look.arguments))[:ARGUMENTS_MAX_CHARACTERS]
    sides = "".join(
        f"<div><h4>{title} the call: <code>{text(look.tool)}</code> {text(asked)}</h4>"
        f"<pre>{text(state_text(state) or '(no answer)')}</pre></div>"
        for title, state in (("Before", look.before), ("After", look.after))
    )
    return f'<div class="pair">{sides}</div>'


def _reasons(tools: Iterable[ToolCounts]) -> str:
    lines = [
        f"<li><code>{text(each.tool)}</code>: {count} x {text(reason)}</li>"
        for each in tools
        for reason, count in sorted(each.reasons.items())
    ]
    return "<h2>Could not be judged</h2>\n<ul>\n" + "\n".join(lines) + "\n</ul>" if lines else ""


def _contracts(counts: tuple[ContractCounts, ...], differing: tuple[ShadowAction, ...]) -> str:
    if not counts:
        return ""
    rows = "\n".join(
        f"<tr><td><code>{text(each.contract)}</code></td><td>{each.actions}</td><td>{each.verified}</td>"
        f"<td>{each.refuted}</td><td>{each.undetermined}</td><td>{each.refused}</td><td>{each.open}</td></tr>"
        for each in counts
    )
    told = "\n".join(map(_would, differing[-SHOWN_MAX:]))
    listed = f"<h2>Not as the tool said</h2>\n<ul>\n{told}\n</ul>" if told else ""
    heads = (
        "contract",
        "actions",
        "would be verified",
        "would be refuted",
        "would be open",
        "would be refused",
        "open",
    )
    return (
        '<h2>Contracts in shadow mode</h2>\n<div class="scroll"><table>\n<thead><tr>'
        + "".join(f'<th scope="col">{each}</th>' for each in heads)
        + f"</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>\n{listed}"
    )


def _would(each: ShadowAction) -> str:
    said = (
        "Not judged yet." if each.judgement is None else f"Enforced, the user would have read: {each.judgement.words}"
    )
    about = f"<code>{text(each.contract)}</code> on {text(each.target)}"
    return f"<li>{about}: {text(said)} (<code>{text(each.id)}</code>)</li>"


def _explained() -> str:
    return (
        f"<footer><p><b>{Result.CONTRADICTED.value.capitalize()}</b>: the tool claimed success, the state was the same "
        "before and after, no other call overlapped, and the same reading tool has shown such an effect of this tool "
        "in another call, which the tool answered in the same words.</p>"
        "<p>The readings come from the same server. A server that also lies about its state stays "
        "unseen, and a change may be the wrong change. A contract with a reader of its own closes both gaps.</p>"
        "</footer>"
    )
