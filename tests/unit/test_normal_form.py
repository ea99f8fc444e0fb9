"""Normal forms: which spellings are one name, which are two, and of which nobody knows."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.domain.normal_form import (
    WIDEST_MAX_BYTES,
    NormalForm,
    alike,
    form_of,
    in_normal_form,
    normal,
    widest,
)

NFC, NFD = (unicodedata.normalize(form, "résumé.txt") for form in ("NFC", "NFD"))
ONE = "550e8400-e29b-41d4-a716-446655440000"
F = NormalForm


@pytest.mark.requirement("IDENT-normal-form")
@pytest.mark.parametrize(
    ("form", "one", "other", "same"),
    [
        (F.EXACT, "a", "A", False),
        (F.EXACT, NFC, NFD, False),
        (F.NFC, NFC, NFD, True),
        (F.NFC, NFC, NFC.upper(), False),
        (F.CASEFOLD, "Straße", "STRASSE", True),
        (F.CASEFOLD, NFC.upper(), NFD, True),
        (F.CASEFOLD, "a", "b", False),
        (F.UUID, ONE, ONE.upper(), True),
        (F.UUID, ONE, ONE.replace("-", ""), True),
        (F.UUID, ONE, f"{{{ONE}}}", True),
        (F.UUID, ONE, f"urn:uuid:{ONE}", True),
        (F.UUID, ONE, ONE[:-1] + "1", False),
        (F.UUID, "A", "a", False),
        (F.UUID, ONE, "{" + ONE, False),
        (F.EMAIL, "ana@acme.example", "ana@ACME.Example", True),
        (F.EMAIL, "ana@acme.example", "Ana@acme.example", False),
        (F.EMAIL, "ana@münchen.example", "ana@xn--mnchen-3ya.example", True),
        (F.EMAIL, "ana", "ANA", False),
        (F.PATH, "a/b.txt", "./a//b.txt", True),
        (F.PATH, "a/b", "a/b/", True),
        (F.PATH, "/a", "a", False),
        (F.PATH, "a/../b", "b", False),
        (F.PATH, "a", "A", False),
    ],
)
def test_two_spellings_are_one_name_by_the_rule_that_is_said_and_by_no_other(
    form: NormalForm, one: str, other: str, same: bool
) -> None:
    assert (normal((form,), one) == normal((form,), other)) is same


@pytest.mark.requirement("IDENT-widest-freezes")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("file/a.txt", "file/./a.txt"),
        ("file/a.txt", "file//a.txt"),
        ("file/a.txt", "file/b/../a.txt"),
        ("file/a.txt", "file/../a.txt"),
        ("file/a.txt", "FILE/A.TXT"),
        ("file/a.txt", "file\\a.txt"),
        ("file/a.txt", "file/a.txt/"),
        ("file/a.txt", " file/a.txt "),
        ("file/a b", "file/a%20b"),
        ("file/a.txt", "file/%61.txt"),
        (f"file/{NFC}", f"file/{NFD}"),
        (f"row/{ONE}", f"row/{{{ONE.upper()}}}"),
        (f"row/{ONE}", f"row/urn:uuid:{ONE}"),
        (f"row/{ONE}", f"row/{ONE.replace('-', '')}"),
        ("mailbox/ana@acme.example", "mailbox/Ana@ACME.EXAMPLE"),
        ("mailbox/ana@münchen.example", "mailbox/ana@xn--mnchen-3ya.example"),
    ],
)
def test_no_other_spelling_has_another_widest_form(one: str, other: str) -> None:
    assert widest(one) == widest(other)


@pytest.mark.parametrize(("one", "other"), [("file/a", "file/b"), ("file/a", "row/a"), ("a/b", "ab"), ("7", "70")])
def test_other_names_have_another_widest_form(one: str, other: str) -> None:
    assert widest(one) != widest(other)


def test_a_name_that_is_long_is_frozen_by_its_hash() -> None:
    long = "ŉ" * WIDEST_MAX_BYTES
    assert (len(widest(long)), widest(long) == widest(long.upper())) == (len("sha256:") + 64, True)
    assert widest("\ud800%") == widest("\ud800%")


TEXTS = st.one_of(st.text(max_size=20), st.from_regex(r"[aA./%@\\{}-]{0,12}", fullmatch=True))


@pytest.mark.requirement("IDENT-widest-freezes")
@given(TEXTS, TEXTS, st.sampled_from(list(NormalForm)))
def test_what_is_one_name_by_any_rule_is_one_by_the_widest(one: str, other: str, form: NormalForm) -> None:
    for text in (one, other):
        assert normal((form,), normal((form,), text)) == normal((form,), text)
    if normal((form,), one) == normal((form,), other):
        assert widest(one) == widest(other)


@given(TEXTS)
def test_the_widest_form_overlooks_case_and_how_letters_are_composed(text: str) -> None:
    for form in ("NFC", "NFD"):
        assert widest(text) == widest(unicodedata.normalize(form, text))


@pytest.mark.requirement("IDENT-no-guilt")
def test_between_the_rule_and_the_widest_form_nothing_is_known() -> None:
    assert alike((), "order/a", "order/a", prefixed=True) is True
    assert alike((), "order/a", "order/A", prefixed=True) is None
    assert alike((), "order/a", "A", prefixed=True) is None
    assert alike((), "order/a", "b", prefixed=True) is False
    assert alike((F.CASEFOLD,), "order/a", "A", prefixed=True) is True
    assert alike((F.PATH, F.CASEFOLD), "file/./a.txt", "A.TXT", prefixed=True) is True
    assert alike((F.EMAIL,), "mailbox/ana@ACME.example", "ana@acme.example", prefixed=True) is True
    assert alike((F.PATH,), "file//a.txt", "file/a.txt", prefixed=True) is None, "one begins at the root"
    assert alike((F.PATH,), "secrets/a.txt", "a.txt", prefixed=False) is False


def test_only_the_arguments_of_the_target_are_brought_into_its_form() -> None:
    given_ = {"path": "./a", "text": "./a", "n": 7}
    assert in_normal_form("file/{requested.path}", F.PATH, given_) == {"path": "a", "text": "./a", "n": 7}
    assert in_normal_form("file/{requested.path}", F.EXACT, given_) == given_
    assert (form_of("path"), form_of("Path"), form_of(7)) == (F.PATH, None, None)
