"""A real browser for the pages piaa makes: Debian's chromium, headless, with no way out.

    def test_page(browser):                       # the `browser` fixture is in conftest.py
        with browser.visit(url_or_file) as page:  # a playwright Page
            page.click("text=cat")

Leaving the block fails the test if the page wrote an error to the console, raised one, or asked for
anything that is neither a file nor on this machine.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Browser as PlaywrightBrowser
    from playwright.sync_api import Page

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LOCAL_HOSTS = {"127.0.0.1", "localhost", "::1"}


def chromium_path() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


def stays_here(url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme in {"file", "data", "blob", "about"}:
        return True
    return parts.hostname in LOCAL_HOSTS


class Browser:
    """Opens pages that may not fail silently or reach out."""

    def __init__(self, chromium: PlaywrightBrowser) -> None:
        self._chromium = chromium

    @contextmanager
    def visit(
        self,
        address: str | Path,
        *,
        width: int = 1280,
        height: int = 800,
        scheme: Literal["light", "dark"] = "light",
        allow: tuple[str, ...] = (),
        **context_options: Any,
    ) -> Iterator[Page]:
        """A page at `address`, watched.

        Args:
            allow: Console errors that contain one of these are expected (an API's 4xx that the page shows).
            context_options: Passed on, such as `has_touch=True` or `accept_downloads=True`.
        """
        url = address.absolute().as_uri() if isinstance(address, Path) else address
        context = self._chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, **context_options
        )
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(f"page error: {error}"))
        page.on(
            "console",
            lambda message: (
                problems.append(f"console: {message.text}") if message.type == "error" else None
            ),
        )
        page.on(
            "request",
            lambda request: (
                None if stays_here(request.url) else problems.append(f"reached out: {request.url}")
            ),
        )
        try:
            page.goto(url)
            yield page
            page.wait_for_timeout(50)  # let late errors arrive
        finally:
            context.close()
        unexpected = [p for p in problems if not any(expected in p for expected in allow)]
        if unexpected:
            raise AssertionError("The page had problems:\n" + "\n".join(unexpected))
