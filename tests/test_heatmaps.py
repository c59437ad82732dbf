from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from piaa import heatmaps
from piaa.errors import InputError
from piaa.heatmaps import cell_boxes, fade, on_image, overlay
from piaa.images import Placement, Tiles
from piaa.images.placement import Fit, Size, place

CANVAS = (224, 224)
GRID = (14, 14)
SIZES = [(300, 420), (420, 300), (97, 250), (224, 224), (40, 33)]


def windows(size: Size, fit: Fit, tiles: Tiles | None) -> list[Placement]:
    placements = [place(size, CANVAS, fit)]
    for box in tiles.boxes(*size)[1:] if tiles else ():
        cut = (box[2] - box[0], box[3] - box[1])
        placements.append(place(cut, CANVAS, "squash").inside(box, size))
    return placements


def cell_centers(placement: Placement, grid: Size) -> tuple[torch.Tensor, torch.Tensor]:
    rows = (torch.arange(grid[0]) + 0.5) * placement.canvas_size[0] / grid[0]
    columns = (torch.arange(grid[1]) + 0.5) * placement.canvas_size[1] / grid[1]
    return placement.to_original(*torch.meshgrid(rows, columns, indexing="ij"))


def largest_cell(placements: list[Placement], grid: Size) -> tuple[float, float]:
    heights = [(p.box[2] - p.box[0]) / grid[0] for p in placements]
    widths = [(p.box[3] - p.box[1]) / grid[1] for p in placements]
    return max(heights), max(widths)


