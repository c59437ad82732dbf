"""The page in a real browser, opened from a file. `browser.visit` fails on console errors and requests."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from report_samples import HOSTILE_CLASS, HOSTILE_FILE, Made, data_of, small_report

from browsing import Browser
from fake_encoder import CLASSES, ColorEncoder, squares
from piaa import Recognizer
from piaa.heatmaps import on_image
from piaa.images.placement import place
from piaa.images.tiles import Tiles
from piaa.report import write_report

Page = Any


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return small_report(tmp_path_factory)


@pytest.fixture
def page(browser: Browser, made: Made) -> Iterator[Page]:
    with browser.visit(made.summary.page) as page:
        yield page


ADDRESSES = ("#/photos", "#/photos?photo=3", "#/classes", "#/class/0", "#/charts")


def go(page: Page, address: str) -> None:
    page.evaluate("hash => { location.hash = hash }", address)
    page.wait_for_timeout(40)


def settle(page: Page) -> None:
    """Let the page notice that its address has changed."""
    page.evaluate("() => new Promise(done => setTimeout(done, 0))")


def names_shown(page: Page) -> list[str]:
    settle(page)
    return page.locator(".card .file").all_inner_texts()


def open_photo(page: Page, name: str) -> None:
    page.fill("#query", name)
    settle(page)
    page.locator(".card").first.click()
    page.wait_for_selector("#viewer[open]")


def heat_pixels(page: Page) -> np.ndarray:
    """(rows, columns, 4) of the overlay as it is drawn."""
    rows, columns, encoded = page.evaluate(
        """() => { const c = document.getElementById("heat");
        const data = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        let text = ""; for (const v of data) text += String.fromCharCode(v);
        return [c.height, c.width, btoa(text)]; }"""
    )
    return np.frombuffer(base64.b64decode(encoded), np.uint8).reshape(rows, columns, 4)


def test_the_gallery_shows_all_with_tags_and_bars(page: Page, made: Made) -> None:
    assert page.inner_text("#title") == "Squares <b>"
    assert page.inner_text("#count") == "42 photographs"
    for nth in range(3):
        card = page.locator(".card").nth(nth)
        photo = made.index["names"].index(card.locator(".file").inner_text())
        tags = [made.index["classes"][k]["name"] for k in made.index["tags"][photo]]
        assert card.locator(".name").all_inner_texts() == tags[:3]
        for row in card.locator(".tag").all():
            width = row.locator(".fill").evaluate("e => parseFloat(e.style.width) / 100")
            assert abs(width - float(row.locator(".value").inner_text())) < 0.0101
    assert page.evaluate("document.querySelector('.card img').naturalWidth") > 0


def test_filter_by_class_and_by_text(page: Page, made: Made) -> None:
    page.click(".facet:has-text('red')")
    page.click(".facet:has-text('blue')")
    both = [
        name
        for name, tags in zip(made.index["names"], made.index["tags"], strict=True)
        if {0, 2} <= set(tags)
    ]
    assert 0 < len(both) < 42
    assert sorted(names_shown(page)) == sorted(both)
    assert page.inner_text("#count") == f"{len(both)} of 42 photographs"
    page.go_back()
    page.wait_for_timeout(40)
    assert len(names_shown(page)) > len(both)
    page.click("#chosen button")
    page.fill("#query", "more/0 GREEN")
    shown = names_shown(page)
    assert shown
    assert all(name.startswith("more/0") for name in shown)
    page.fill("#query", "nothing like this")
    settle(page)
    assert page.is_visible("#nothing")
    page.click("#clear")
    settle(page)
    assert page.inner_text("#count") == "42 photographs"


def test_sort_by_confidence_and_by_uncertainty(page: Page, made: Made) -> None:
    flat = np.frombuffer(base64.b64decode(made.index["scores"]), "<u2") / made.index["levels"]
    scores = flat.reshape(42, -1)

    def shown_first() -> np.ndarray:
        return np.array([made.index["names"].index(name) for name in names_shown(page)])

    top = scores[shown_first()].max(1)
    assert (np.diff(top) <= 0).all()
    page.select_option("#sort", "doubtful")
    away = np.abs(scores - 0.5).min(1)
    assert (np.diff(away[shown_first()]) >= 0).all()
    assert away[shown_first()][0] == away.min()
    page.click(".facet:has-text('green')")
    assert (np.diff(np.abs(scores[shown_first(), 1] - 0.5)) >= 0).all()
    page.select_option("#sort", "name")
    assert names_shown(page) == sorted(names_shown(page))


def test_heatmaps_of_all_kinds(page: Page, made: Made) -> None:
    open_photo(page, "003.png")  # a red and a blue square side by side
    page.click("#viewer-scores [data-class='0']")
    page.wait_for_selector("#heat:not([hidden])")
    seen = {}
    for kind in ("Fused", "Text", "Learned", "Difference"):
        page.click(f"#kinds >> text={kind}")
        assert page.get_attribute("#kinds [aria-pressed=true]", "data-kind") == kind.lower()
        seen[kind] = heat_pixels(page)
        assert seen[kind].shape[0] == 320 or seen[kind].shape[1] == 320
    assert not np.array_equal(seen["Text"], seen["Learned"])
    with Image.open(made.photos / "more" / "003.png") as picture:
        scaled = picture.convert("RGB").resize(seen["Text"].shape[1::-1], Image.Resampling.BOX)
    colors = np.asarray(scaled, int)
    red = (colors[..., 0] > 200) & (colors[..., 1] < 90) & (colors[..., 2] < 90)
    inside = seen["Text"][..., 0] != 128  # grey where the encoder did not look
    heat = seen["Text"][..., 3].astype(float)
    assert heat[red & inside].mean() > 1.5 * heat[~red & inside].mean()
    page.click("#kinds >> text=Photo")
    assert page.is_hidden("#heat")


def test_cells_of_the_bank(page: Page, made: Made) -> None:
    photo, _ = made.index["classes"][0]["patches"][0]
    go(page, f"#/photos?photo={photo}&show=0")
    page.wait_for_selector("#bank-label:not([hidden])")
    page.check("#bank")
    bank = data_of(made.folder, f"maps-{photo // 32}")["photos"][photo % 32]["bank"]["0"]
    assert page.locator("#cells rect").count() == len(bank)


def test_keyboard(page: Page) -> None:
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "query"
    page.fill("#query", "png")
    settle(page)
    page.locator(".card").first.focus()
    columns = page.evaluate(
        "getComputedStyle(document.getElementById('cards')).gridTemplateColumns.split(' ').length"
    )
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("Number(document.activeElement.dataset.place)") == columns + 1
    page.keyboard.press("Enter")
    page.wait_for_selector("#heat:not([hidden])")
    before = page.inner_text("#viewer-name")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "name => document.getElementById('viewer-name').innerText !== name", arg=before
    )
    chosen = "#viewer-scores [aria-pressed=true]"
    first = page.get_attribute(chosen, "data-class")
    page.keyboard.press("ArrowDown")
    assert page.get_attribute(chosen, "data-class") != first
    page.keyboard.press("4")
    assert page.get_attribute("#kinds [aria-pressed=true]", "data-kind") == "learned"
    page.keyboard.press("Escape")
    page.wait_for_selector("#viewer", state="hidden")
    assert page.evaluate("Number(document.activeElement.dataset.place)") == columns + 2
    assert page.input_value("#query") == "png"


def test_pages_of_classes(page: Page, made: Made) -> None:
    page.click("nav >> text=Classes")
    settle(page)
    assert page.locator(".class-card").count() == 4
    page.click(".class-card:has(strong:text-is('red'))")
    settle(page)
    assert page.inner_text("#class h2") == "red"
    tiles = page.locator(".block").filter(has=page.locator("h3:text-is('Most certain')"))
    values = [float(text) for text in tiles.locator(".value").all_inner_texts()]
    assert values == sorted(values, reverse=True)
    doubtful = page.locator(".block").filter(has=page.locator("h3:text-is('Most doubtful')"))
    away = [abs(float(text) - 0.5) for text in doubtful.locator(".value").all_inner_texts()]
    assert all(second > first - 0.02 for first, second in pairwise(away))
    assert page.locator(".patch").count() == len(made.index["classes"][0]["patches"])
    page.locator(".patch").first.scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('.patch img').naturalWidth === 96")
    page.locator(".patch").first.click()
    page.wait_for_selector("#heat:not([hidden])")
    page.click("#close")
    page.wait_for_selector("#viewer", state="hidden")
    assert page.inner_text("#class h2") == "red"


def test_charts(page: Page, made: Made) -> None:
    page.click("nav >> text=Charts")
    settle(page)
    tags = made.index["tags"]
    counts = {row["name"]: sum(k in t for t in tags) for k, row in enumerate(made.index["classes"])}
    bars = page.locator(".bars").first.locator("li")
    for bar in bars.all():
        text = bar.locator(".value").inner_text().split()[0]
        assert int(text) == counts[bar.locator(".name").inner_text()]
    both = sum({0, 2} <= set(t) for t in tags)
    cell = page.locator("td a[aria-label^='red and blue']")
    assert cell.inner_text() == str(both)
    assert "broken.jpg" in page.inner_text(".skipped")
    cell.click()
    settle(page)
    assert page.inner_text("#count") == f"{both} of 42 photographs"


def test_names_cannot_run_code(browser: Browser, made: Made) -> None:
    with browser.visit(made.summary.page) as page:
        page.on("dialog", lambda dialog: pytest.fail(f"a name ran as code: {dialog.message}"))
        page.fill("#query", "onerror")
        assert names_shown(page) == [HOSTILE_FILE]
        open_photo(page, "onerror")
        assert page.inner_text("#viewer-name") == HOSTILE_FILE
        page.keyboard.press("Escape")
        go(page, "#/class/3")
        assert page.inner_text("#class h2") == HOSTILE_CLASS
        go(page, "#/charts")
        assert page.locator("img[src='x'], #main script").count() == 0


def test_the_policy_forbids_code_in_the_page(browser: Browser, made: Made) -> None:
    with browser.visit(made.summary.page, allow=("Content Security Policy",)) as page:
        page.evaluate(
            """() => { const s = document.createElement("script"); s.textContent = "window.ran = 1";
            document.body.append(s); const i = document.createElement("img");
            i.setAttribute("onerror", "window.ran = 2"); i.src = "http://127.0.0.1:9/";
            document.body.append(i); }"""
        )
        page.wait_for_timeout(100)
        assert page.evaluate("window.ran") is None


def test_addresses_that_lead_nowhere_show_the_gallery(page: Page) -> None:
    for address in ("#/class/99", "#/nowhere", "#/photos?photo=999&tags=x,7,&sort=z"):
        go(page, address)
        assert page.inner_text("#count") == "42 photographs"
        assert page.is_hidden("#viewer")


def test_dark_and_light(browser: Browser, made: Made) -> None:
    def background(page: Page) -> float:
        color = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in color[4:-1].split(",")) / 3

    with browser.visit(made.summary.page, scheme="dark") as page:
        assert background(page) < 40
        page.click("#theme")
        assert background(page) > 220
        page.reload()
        assert background(page) > 220  # it is remembered


def test_phones_do_not_scroll_sideways(browser: Browser, made: Made) -> None:
    with browser.visit(made.summary.page, width=360, height=740, has_touch=True) as page:
        for address in ADDRESSES:
            go(page, address)
            for element in ("document.documentElement", "document.getElementById('panel')"):
                assert page.evaluate(f"{element}.scrollWidth <= {element}.clientWidth"), address


def test_everything_that_can_be_pressed_has_a_name(page: Page) -> None:
    unnamed = """() => [...document.querySelectorAll("a, button, input, select, canvas, svg[role=img]")]
        .filter(e => e.offsetParent !== null || e.tagName === "svg")
        .filter(e => e.getAttribute("aria-hidden") !== "true")
        .filter(e => !(e.getAttribute("aria-label") || e.labels?.[0]?.innerText || e.innerText || "").trim())
        .map(e => e.outerHTML.slice(0, 80))"""
    for address in ADDRESSES:
        go(page, address)
        assert page.evaluate(unnamed) == []
        assert page.locator("img:not([alt])").count() == 0


def test_maps_are_drawn_as_python_draws_them(page: Page) -> None:
    size, grid = (60, 90), (4, 5)
    rng = np.random.default_rng(0)
    for fit in ("crop", "pad", "tiles"):
        placements = [place(size, (64, 64), "crop" if fit == "tiles" else fit)]
        if fit == "tiles":
            for box in Tiles(2, 2).boxes(*size)[1:]:
                inner = (box[2] - box[0], box[3] - box[1])
                placements.append(place(inner, (64, 64), "squash").inside(box, size))
        values = rng.random(len(placements) * 20).astype(np.float32)
        expected = on_image(torch.from_numpy(values), grid, placements).numpy()
        boxes = [[e / n for e, n in zip(p.box, size * 2, strict=True)] for p in placements]
        drawn = page.evaluate(
            "([v, g, b, h, w]) => [...piaa.heat.onImage(v, g, b, h, w)].map(x => isNaN(x) ? null : x)",
            [values.tolist(), list(grid), boxes, *size],
        )
        got = np.array([np.nan if v is None else v for v in drawn]).reshape(size)
        assert np.array_equal(np.isnan(got), np.isnan(expected))
        assert np.nanmax(np.abs(got - expected)) < 1e-5


def test_zero_shot_report_of_one_photograph(browser: Browser, tmp_path: Path) -> None:
    squares(1, ["red"]).save(tmp_path / "a.png")
    recognizer = Recognizer(ColorEncoder(), CLASSES)
    summary = write_report(recognizer, tmp_path / "a.png", tmp_path / "out")
    with browser.visit(summary.page.as_uri() + "#/photos?photo=0") as page:
        page.wait_for_selector("#heat:not([hidden])")
        assert page.locator("#kinds button").all_inner_texts() == ["Photo", "Text"]
        page.click("#close")
        for address in ("#/class/1", "#/charts"):
            go(page, address)
        assert "zero-shot" in page.inner_text("#facts")
