from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from piaa.images import Placement
from piaa.images.placement import Fit, place, scaling

sizes = st.tuples(st.integers(1, 6000), st.integers(1, 6000))
canvases = st.tuples(st.integers(1, 700), st.integers(1, 700))
fits = st.sampled_from(("crop", "squash", "pad"))
points = st.tuples(st.floats(-1e4, 1e4), st.floats(-1e4, 1e4))


@given(sizes, canvases, fits, points)
def test_there_and_back(
    original: tuple[int, int], canvas: tuple[int, int], fit: Fit, point: tuple[float, float]
) -> None:
    placement = place(original, canvas, fit)
    assert placement.to_original(*placement.to_canvas(*point)) == pytest.approx(point, abs=1e-6)
    # A whole canvas on less than a pixel of a thin picture magnifies rounding by that much.
    back = placement.to_canvas(*placement.to_original(*point))
    assert back == pytest.approx(point, abs=1e-5)


@given(sizes, canvases, fits)
def test_corners_of_the_canvas_are_the_box(
    original: tuple[int, int], canvas: tuple[int, int], fit: Fit
) -> None:
    placement = place(original, canvas, fit)
    top, left, bottom, right = placement.box
    assert placement.to_original(0.0, 0.0) == (top, left)
    assert placement.to_original(*map(float, canvas)) == pytest.approx((bottom, right))


@given(sizes, canvases)
def test_crop_stays_inside_and_covers(original: tuple[int, int], canvas: tuple[int, int]) -> None:
    placement = place(original, canvas, "crop")
    top, left, bottom, right = placement.box
    assert top >= 0
    assert left >= 0
    assert bottom <= original[0] * (1 + 1e-12)
    assert right <= original[1] * (1 + 1e-12)
    assert placement.content == (0, 0, *canvas)
    # One axis is kept whole, and both are scaled alike up to the rounding to whole pixels.
    assert math.isclose(bottom - top, original[0]) or math.isclose(right - left, original[1])
    size = scaling(original, canvas, "crop").size
    scale = max(canvas[0] / original[0], canvas[1] / original[1])
    assert abs(size[0] - scale * original[0]) < 1 + 1e-9
    assert abs(size[1] - scale * original[1]) < 1 + 1e-9


@given(sizes, canvases)
def test_squash_is_the_whole_picture(original: tuple[int, int], canvas: tuple[int, int]) -> None:
    placement = place(original, canvas, "squash")
    assert placement.box == (0.0, 0.0, *original)
    assert placement.content == (0, 0, *canvas)


@given(sizes, canvases)
def test_pad_shows_the_whole_picture_centered(
    original: tuple[int, int], canvas: tuple[int, int]
) -> None:
    placement = place(original, canvas, "pad")
    top, left, bottom, right = placement.content
    assert (bottom - top, right - left) == scaling(original, canvas, "pad").size
    assert 0 <= (canvas[0] - bottom) - top <= 1
    assert 0 <= (canvas[1] - right) - left <= 1
    assert bottom - top == canvas[0] or right - left == canvas[1]
    corner = placement.to_canvas(0.0, 0.0)
    assert corner == pytest.approx((top, left), abs=1e-6)


def test_tensors_of_coordinates() -> None:
    placement = Placement((100, 200), (50, 50), (0.0, 50.0, 100.0, 150.0))
    rows, columns = placement.to_original(torch.arange(3.0), torch.arange(3.0))
    assert rows.tolist() == [0, 2, 4]
    assert columns.tolist() == [50, 52, 54]