class TestOnImage:
    def test_one_squashed_window_is_bilinear_resizing(self) -> None:
        values = torch.rand(9 * 5, generator=torch.Generator().manual_seed(0))
        for size in SIZES:
            heat = on_image(values, (9, 5), [place(size, CANVAS, "squash")])
            expected = F.interpolate(values.view(1, 1, 9, 5), size=size, mode="bilinear")[0, 0]
            torch.testing.assert_close(heat, expected, atol=1e-5, rtol=0)

    @pytest.mark.parametrize("fit", ["crop", "pad"])
    def test_crop_and_pad_are_undone(self, fit: Fit) -> None:
        """At the canvas' own scale the map is the resized grid, cut or shifted."""
        values = torch.rand(196, generator=torch.Generator().manual_seed(1))
        canvas = F.interpolate(values.view(1, 1, *GRID), size=CANVAS, mode="bilinear")[0, 0]
        if fit == "crop":
            heat = on_image(values, GRID, [place((224, 300), CANVAS, fit)])
            assert heat[:, :38].isnan().all()
            assert heat[:, 262:].isnan().all()
            torch.testing.assert_close(heat[:, 38:262], canvas, atol=1e-5, rtol=0)
        else:
            heat = on_image(values, GRID, [place((224, 100), CANVAS, fit)])
            torch.testing.assert_close(heat, canvas[:, 62:162], atol=1e-5, rtol=0)

    @pytest.mark.parametrize("tiles", [None, Tiles(), Tiles(3, 2, overlap=0), Tiles(1, 4)])
    @pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
    @pytest.mark.parametrize("size", SIZES)
    def test_a_ramp_is_stitched_together(self, size: Size, fit: Fit, tiles: Tiles | None) -> None:
        def ramp(row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
            return 3 + 2 * row - 5 * column

        placements = windows(size, fit, tiles)
        values = torch.cat([ramp(*cell_centers(p, GRID)).flatten() for p in placements])
        heat = on_image(values, GRID, placements)
        pixels = torch.meshgrid(*(torch.arange(n) + 0.5 for n in size), indexing="ij")
        error = (heat - ramp(*pixels)).abs()
        # Half a cell from the border of all that was seen no cell's center lies further out.
        height, width = largest_cell(placements, GRID)
        seen = ~heat.isnan()
        assert seen.all() or (fit == "crop" and tiles is None)
        inside = seen.clone()
        down, across = int(np.ceil(height / 2)) + 1, int(np.ceil(width / 2)) + 1
        rows, columns = seen.any(1).nonzero().flatten(), seen.any(0).nonzero().flatten()
        inside[: int(rows[0]) + down] = False
        inside[int(rows[-1]) + 1 - down :] = False
        inside[:, : int(columns[0]) + across] = False
        inside[:, int(columns[-1]) + 1 - across :] = False
        one_cell = 2 * height + 5 * width
        assert inside.sum() > 0.4 * seen.sum()
        assert error[seen].max() <= 0.51 * one_cell
        if tiles and not tiles.overlap and fit == "crop":
            return  # windows that only touch, where the whole picture was cut off: half a cell
        assert error[inside].max() <= (0.06 * one_cell if tiles else 1e-3)
        # No seams: from pixel to pixel at most twice what the ramp itself rises.
        heat[~inside] = torch.nan
        assert heat.diff(dim=0).abs().nan_to_num(0).max() <= 2 * 2
        assert heat.diff(dim=1).abs().nan_to_num(0).max() <= 2 * 5

    @settings(max_examples=40, deadline=None)
    @given(
        st.tuples(st.integers(1, 24), st.integers(1, 24)),
        st.sampled_from(("crop", "squash", "pad")),
        st.tuples(st.integers(1, 4), st.integers(1, 4)),
        st.booleans(),
    )
    def test_against_a_loop_over_pixels(
        self, size: Size, fit: Fit, grid: Size, tiled: bool
    ) -> None:
        placements = windows(size, fit, Tiles() if tiled else None)
        n_values = len(placements) * grid[0] * grid[1]
        values = torch.rand(n_values, generator=torch.Generator().manual_seed(2))
        heat = on_image(values, grid, placements, unseen=-7)
        assert heat.dtype == torch.float32
        torch.testing.assert_close(
            heat, plain_on_image(values, grid, placements), atol=1e-4, rtol=0
        )

    def test_a_constant_stays_constant_and_values_stay_in_range(self) -> None:
        placements = windows((90, 130), "pad", Tiles(2, 3, overlap=0.4))
        n = len(placements) * 196
        assert on_image(torch.full((n,), 0.3), GRID, placements).sub(0.3).abs().max() < 1e-6
        heat = on_image(torch.rand(n, generator=torch.Generator().manual_seed(3)), GRID, placements)
        assert heat.min() >= 0
        assert heat.max() <= 1 + 1e-6

    def test_refused(self) -> None:
        one = place((30, 40), CANVAS, "crop")
        with pytest.raises(InputError, match="196 finite numbers"):
            on_image(torch.zeros(195), GRID, [one])
        with pytest.raises(InputError, match="1 that are not finite"):
            on_image(torch.tensor([0.0] * 195 + [torch.nan]), GRID, [one])
        with pytest.raises(InputError, match="Features of pixel tensors have none"):
            on_image(torch.zeros(196), GRID, [])
        with pytest.raises(InputError, match="windows of one picture"):
            on_image(torch.zeros(392), GRID, [one, place((40, 30), CANVAS, "crop")])


def plain_on_image(values: torch.Tensor, grid: Size, placements: list[Placement]) -> torch.Tensor:
    """`on_image` pixel by pixel, with -7 for what was not seen."""
    height, width = placements[0].original_size
    heat = torch.full((height, width), -7.0)
    for y in range(height):
        for x in range(width):
            total = weights = 0.0
            for k, placement in enumerate(placements):
                top, left, bottom, right = placement.box
                if not (top <= y + 0.5 < bottom and left <= x + 0.5 < right):
                    continue
                cells = values.view(len(placements), *grid)[k]
                row = (y + 0.5 - top) / (bottom - top) * grid[0]
                column = (x + 0.5 - left) / (right - left) * grid[1]
                weight = 1.0
                for at, n in ((row, grid[0]), (column, grid[1])):
                    weight *= min(1.0, max(1e-6, min(at, n - at)))
                row = min(max(row - 0.5, 0.0), grid[0] - 1.0)
                column = min(max(column - 0.5, 0.0), grid[1] - 1.0)
                r, c = int(row), int(column)
                r2, c2 = min(r + 1, grid[0] - 1), min(c + 1, grid[1] - 1)
                upper = cells[r, c] * (1 - (column - c)) + cells[r, c2] * (column - c)
                lower = cells[r2, c] * (1 - (column - c)) + cells[r2, c2] * (column - c)
                total += weight * float(upper * (1 - (row - r)) + lower * (row - r))
                weights += weight
            if weights:
                heat[y, x] = total / weights
    return heat


class TestCellBoxes:
    @pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
    @pytest.mark.parametrize("tiles", [None, Tiles(2, 3)])
    def test_cells_partition_what_a_window_shows(self, fit: Fit, tiles: Tiles | None) -> None:
        size = (300, 420)
        placements = windows(size, fit, tiles)
        boxes = cell_boxes((7, 5), placements)
        assert boxes.shape == (len(placements) * 35, 4)
        assert boxes.dtype == torch.float32
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        assert areas.min() >= 0
        for placement, area in zip(placements, areas.view(-1, 35).sum(1), strict=True):
            top, left, bottom, right = placement.box
            shown = (min(bottom, 300) - max(top, 0)) * (min(right, 420) - max(left, 0))
            assert float(area) == pytest.approx(shown, rel=1e-5)

    def test_in_the_order_of_the_patches(self) -> None:
        placements = windows((300, 420), "crop", Tiles())
        boxes = cell_boxes((7, 5), placements)
        rows, columns = zip(*(cell_centers(p, (7, 5)) for p in placements), strict=True)
        centers = torch.stack([(boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2])
        expected = torch.stack([torch.stack(rows).flatten(), torch.stack(columns).flatten()])
        torch.testing.assert_close(centers, expected, atol=1e-3, rtol=0)

    def test_cells_of_the_padding_have_no_area(self) -> None:
        boxes = cell_boxes((4, 4), [place((100, 200), CANVAS, "pad")])
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        assert areas.view(4, 4)[[0, 3]].sum() == 0
        assert (areas.view(4, 4)[1:3] == 2500).all()


def picture(rows: int = 40, columns: int = 60) -> Image.Image:
    rng = np.random.default_rng(0)
    return Image.fromarray(rng.integers(0, 256, (rows, columns, 3), dtype=np.uint8))


class TestOverlay:
    def test_mixes_colors_and_leaves_nan(self) -> None:
        heat = torch.zeros(40, 60)
        heat[:20] = 1
        heat[:, 30:] = torch.nan
        before, after = np.asarray(picture()).astype(float), np.asarray(overlay(picture(), heat))
        assert (after[:, 30:] == before[:, 30:]).all()
        high, low = np.array(heatmaps.COLORS[-1]), np.array(heatmaps.COLORS[0])
        assert np.abs(after[:20, :30] - (before[:20, :30] + high) / 2).max() <= 1
        assert np.abs(after[20:, :30] - (before[20:, :30] + low) / 2).max() <= 1

    def test_limits_and_alpha(self) -> None:
        heat = torch.linspace(-1, 2, 2400).view(40, 60)
        colors = np.asarray(overlay(picture(), heat, alpha=1, limits=(0.0, 1.0)))
        assert (colors[:13] == heatmaps.COLORS[0]).all()  # below the limits
        assert (colors[27:] == heatmaps.COLORS[-1]).all()
        assert np.array_equal(overlay(picture(), heat, alpha=0), picture())
        flat = np.asarray(overlay(picture(), torch.full((40, 60), 0.4), alpha=1))
        assert (flat == heatmaps.COLORS[0]).all()
        assert np.array_equal(overlay(picture(), torch.full((40, 60), torch.nan)), picture())

    def test_lightness_of_the_colors_rises_evenly(self) -> None:
        """CIE L* of the 256 colors, from sRGB's and CIE's formulas."""
        rgb = np.asarray(
            overlay(Image.new("RGB", (256, 1)), torch.arange(256.0)[None], alpha=1), float
        )
        linear = np.where(rgb <= 10.31, rgb / 255 / 12.92, ((rgb / 255 + 0.055) / 1.055) ** 2.4)
        lightness = 116 * np.cbrt(linear[0] @ [0.2126, 0.7152, 0.0722]) - 16
        straight = np.linspace(lightness[0], lightness[-1], 256)
        assert lightness[-1] - lightness[0] > 80
        assert np.abs(lightness - straight).max() < 1.5
        assert (np.diff(lightness[::4]) > 0).all()

    def test_refused(self) -> None:
        for heat in (torch.zeros(60, 40), torch.full((40, 60), torch.inf)):
            with pytest.raises(InputError, match="heat must have the shape"):
                overlay(picture(), heat)
        with pytest.raises(InputError, match="alpha"):
            overlay(picture(), torch.zeros(40, 60), alpha=1.5)
        with pytest.raises(InputError, match="limits"):
            overlay(picture(), torch.zeros(40, 60), limits=(1.0, 0.0))


class TestFade:
    def test_boxes_stay_and_the_rest_fades(self) -> None:
        boxes = torch.tensor([[0.0, 0.0, 10.0, 20.0], [29.6, 39.4, 99.0, 60.0]])
        before, after = np.asarray(picture()).astype(float), np.asarray(fade(picture(), boxes))
        kept = np.zeros((40, 60), dtype=bool)
        kept[:10, :20] = True
        kept[30:, 39:] = True  # pixel 29's center, 29.5, is above; 39's, 39.5, inside
        assert (after[kept] == before[kept]).all()
        assert np.abs(after[~kept] - 0.25 * before[~kept]).max() <= 1

    def test_all_cells_keep_the_picture_and_none_fades_it(self) -> None:
        boxes = cell_boxes(GRID, windows((40, 60), "pad", Tiles()))
        assert np.array_equal(fade(picture(), boxes), picture())
        assert not np.asarray(fade(picture(), boxes[:0], dim=0)).any()

    def test_the_picture_is_turned_upright(self, tmp_path: Path) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6  # a quarter turn
        picture().save(tmp_path / "turned.png", exif=exif)
        faded = fade(tmp_path / "turned.png", torch.tensor([[0.0, 0.0, 60.0, 40.0]]))
        assert np.array_equal(faded, picture().transpose(Image.Transpose.ROTATE_270))

    def test_refused(self) -> None:
        for boxes in (torch.zeros(4), torch.zeros(2, 3), torch.full((1, 4), torch.nan)):
            with pytest.raises(InputError, match="boxes must be"):
                fade(picture(), boxes)
        with pytest.raises(InputError, match="dim"):
            fade(picture(), torch.zeros(0, 4), dim=-1)
