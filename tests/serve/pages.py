"""What the tests of the page share: photographs, and ways to find them on it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from servers import Served, jpeg

from browsing import Browser
from fake_encoder import squares

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

expect = pytest.importorskip("playwright.sync_api").expect

PHOTOS = {
    "red.jpg": squares(1, ["red"], size=(240, 320)),
    "blue & green.jpg": squares(2, ["blue", "green"], size=(320, 240)),
    "green.jpg": squares(3, ["green"], size=(200, 200)),
}


def payload(name: str) -> dict[str, Any]:
    return {"name": name, "mimeType": "image/jpeg", "buffer": jpeg(PHOTOS[name])}


def pick(page: Page, *names: str) -> None:
    page.set_input_files("#files", [payload(name) for name in names or PHOTOS])


def photo(page: Page, name: str) -> Locator:
    return page.locator(".photo", has=page.get_by_text(name, exact=True))


def tag(page: Page, name: str, label: str) -> Locator:
    return photo(page, name).locator(".tag", has=page.get_by_text(label, exact=True))


def tags(page: Page, name: str) -> list[str]:
    """Labels of a photograph that are tags at the present threshold."""
    found = photo(page, name).locator(".tag.tag:not(.below, .lost) .label")
    return found.all_text_contents()


@contextmanager
def opened(browser: Browser, served: Served, **options: Any) -> Iterator[Page]:
    with browser.visit(served.url, **options) as page:
        expect(page.locator("#model")).to_contain_text("labels")
        yield page


def as_sent(name: str) -> Image.Image:
    """A photograph as the service gets it, out of its JPEG file."""
    return Image.open(io.BytesIO(jpeg(PHOTOS[name])))
