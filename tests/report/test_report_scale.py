"""Thousands of photographs: the page holds only what is on the screen."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from browsing import Browser
from fake_encoder import FeatureEncoder
from piaa import Recognizer
from piaa.report.collecting import Collected
from piaa.report.entries import as_base64
from piaa.report.page import CHUNK, MapWriter
from piaa.report.writing import write_page

N_PHOTOS, N_CLASSES = 5000, 120
MOST_NODES = 2500


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of made-up scores; every copy is one and the same file."""
    folder = tmp_path_factory.mktemp("large")
    for name in ("data", "thumbs", "photos", "patches"):
        (folder / name).mkdir()
    copy = folder / "thumbs" / "000000.jpg"
    Image.new("RGB", (120, 90), "teal").save(copy)
    os.link(copy, folder / "photos" / "000000.jpg")
    for number in range(1, N_PHOTOS):
        for kind in ("thumbs", "photos"):
            os.link(copy, folder / kind / f"{number:06d}.jpg")
    names = [f"thing {k}" for k in range(N_CLASSES)]
    encoder = FeatureEncoder(dict(zip(names, torch.eye(N_CLASSES), strict=True)))
    rng = np.random.default_rng(0)
    scores = rng.beta(0.3, 3.0, (N_PHOTOS, N_CLASSES))
    scores *= np.linspace(1, 0.4, N_CLASSES)
    levels = (scores * 65535).astype(np.uint16)
    maps = {
        "classes": [0],
        "tops": [1.0],
        "levels": as_base64(np.arange(4, dtype=np.uint8)),
        "boxes": [[0, 0, 1, 1]],
        "bank": {},
    }
    writer = MapWriter(folder)
    for _ in range(N_PHOTOS):
        writer.add(maps)
    writer.flush()
    collected = Collected(
        paths=[Path(f"/photos/{i % 50:02d}/{i:05d}.jpg") for i in range(N_PHOTOS)],
        numbers=list(range(N_PHOTOS)),
        sizes=[(90, 120)] * N_PHOTOS,
        scores=list(levels),
        tags=[np.flatnonzero(row >= 0.5).tolist() for row in scores],
        grid=(2, 2),
    )
    write_page(Recognizer(encoder, names), collected, folder, title=None, threshold=0.5)
    return folder


def test_data_is_small(large: Path) -> None:
    assert (large / "data" / "index.js").stat().st_size < 3_000_000
    assert len(list((large / "data").glob("maps-*.js"))) == -(-N_PHOTOS // CHUNK)


def test_thousands_stay_usable(browser: Browser, large: Path) -> None:
    with browser.visit(large / "index.html") as page:
        loaded: list[str] = []
        page.on("request", lambda request: loaded.append(request.url))

        def nodes() -> int:
            return page.evaluate("document.getElementsByTagName('*').length")

        assert page.inner_text("#count") == "5,000 photographs"
        assert nodes() < MOST_NODES
        for share in (0.3, 0.9):
            page.evaluate("share => scrollTo(0, share * document.body.scrollHeight)", share)
            page.wait_for_timeout(60)
            assert nodes() < MOST_NODES
            visible = page.evaluate(
                """() => [...document.querySelectorAll(".card")].filter(c => {
                const b = c.getBoundingClientRect(); return b.bottom > 0 && b.top < innerHeight; }).length"""
            )
            assert visible >= 6
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(60)
        page.locator(".card").first.focus()
        page.keyboard.press("End")
        assert page.evaluate("document.activeElement.getAttribute('aria-posinset')") == "5000"
        page.keyboard.press("Enter")
        page.wait_for_selector("#viewer[open]")
        page.wait_for_selector("#viewer-scores button")
        assert "5000 of 5000" in page.inner_text("#viewer-facts")
        page.keyboard.press("Escape")
        page.wait_for_selector("#viewer", state="hidden")
        page.fill("#query", "49/04999")
        page.wait_for_timeout(60)
        assert page.locator(".card").count() == 1
        for address in ("#/classes", "#/class/3", "#/charts"):
            page.evaluate("hash => { location.hash = hash }", address)
            page.wait_for_timeout(60)
            assert nodes() < 2 * MOST_NODES
        # Of 157 files with maps and 10,000 copies, the page has loaded what was looked at.
        assert sum("data/maps-" in url for url in loaded) == 1
        assert len(loaded) < 500
