"""A missing framework is an error with the extra's name; an untested version is one warning with the versions."""

from __future__ import annotations

import warnings

import pytest

from readback.agent_errors import MissingFrameworkError
from readback.frameworks import versions
from readback.frameworks.versions import UntestedVersionWarning, check_version, of_framework


@pytest.mark.requirement("KIT-versions")
def test_a_missing_framework_is_a_typed_error_that_names_the_extra() -> None:
    with pytest.raises(MissingFrameworkError) as caught, of_framework("langchain", "LangChain"):
        import no_such_framework_of_any_kind  # noqa: F401
    assert caught.value.code == "framework.missing"
    assert "readback-ai[langchain]" in caught.value.remedy
    assert "no_such_framework_of_any_kind" in caught.value.message


@pytest.mark.parametrize(
    ("installed", "warned"),
    [("1.4.9", True), ("1.5.0", False), ("1.24", False), ("2.0.0rc1", True), ("2.0", True), ("", True), ("x", True)],
)
def test_a_version_outside_the_tested_range_is_one_warning_with_all_versions(
    monkeypatch: pytest.MonkeyPatch, installed: str, warned: bool
) -> None:
    monkeypatch.setattr(versions.metadata, "version", lambda _: installed)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert check_version("Some Framework", distribution="some-framework", lowest="1.5", below="2") == installed
    assert [each.category for each in seen] == [UntestedVersionWarning] * warned
    assert all("some-framework>=1.5,<2" in str(each.message) and installed in str(each.message) for each in seen)


def test_a_framework_without_metadata_is_a_warning() -> None:
    with pytest.warns(UntestedVersionWarning, match="unknown version"):
        assert check_version("None", distribution="no-such-distribution-here", lowest="1", below="2") == ""
