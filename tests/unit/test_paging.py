"""A list with another page is known by the usual signs."""

from __future__ import annotations

from typing import Any

import pytest

from readback.domain.paging import has_another_page


@pytest.mark.requirement("KEY-three-reasons")
@pytest.mark.parametrize(
    "document",
    [
        {"items": [], "nextCursor": "c2"},
        {"items": [], "next_cursor": "c2"},
        {"items": [], "nextPageToken": "t"},
        {"items": [], "next_page_token": "t"},
        {"items": [], "has_more": True},
        {"items": [], "hasMore": True},
        {"results": [], "next": "https://x.example/?page=2"},
        {"items": [], "links": {"next": "/?page=2"}},
        {"items": [], "pageInfo": {"hasNextPage": True}},
        {"items": [], "meta": {"next_token": "t"}},
        {"items": [], "IsTruncated": True},
        {"value": [], "@odata.nextLink": "https://x.example/2"},
    ],
)
def test_a_sign_of_another_page_is_seen(document: Any) -> None:
    assert has_another_page(document)


@pytest.mark.parametrize(
    "document",
    [
        [],
        [{"next": "x"}],
        {"items": []},
        {"items": [], "nextCursor": None},
        {"items": [], "next_cursor": ""},
        {"items": [], "has_more": False},
        {"results": [], "next": None},
        {"items": [{"has_more": True}]},
        {"items": [], "pageInfo": {"hasNextPage": False, "endCursor": "c1"}},
        "text",
        None,
    ],
)
def test_a_whole_list_has_none(document: Any) -> None:
    assert not has_another_page(document)
