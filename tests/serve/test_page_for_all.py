"""The page for all: by screen reader, at every width, in light and dark, with a token, for real."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pages import expect, opened, photo, pick, tag
from servers import TOKEN, Served, running

from browsing import Browser
from piaa import Recognizer
from piaa.encoders.base import Encoder
from piaa.serve.limits import Limits

if TYPE_CHECKING:
    from playwright.sync_api import Locator


def test_a_screen_reader_finds_names_for_everything(browser: Browser, served: Served) -> None:
    with opened(browser, served) as page:
        pick(page, "red.jpg")
        expect(tag(page, "red.jpg", "red")).to_be_visible()
        expect(page.get_by_role("main")).to_have_count(1)
        expect(page.get_by_role("slider", name="Threshold")).to_be_visible()
        expect(page.get_by_role("img", name="Photograph red.jpg")).to_be_visible()
        expect(page.get_by_role("list", name="Photographs")).to_be_visible()
        where = re.compile(r"red, score 0\.\d\d\. Show where")
        expect(page.get_by_role("button", name=where)).to_be_visible()
        for role in ("button", "textbox", "checkbox", "radio", "slider"):
            for each in page.get_by_role(role).all():
                name = each.evaluate(
                    "e => e.ariaLabel || e.textContent.trim() || e.labels?.[0]?.textContent"
                    " || document.getElementById(e.getAttribute('aria-labelledby'))?.textContent"
                )
                assert name, each


@pytest.mark.parametrize(
    ("width", "scheme"), [(390, "light"), (390, "dark"), (820, "light"), (1440, "dark")]
)
def test_it_fits_and_can_be_read(browser: Browser, served: Served, width: int, scheme: Any) -> None:
    with opened(browser, served, width=width, scheme=scheme) as page:
        pick(page)
        expect(page.locator("#progress")).to_contain_text("3 photographs,")
        widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1]
        for selector in (
            ".tag:not(.below) .label",
            ".tag.below .label",
            "#model",
            ".score",
            "#change",
        ):
            assert contrast(page.locator(selector).first) >= 4.5, selector
        small = page.locator(".photos button").evaluate_all(
            "all => all.filter(e => e.getBoundingClientRect().height < 24).length"
        )
        assert small == 0  # WCAG 2.2, target size


def contrast(element: Locator) -> float:
    """Of an element's text against the first background behind it (WCAG 2)."""
    colors = element.evaluate(
        """(element) => {
          const color = getComputedStyle(element).color;
          let behind = element, back = "rgba(0, 0, 0, 0)";
          while (behind && back === "rgba(0, 0, 0, 0)") {
            back = getComputedStyle(behind).backgroundColor;
            behind = behind.parentElement;
          }
          return [color, back].map((text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number));
        }"""
    )

    def luminance(rgb: list[float]) -> float:
        linear = [
            c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4
            for c in (channel / 255 for channel in rgb)
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted(map(luminance, colors))
    return (high + 0.05) / (low + 0.05)


def test_a_service_with_a_token_asks_for_it(browser: Browser, guarded: Served) -> None:
    with browser.visit(guarded.url, allow=("401", "404")) as page:
        page.get_by_label("The token it was started with").fill("wrong")
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_text("That was not it")).to_be_visible()
        page.get_by_label("The token it was started with").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.locator("#model")).to_have_text("2 labels, zero-shot, colors")
        pick(page, "red.jpg")
        expect(tag(page, "red.jpg", "red")).to_be_visible()
        tag(page, "red.jpg", "red").hover()  # nothing is remembered: it is sent again
        expect(photo(page, "red.jpg").locator("canvas")).to_be_visible()


def test_real_photographs_with_the_embedded_encoder(
    lite: Encoder, browser: Browser, tmp_path: Path
) -> None:
    from PIL import Image
    from sklearn.datasets import load_sample_images

    samples = load_sample_images()
    for name, pixels in zip(("china", "flower"), samples.images, strict=True):
        Image.fromarray(pixels).save(tmp_path / f"{name}.jpg")
    recognizer = Recognizer(lite, ["flower", "palace", "dog", "car", "fish"])
    with running(recognizer, Limits(decoders=1)) as real, opened(browser, real) as page:
        page.set_input_files("#files", [tmp_path / "china.jpg", tmp_path / "flower.jpg"])
        best = photo(page, "flower.jpg").locator(".tag .label").first
        expect(best).to_have_text("flower", timeout=20_000)
        expect(photo(page, "china.jpg").locator(".tag .label").first).to_have_text("palace")
        photo(page, "flower.jpg").locator(".tag").first.hover()
        expect(photo(page, "flower.jpg").locator("canvas")).to_be_visible(timeout=20_000)
        page.get_by_text("My own").click()
        page.fill("#names-a", "temple, bicycle, keyboard")
        expect(photo(page, "china.jpg").locator(".tag .label").first).to_have_text(
            "temple", timeout=20_000
        )
