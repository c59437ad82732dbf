"""Names that are nowhere in the photographs are dropped; those that are there are learnt again."""

from __future__ import annotations

from fake_encoder import ColorEncoder, squares
from piaa import Recognizer
from piaa.demo.learning import learn_what_is_there

PRESENT, ABSENT = ["red", "green", "blue"], ["cyan", "magenta", "yellow", "white"]


def collection() -> tuple[list[object], list[set[str]]]:
    shown = [
        [PRESENT[i % 3]] if i % 2 else [PRESENT[i % 3], PRESENT[(i + 1) % 3]] for i in range(36)
    ]
    return [squares(i, colors) for i, colors in enumerate(shown)], list(map(set, shown))


def test_only_what_is_there_is_left_and_found() -> None:
    pictures, truth = collection()
    recognizer = Recognizer(ColorEncoder(), [*PRESENT, *ABSENT])
    learned = learn_what_is_there(recognizer, pictures)
    assert learned.recognizer.classes.names == tuple(PRESENT)
    assert learned.first_report.n_images == 36
    assert len(learned.first_report.classes) == 7
    found = [{n for n, _ in p.tags} for p in learned.recognizer.predict(pictures)]
    assert sum(a == b for a, b in zip(found, truth, strict=True)) >= 30


def test_names_can_be_kept() -> None:
    pictures, _ = collection()
    recognizer = Recognizer(ColorEncoder(), {name: [f"very {name}"] for name in PRESENT + ABSENT})
    learned = learn_what_is_there(recognizer, pictures, also=["magenta"])
    kept = learned.recognizer.classes
    assert kept.names == (*PRESENT, "magenta")
    assert kept.phrases[3] == ("magenta", "very magenta")
