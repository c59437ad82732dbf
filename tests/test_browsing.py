"""The browser fixture itself: a check of pages is only worth something if it can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from browsing import Browser, stays_here


def write(folder: Path, body: str) -> Path:
    path = folder / "page.html"
    path.write_text(f"<!doctype html><title>t</title>{body}", encoding="utf-8")
    return path


def test_a_good_page_passes(browser: Browser, tmp_path: Path) -> None:
    with browser.visit(write(tmp_path, "<p id=a>hello</p>")) as page:
        assert page.inner_text("#a") == "hello"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("<script>console.error('broken')</script>", "broken"),
        ("<script>throw new Error('thrown')</script>", "thrown"),
        ("<img src='http://example.invalid/a.png'>", "reached out"),
    ],
)
def test_a_bad_page_fails(browser: Browser, tmp_path: Path, body: str, problem: str) -> None:
    with (
        pytest.raises(AssertionError, match=problem),
        browser.visit(write(tmp_path, body)),
    ):
        pass


def test_local_addresses() -> None:
    assert stays_here("file:///a/b.html")
    assert stays_here("http://127.0.0.1:8000/x")
    assert not stays_here("https://example.org/127.0.0.1")
