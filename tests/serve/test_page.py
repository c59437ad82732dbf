"""The page in a real browser, through everything a person does on it.

The `browser` fixture fails a test on console errors and on requests that leave the machine.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pages import PHOTOS, as_sent, expect, opened, payload, photo, pick, tag, tags
from servers import Served, jpeg

from browsing import Browser
from piaa import Recognizer

if TYPE_CHECKING:
    from playwright.sync_api import Locator


def test_picked_photographs_get_their_tags(
    browser: Browser, served: Served, recognizer: Recognizer
) -> None:
    with opened(browser, served) as page:
        expect(page.locator("#model")).to_have_text("3 labels, learnt from 30 photographs, colors")
        pick(page)
        expect(page.locator("#progress")).to_contain_text("3 photographs,")
        expected = recognizer.predict([as_sent(name) for name in PHOTOS])
        for name, prediction in zip(PHOTOS, expected, strict=True):
            assert tags(page, name) == [label for label, _ in prediction.tags]
        score = dict(expected[0].tags)["red"]
        expect(tag(page, "red.jpg", "red").locator(".score")).to_have_text(f"{score:.2f}")
        meter = tag(page, "red.jpg", "red").locator(".meter")
        drawn = meter.evaluate("e => getComputedStyle(e).getPropertyValue('--score')")
        assert float(drawn) == pytest.approx(score, abs=1e-6)
        page.get_by_role("button", name="Remove red.jpg").click()
        expect(page.locator(".photo")).to_have_count(2)
        page.get_by_role("button", name="Remove all").click()
        expect(page.locator(".photo")).to_have_count(0)


TRANSFER = """(kind, files) => {
  const data = new DataTransfer();
  for (const [name, content] of files) {
    const bytes = Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
    data.items.add(new File([bytes], name, { type: "image/jpeg" }));
  }
  const options = { bubbles: true, cancelable: true };
  if (kind === "paste") {
    document.dispatchEvent(new ClipboardEvent("paste", { ...options, clipboardData: data }));
  } else {
    for (const step of ["dragenter", "dragover", "drop"]) {
      document.body.dispatchEvent(new DragEvent(step, { ...options, dataTransfer: data }));
    }
  }
}"""


@pytest.mark.parametrize("kind", ["drop", "paste"])
def test_dropped_and_pasted_photographs(browser: Browser, served: Served, kind: str) -> None:
    files = [(name, base64.b64encode(jpeg(image)).decode()) for name, image in PHOTOS.items()]
    with opened(browser, served) as page:
        page.evaluate(f"([kind, files]) => ({TRANSFER})(kind, files)", [kind, files])
        expect(page.locator("#progress")).to_contain_text("3 photographs,")
        assert "red" in tags(page, "red.jpg")


def test_pointing_at_a_tag_shows_where_it_is(
    browser: Browser, served: Served, recognizer: Recognizer
) -> None:
    with opened(browser, served) as page:
        pick(page, "red.jpg")
        canvas = photo(page, "red.jpg").locator("canvas")
        expect(canvas).to_be_hidden()
        tag(page, "red.jpg", "red").hover()
        expect(canvas).to_be_visible()
        expect(canvas).to_have_attribute("data-shows", "fused red")
        expect(page.locator("#said")).to_contain_text("red is likeliest")
        assert hottest(canvas) == pytest.approx(place(recognizer, "red.jpg", "red"), abs=0.13)
        for kind in ("text", "learned"):
            page.locator(f"[name=kind][value={kind}]").check(force=True)
            tag(page, "red.jpg", "red").hover()
            expect(canvas).to_have_attribute("data-shows", f"{kind} red")
        page.mouse.move(0, 0)
        expect(canvas).to_be_hidden()


def hottest(canvas: Locator) -> tuple[float, float]:
    """Where on the photograph the brightest point of the heatmap is, as shares of its sides."""
    found = canvas.evaluate(
        """(canvas) => {
          const { width, height } = canvas;
          const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
          let total = 0, x = 0, y = 0;
          for (let i = 0; i < width * height; i++) {
            const weight = Math.max(0, data[4 * i + 1] - 200); // green is high in pale yellow only
            total += weight; x += weight * (i % width); y += weight * Math.floor(i / width);
          }
          const box = canvas.getBoundingClientRect();
          const frame = canvas.parentElement.getBoundingClientRect();
          return [(box.left + (x / total / width) * box.width - frame.left) / frame.width,
                  (box.top + (y / total / height) * box.height - frame.top) / frame.height];
        }"""
    )
    return found[0], found[1]


def place(recognizer: Recognizer, name: str, label: str) -> tuple[float, float]:
    """The same from the library: the middle of what is above nine tenths of the maximum."""
    (prediction,) = recognizer.predict([as_sent(name)])
    heat = prediction.image_heatmap(label).nan_to_num(0)
    rows, columns = (heat > 0.9 * heat.max()).nonzero(as_tuple=True)
    return (
        float(columns.float().mean()) / heat.shape[1],
        float(rows.float().mean()) / heat.shape[0],
    )


def test_tapping_pins_a_heatmap_and_the_keyboard_does_it_all(
    browser: Browser, served: Served
) -> None:
    with opened(browser, served, width=390, height=844, has_touch=True) as page:
        pick(page, "red.jpg")
        canvas = photo(page, "red.jpg").locator("canvas")
        red = tag(page, "red.jpg", "red")
        red.tap()
        expect(canvas).to_be_visible()
        expect(red).to_have_attribute("aria-pressed", "true")
        red.tap()
        expect(canvas).to_be_hidden()
        photo(page, "red.jpg").locator(".remove").focus()
        page.keyboard.press("Tab")
        expect(red).to_be_focused()
        expect(canvas).to_be_visible()  # focus shows it
        page.keyboard.press("Enter")
        page.keyboard.press("Shift+Tab")
        expect(canvas).to_be_visible()  # pinned
        page.keyboard.press("Tab")
        page.keyboard.press("Escape")
        expect(canvas).to_be_hidden()
        widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1]


def test_the_slider_shows_what_would_change(
    browser: Browser, served: Served, recognizer: Recognizer
) -> None:
    with opened(browser, served) as page:
        pick(page)
        expect(page.locator("#progress")).to_contain_text("3 photographs,")
        predicted = recognizer.predict([as_sent(name) for name in PHOTOS], threshold=0.0)
        scores = [score for prediction in predicted for _, score in prediction.tags]
        n_own = sum(score >= 0.5 for score in scores)
        for threshold in (0.99, 0.05):
            n_now = sum(score >= threshold for score in scores)
            page.locator("#threshold").fill(str(threshold))
            told = page.locator("#change").inner_text()
            assert told.startswith(f"{n_now} tag")
            word = "more" if n_now > n_own else "fewer"
            assert f"{abs(n_now - n_own)} {word} than at 0.50" in told
            css = "gained" if n_now > n_own else "lost"
            expect(page.locator(f".tag.{css}")).to_have_count(abs(n_now - n_own))
            changed = page.locator("#changes li").all_text_contents()
            assert sum(int(re.split(r"[+−]", text)[1]) for text in changed) == abs(n_now - n_own)
        page.get_by_role("button", name="Back to 0.50").click()
        expect(page.locator(".tag.gained, .tag.lost")).to_have_count(0)
        expect(page.locator("#threshold")).to_be_focused()


def test_typed_labels_give_zero_shot_tags_at_once(browser: Browser, served: Served) -> None:
    with opened(browser, served) as page:
        pick(page)
        expect(page.locator("#progress")).to_contain_text("3 photographs,")
        uploads: list[int] = []
        page.on("request", lambda r: uploads.append(len(r.post_data_buffer or b"")))
        page.get_by_text("My own").click()
        expect(page.locator("#names-a")).to_be_focused()
        page.keyboard.type("red")  # one alone is compared with things that are none of the labels
        expect(tag(page, "red.jpg", "red")).to_be_visible()
        page.keyboard.type(": crimson\ncyan, green")
        expect(tag(page, "green.jpg", "green")).to_be_visible()
        expect(tag(page, "red.jpg", "red")).to_be_visible()
        assert "green" in tags(page, "green.jpg")
        assert "blue" not in photo(page, "red.jpg").locator(".label").all_text_contents()
        assert max(uploads) < 1000  # the photographs were not sent again
        expect(page.locator("[name=kind][value=learned]")).to_be_disabled()
        tag(page, "green.jpg", "green").hover()
        expect(photo(page, "green.jpg").locator("canvas")).to_be_visible()


def test_labels_that_look_alike_are_remarked_on(browser: Browser, served: Served) -> None:
    with opened(browser, served, allow=("422",)) as page:
        pick(page, "red.jpg")
        page.get_by_text("My own").click()
        page.fill("#names-a", "red, reds")
        expect(page.locator("#note-a")).to_contain_text("may mean the same thing")
        page.fill("#names-a", "red, Red")
        expect(page.locator("#note-a")).to_contain_text("is there twice")


def test_two_lists_side_by_side(browser: Browser, served: Served) -> None:
    with opened(browser, served) as page:
        pick(page)
        page.get_by_text("Compare with a second list").click()
        expect(page.locator("#names-b")).to_be_focused()
        page.fill("#names-b", "yellow, green, magenta")
        lists = photo(page, "green.jpg").locator(".lists section")
        expect(lists).to_have_count(2)
        expect(lists.nth(0).locator("h3")).to_have_text("The model’s 3 labels")
        expect(lists.nth(1).locator("h3")).to_have_text("Second list")
        expect(lists.nth(1).locator(".label", has_text="green")).to_be_visible()
        lists.nth(1).locator(".tag", has_text="green").click()
        canvas = photo(page, "green.jpg").locator("canvas")
        expect(canvas).to_have_attribute("data-shows", "fused green")


def test_results_as_csv_and_json(browser: Browser, served: Served) -> None:
    with opened(browser, served, accept_downloads=True) as page:
        expect(page.locator("#csv")).to_be_disabled()
        pick(page)
        expect(page.locator("#progress")).to_contain_text("3 photographs,")
        with page.expect_download() as download:
            page.get_by_role("button", name="Download CSV").click()
        assert download.value.suggested_filename == "tags.csv"
        text = Path(download.value.path()).read_text(encoding="utf-8")
        rows = list(csv.DictReader(io.StringIO(text)))
        assert list(rows[0]) == ["file", "list", "label", "score"]
        assert {(row["file"], row["label"]) for row in rows} == {
            (name, label) for name in PHOTOS for label in tags(page, name)
        }
        with page.expect_download() as download:
            page.get_by_role("button", name="Download JSON").click()
        content = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
        assert content["threshold"] == 0.5
        assert [each["file"] for each in content["photographs"]] == list(PHOTOS)
        first = content["photographs"][0]["lists"][0]["tags"]
        assert [each["name"] for each in first] == tags(page, "red.jpg")


def test_what_is_no_photograph_is_said_on_its_card(browser: Browser, served: Served) -> None:
    with opened(browser, served) as page:
        files = [payload("red.jpg")]
        files.append({"name": "notes.txt", "mimeType": "text/plain", "buffer": b"hello"})
        files.append({"name": "huge.jpg", "mimeType": "image/jpeg", "buffer": b"x" * 2**21})
        page.set_input_files("#files", files)
        expect(photo(page, "notes.txt").locator(".state")).to_contain_text("not a picture")
        expect(photo(page, "huge.jpg").locator(".state")).to_contain_text("the service takes")
        expect(tag(page, "red.jpg", "red")).to_be_visible()
