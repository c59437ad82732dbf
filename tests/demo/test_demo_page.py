"""The page of the demo: plain in its source, right in a browser."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from PIL import Image

from browsing import Browser
from piaa.classes.class_list import ClassList
from piaa.demo.cards import guesses
from piaa.demo.page import MOST_TAGS, Card, ShownTag, make_page
from piaa.prediction import make_prediction


def jpeg(color: tuple[int, int, int]) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (60, 40), color).save(buffer, "JPEG")
    return buffer.getvalue()


GREY, RED, BLUE = jpeg((90, 90, 90)), jpeg((250, 0, 0)), jpeg((0, 0, 250))


def card(**changes: object) -> Card:
    tags = [ShownTag("cat", 0.91, True, RED), ShownTag("dog", 0.62, True, BLUE)]
    return Card(**{"title": "a.jpg", "photo": GREY, "tags": tags} | changes)  # type: ignore[arg-type]


def page(*cards: Card, notes: Sequence[str] = ("A note.",)) -> str:
    return make_page("What piaa sees", lead=["Two."], cards=cards, notes=notes)


def write(folder: Path, *cards: Card) -> Path:
    path = folder / "index.html"
    path.write_text(page(*cards), encoding="utf-8")
    return path


def shown_at(page: object, number: int) -> str:
    """`alt` of the image on top of a card's stage."""
    return page.evaluate(  # type: ignore[attr-defined,no-any-return]
        """number => [...document.querySelectorAll('.card')[number].querySelectorAll('.stage img')]
            .filter(image => getComputedStyle(image).opacity === '1').at(-1).alt""",
        number,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_click_on_a_name_shows_where_it_is(browser: Browser, tmp_path: Path, scheme: str) -> None:
    path = write(tmp_path, card(), card(title="b.jpg"))
    with browser.visit(path, scheme=scheme, reduced_motion="reduce") as page:  # type: ignore[arg-type]
        assert page.title() == "What piaa sees"
        assert [shown_at(page, n) for n in (0, 1)] == [
            "where cat is in a.jpg",
            "where cat is in b.jpg",
        ]
        first = page.locator(".card").first
        first.get_by_text("dog").click()
        assert shown_at(page, 0) == "where dog is in a.jpg"
        assert shown_at(page, 1) == "where cat is in b.jpg"
        first.get_by_text("photo", exact=True).click()
        assert shown_at(page, 0) == "a.jpg"
        page.keyboard.press("ArrowRight")
        assert shown_at(page, 0) == "where cat is in a.jpg"
        assert page.evaluate("[...document.images].every(image => image.naturalWidth === 60)")
        wide = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert wide
    assert (background == "rgb(250, 249, 247)") == (scheme == "light")


def test_fits_a_telephone(browser: Browser, tmp_path: Path) -> None:
    long = card(title="a_very_long_name_of_a_file_without_any_space_in_it" * 3 + ".jpg")
    with browser.visit(write(tmp_path, long), width=360, height=700) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_every_heatmap_that_a_card_can_have_is_reachable(browser: Browser, tmp_path: Path) -> None:
    tags = [ShownTag(f"tag {n}", 0.9, True, RED) for n in range(MOST_TAGS)]
    with browser.visit(write(tmp_path, card(tags=tags)), reduced_motion="reduce") as page:
        for tag in tags:
            page.get_by_text(tag.name).click()
            assert shown_at(page, 0) == f"where {tag.name} is in a.jpg"


def test_what_fitting_changed() -> None:
    html = page(card(before=[("cat", 0.6), ("cow", 0.5)], more=["horse"]))
    assert 'class="chip new" for="p0-2"' in html
    assert 'class="chip" for="p0-1"' in html
    assert "before fitting: cat, <del>cow</del>" in html
    assert "and horse" in html
    assert "before fitting: no tag" in page(card(before=[]))
    assert "before fitting" not in page(card())


def test_guesses_say_that_they_are() -> None:
    html = page(card(tags=[ShownTag("cat", 0.3, False, RED)]))
    assert 'class="chip guess" for="p0-1"' in html
    assert "these are guesses" in html
    assert "these are guesses" not in page(card())


def test_names_are_text_and_not_markup() -> None:
    evil = '<script>"$cards&'
    html = page(
        card(title=evil, tags=[ShownTag(evil, 0.9, True, RED)], credit=evil, before=[(evil, 0.9)])
    )
    assert "<script" not in html
    assert html.count("&lt;script&gt;&quot;$cards&amp;") >= 4


def test_nothing_is_loaded_from_elsewhere() -> None:
    html = page(card())
    for reference in ("http", "<script", "<link", "@import", "url("):
        assert reference not in html


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.9, 0.4, 0.3, 0.2], []),
        ([0.4, 0.3, 0.05, 0.2], ["a", "b", "d"]),
        ([0.04, 0.03, 0.05, 0.02], ["c"]),
    ],
)
def test_guesses_only_without_a_tag(scores: list[float], expected: list[str]) -> None:
    classes = ClassList.of(["a", "b", "c", "d"])
    prediction = make_prediction(torch.tensor(scores), classes, threshold=0.5, top_k=None)
    assert [name for name, _ in guesses(prediction)] == expected
