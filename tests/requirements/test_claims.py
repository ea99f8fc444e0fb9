"""The reader of claims believes only tests that can fail."""

from __future__ import annotations

import pytest

from tests.requirements.claims import read_source
from tests.requirements.manifest import requirement_ids

HEAD = "import pytest\nfrom tests.requirements.manifest import requirement_ids\n"
WALK = '@pytest.mark.parametrize("requirement_id", requirement_ids("HS"))\n'


@pytest.mark.parametrize(
    "source",
    [
        '@pytest.mark.requirement("A", "B")\ndef test_x():\n    assert f()\n',
        '@pytest.mark.requirement("A")\n@pytest.mark.requirement("B")\nasync def test_x(): await f()\n',
        'pytestmark = [pytest.mark.requirement("A"), pytest.mark.requirement("B")]\n',
        '@pytest.mark.requirement("A")\nclass TestX:\n    @pytest.mark.requirement("B")\n    def test_x(self): f()\n',
        'CASES = [pytest.param(1, marks=pytest.mark.requirement("A", "B"))]\n',
        '@pytest.mark.parametrize("n", [pytest.param(1, marks=[pytest.mark.requirement("A", "B")])])\n'
        "def test_x(n):\n    assert n\n",
    ],
    ids=["function", "stacked", "module", "class", "constant", "param"],
)
def test_ids_are_read_wherever_a_marker_may_stand(source: str) -> None:
    found = read_source(HEAD + source, "t.py")
    assert found.ids == frozenset({"A", "B"})
    assert found.faults == ()


def test_a_test_that_walks_a_table_claims_every_required_id_of_it() -> None:
    found = read_source(HEAD + WALK + "def test_x(requirement_id):\n    assert requirement_id\n", "t.py")
    assert found.ids == frozenset(requirement_ids("HS"))
    assert found.faults == ()


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ('@pytest.mark.requirement("A")\ndef helper(): f()\n', "is no test"),
        ('@pytest.mark.requirement("A")\nclass Helper: pass\n', "is no test class"),
        ('@pytest.mark.requirement("A")\n@pytest.mark.skip\ndef test_x(): f()\n', "is skipped"),
        (
            '@pytest.mark.requirement("A")\n@pytest.mark.xfail(reason="r")\ndef test_x(): f()\n',
            "expected to fail",
        ),
        ("pytestmark = pytest.mark.skip\n", "skip hides a gap"),
        ('@pytest.mark.requirement("A")\ndef test_x():\n    """Later."""\n    ...\n', "does nothing"),
        ("@pytest.mark.requirement(A)\ndef test_x(): f()\n", "must be written out"),
        ("@pytest.mark.requirement()\ndef test_x(): f()\n", "takes ids"),
        (WALK + "def test_x(requirement_id): f()\n", "without using requirement_id"),
        (WALK.replace("HS", "NONE") + "def test_x(requirement_id): f(requirement_id)\n", "no table named"),
    ],
)
def test_a_marker_with_nothing_behind_it_is_a_fault_and_no_claim(source: str, fault: str) -> None:
    found = read_source(HEAD + source, "t.py")
    assert found.ids == frozenset()
    assert fault in "\n".join(found.faults)


@pytest.mark.parametrize(
    ("source", "name", "proof"),
    [
        ('@pytest.mark.requirement("A")\ndef test_x():\n    assert f()\n', "t.py", "behaviour"),
        ('@pytest.mark.requirement("A")\ndef test_x():\n    assert f() == GOLDEN\n', "t.py", "golden"),
        ('@pytest.mark.skipif(c, reason="r")\n@pytest.mark.requirement("A")\ndef test_x(): f()\n', "t.py", "skipif"),
        (
            'ABSENT = pytest.mark.skipif(c, reason="r")\n@ABSENT\n@pytest.mark.requirement("A")\ndef test_x(): f()\n',
            "t.py",
            "skipif",
        ),
        (
            'pytestmark = [pytest.mark.skipif(c, reason="r")]\n@pytest.mark.requirement("A")\ndef test_x(): f()\n',
            "t.py",
            "skipif",
        ),
        (WALK + "def test_x(requirement_id):\n    assert requirement_id\n", "unit/t.py", "table"),
        (WALK + "def test_x(requirement_id):\n    assert requirement_id\n", "lifecycle/t.py", "behaviour"),
    ],
)
def test_a_claim_has_the_kind_of_its_proof(source: str, name: str, proof: str) -> None:
    found = read_source(HEAD + source, name)
    assert {claim.proof for claim in found.claims} == {proof}
    assert bool(found.ids) is (proof != "skipif")
