"""A commit's subject is an imperative of at most 72 characters."""

from __future__ import annotations

import subprocess

from tests.architecture.tree import ROOT

SUBJECT_MAX = 72
RULE_FROM = "16654322bdf9338d68856eacfe5846fe837113c6"
"""The last commit before the rule was checked."""
IMPERATIVES = {"Bring", "Embed", "Feed", "Ping", "Seed", "Shed", "Speed"}
"""Imperatives with the ending of a participle."""
UNFINISHED = ("wip", "fixup!", "squash!", "amend!")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _subjects() -> list[str]:
    # A shallow clone holds no RULE_FROM. Its few commits are all checked.
    shallow = _git("rev-parse", "--is-shallow-repository") == "true"
    return _git("log", "--format=%s", "HEAD" if shallow else f"{RULE_FROM}..HEAD").splitlines()


def test_subjects_are_short_and_finished() -> None:
    faults = [one for one in _subjects() if len(one) > SUBJECT_MAX or one.lower().startswith(UNFINISHED)]
    assert faults == [], f"reword these commits: at most {SUBJECT_MAX} characters, and finished"


def test_subjects_begin_with_a_verb_in_the_imperative() -> None:
    # Git's own subjects ("Merge ...", "Revert ...") are imperatives too.
    verbs = [(one, one.split()[0]) for one in _subjects()]
    faults = [
        subject
        for subject, verb in verbs
        if not verb[0].isupper() or (verb.endswith(("ed", "ing", ":")) and verb not in IMPERATIVES)
    ]
    assert faults == [], 'begin with a verb: "Read each tile once"'
