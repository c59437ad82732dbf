from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from piaa.errors import InputError, UnknownNameError
from piaa.images import Tiles
from piaa.images.placement import Fit, place

tilings = st.builds(
    Tiles, st.integers(1, 5), st.integers(2, 5), overlap=st.floats(0, 0.9) | st.just(0)
)


@given(tilings, st.integers(1, 300), st.integers(1, 300))
def test_windows_are_inside_and_cover(tiles: Tiles, height: int, width: int) -> None:
    whole, *windows = tiles.boxes(height, width)
    assert whole == (0, 0, height, width)
    assert len(windows) == tiles.rows * tiles.columns == len(tiles) - 1
    covered = np.zeros((height, width), dtype=bool)
    for top, left, bottom, right in windows:
        assert 0 <= top < bottom <= height
        assert 0 <= left < right <= width
        covered[top:bottom, left:right] = True
    assert covered.all()
    # One size for all, so that things are magnified alike everywhere.
    assert len({(bottom - top, right - left) for top, left, bottom, right in windows}) == 1


@given(tilings, st.integers(500, 5000), st.integers(500, 5000))
def test_neighbors_share_what_was_asked(tiles: Tiles, height: int, width: int) -> None:
    first, second = tiles.boxes(height, width)[1:3]
    side = first[3] - first[1]
    assert first[3] - second[1] == pytest.approx(tiles.overlap * side, abs=2)


def test_default_as_documented() -> None:
    windows = Tiles().boxes(700, 1400)[1:]
    assert windows[0] == (0, 0, 400, 800)  # 1.75 times as large
    assert windows[3] == (300, 600, 700, 1400)  # 1/7 in common


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": 0},
        {"columns": 2.0},
        {"rows": True},
        {"rows": 1, "columns": 1},
        {"overlap": -0.1},
        {"overlap": 1.0},
        {"overlap": float("nan")},
        {"overlap": "half"},
    ],
)
def test_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"[Tt]iles"):
        Tiles(**wrong)


def test_no_pixels() -> None:
    with pytest.raises(InputError, match="0 x 5"):
        Tiles().boxes(0, 5)


def test_json_round_trip() -> None:
    tiles = Tiles(3, 1, overlap=0)
    assert Tiles.from_dict(json.loads(json.dumps(tiles.to_dict()))) == tiles
    with pytest.raises(UnknownNameError, match="Did you mean 'rows'"):
        Tiles.from_dict({"row": 2})


@given(st.sampled_from(("crop", "squash", "pad")), st.floats(0, 32), st.floats(0, 32))
def test_placement_inside_a_larger_picture_is_a_shift(fit: Fit, row: float, column: float) -> None:
    cut = place((50, 70), (32, 32), fit)
    within = cut.inside((10, 20, 60, 90), (100, 200))
    there = cut.to_original(row, column)
    assert within.to_original(row, column) == pytest.approx((there[0] + 10, there[1] + 20))
    assert within.original_size == (100, 200)
    assert within.to_canvas(*within.to_original(row, column)) == pytest.approx((row, column))


@pytest.mark.parametrize("box", [(0, 0, 50, 71), (-1, 0, 49, 70), (60, 0, 110, 70)])
def test_placement_inside_needs_a_box_of_its_size_inside(box: tuple[int, int, int, int]) -> None:
    with pytest.raises(InputError, match="cut out"):
        place((50, 70), (32, 32), "squash").inside(box, (100, 200))
