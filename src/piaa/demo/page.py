"""One page with everything in it: photographs, tags, and a heatmap for each tag to click on."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import Final

MOST_TAGS: Final = 5
"""Tags a card has heatmaps for; what follows is only named."""


@dataclass(frozen=True)
class ShownTag:
    """A tag, or (below its threshold) a guess, with its overlay as JPEG."""

    name: str
    score: float
    sure: bool
    overlay: bytes


def spell_score(score: float, *, sure: bool) -> str:
    """Two digits; what falls short of its threshold by a hair does not read as if it had reached it.

    >>> spell_score(0.4996, sure=False), spell_score(0.4996, sure=True), spell_score(0.38, sure=False)
    ('0.49', '0.50', '0.38')
    """
    return f"{score if sure else min(score, 0.494):.2f}"


@dataclass(frozen=True)
class Card:
    """One photograph.

    Attributes:
        photo: JPEG.
        tags: at most `MOST_TAGS`, best first.
        more: names of further tags.
        before: tags before fitting; None if nothing was fitted.
        credit: whose photograph it is.
    """

    title: str
    photo: bytes
    tags: Sequence[ShownTag]
    more: Sequence[str] = ()
    before: Sequence[tuple[str, float]] | None = None
    credit: str = ""


def make_page(
    title: str, *, lead: Sequence[str], cards: Sequence[Card], notes: Sequence[str]
) -> str:
    """HTML without script and without any other file. All arguments are plain text."""
    template = Template(files("piaa").joinpath("data", "demo", "page.html").read_text("utf-8"))
    return template.substitute(
        title=escape(title),
        lead=_paragraphs(lead),
        notes=_paragraphs(notes),
        rules="\n".join(_rules(place) for place in range(1, MOST_TAGS + 2)),
        cards="\n".join(_card(number, card) for number, card in enumerate(cards)),
    )


def _paragraphs(texts: Sequence[str]) -> str:
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts)


def _rules(place: int) -> str:
    """A card's input at a place (from 1, the bare photograph) shows the image and marks the label there."""
    chosen = f".card > input:nth-of-type({place})"
    label = f"~ .text .chip:nth-of-type({place})"
    return (
        f"{chosen}:checked ~ .stage img:nth-of-type({place}) {{ opacity: 1; }}\n"
        f"{chosen}:checked {label} {{ border-color: var(--accent); "
        "box-shadow: inset 0 0 0 1px var(--accent); color: var(--ink); }\n"
        f"{chosen}:focus-visible {label} {{ outline: 2px solid var(--accent); outline-offset: 2px; }}"
    )


def _card(number: int, card: Card) -> str:
    keys = [f"p{number}-{place}" for place in range(len(card.tags) + 1)]
    first = keys[min(1, len(card.tags))]
    inputs = [
        f'<input type="radio" name="p{number}" id="{key}"{" checked" if key == first else ""}>'
        for key in keys
    ]
    images = [_image(card.photo, card.title)]
    images += [_image(tag.overlay, f"where {tag.name} is in {card.title}") for tag in card.tags]
    known = None if card.before is None else [name for name, _ in card.before]
    chips = [f'<label class="chip guess" for="{keys[0]}">photo</label>']
    chips += [_chip(key, tag, known) for key, tag in zip(keys[1:], card.tags, strict=True)]
    return (
        f'<article class="card">\n{"".join(inputs)}\n<div class="stage">{"".join(images)}</div>\n'
        f'<div class="text"><h2>{escape(card.title)}</h2><div class="chips">{"".join(chips)}</div>'
        f"{_remarks(card)}</div>\n</article>"
    )


def _image(jpeg: bytes, about: str) -> str:
    data = base64.b64encode(jpeg).decode("ascii")
    return f'<img src="data:image/jpeg;base64,{data}" alt="{escape(about)}">'


def _chip(key: str, tag: ShownTag, known: Sequence[str] | None) -> str:
    """A name to click on; marked as new if it is a tag that was not known before fitting."""
    kind = "chip" if tag.sure else "chip guess"
    if tag.sure and known is not None and tag.name not in known:
        kind += " new"
    return (
        f'<label class="{kind}" for="{key}" style="--score:{100 * tag.score:.0f}%">'
        f"{escape(tag.name)}<b>{spell_score(tag.score, sure=tag.sure)}</b></label>"
    )


def _remarks(card: Card) -> str:
    lines = []
    if card.more:
        lines.append(f'<p class="more">and {escape(", ".join(card.more))}</p>')
    if not any(tag.sure for tag in card.tags):
        lines.append('<p class="more">no name reaches its threshold; these are guesses</p>')
    if card.before is not None:
        now = {tag.name for tag in card.tags if tag.sure} | set(card.more)
        old = [
            escape(name) if name in now else f"<del>{escape(name)}</del>" for name, _ in card.before
        ]
        lines.append(f'<p class="before">before fitting: {", ".join(old) or "no tag"}</p>')
    if card.credit:
        lines.append(f'<p class="credit">photograph: {escape(card.credit)}</p>')
    return "".join(lines)
