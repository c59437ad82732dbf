from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from piaa.encoders.base import Encoder, EncoderSpec, ImageFeatures
from piaa.encoders.clip import ClipEncoder
from piaa.encoders.tiled import TiledEncoder
from piaa.errors import ImageError, InputError
from piaa.heatmaps import cell_boxes, on_image
from piaa.images import ImageSource, Preprocessing, Tiles, preprocess
from piaa.images.placement import Fit


class ColorEncoder:
    """Its patches are the mean colors of 8 x 8 pixels: they tell where in a color ramp they lie."""

    device = torch.device("cpu")
    source, prompt_template, text_scale = "nowhere", "{}", 100.0

    def __init__(self, fit: Fit) -> None:
        preprocessing = Preprocessing((64, 96), mean=(0, 0, 0), std=(1, 1, 1), fit=fit)
        self.spec = EncoderSpec("colors", "0" * 64, "none", {}, preprocessing, "float32", 3)
        self.batches: list[int] = []

    def encode_pixels(self, pixels: Tensor) -> ImageFeatures:
        self.batches.append(len(pixels))
        patches = torch.nn.functional.avg_pool2d(pixels, 8).flatten(2).transpose(1, 2)
        return ImageFeatures(patches.mean(1), patches, (8, 12))

    def encode_images(
        self, images: Iterable[ImageSource], *, batch_size: int | None = None
    ) -> ImageFeatures:
        raise NotImplementedError

    def stream_images(
        self, images: Iterable[ImageSource], *, batch_size: int | None = None
    ) -> Iterator[ImageFeatures]:
        raise NotImplementedError

    def encode_text(self, texts: Sequence[str]) -> Tensor:
        return torch.eye(3)[[len(text) % 3 for text in texts]]


def ramp(rows: int, columns: int) -> Image.Image:
    """Red rises from top to bottom, green from left to right."""
    red, green = np.meshgrid(
        (np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns, indexing="ij"
    )
    colors = np.stack([red, green, np.full_like(red, 0.5)], axis=-1)
    return Image.fromarray((colors * 255).round().astype(np.uint8))


def noise(rows: int, columns: int, seed: int) -> Image.Image:
    rng = np.random.default_rng(seed)
    return Image.fromarray(rng.integers(0, 256, (rows, columns, 3), dtype=np.uint8))


@pytest.mark.parametrize("size", [(300, 420), (500, 200)])
@pytest.mark.parametrize("tiles", [Tiles(), Tiles(1, 3, overlap=0.5)])
class TestPlaces:
    @pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
    def test_every_patch_shows_what_its_placement_says(
        self, fit: Fit, size: tuple[int, int], tiles: Tiles
    ) -> None:
        features = TiledEncoder(ColorEncoder(fit), tiles).encode_images([ramp(*size)])
        boxes = cell_boxes(features.grid, features.placements)
        assert features.windows == len(tiles) == len(features.placements)
        assert len(boxes) == features.patches.shape[1] == len(tiles) * 96
        # Cells that are not partly padding hold the ramp at their centers.
        heights, widths = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
        for window in torch.arange(len(boxes)).split(96):
            whole = (heights[window] > heights[window].max() * 0.99) & (
                widths[window] > widths[window].max() * 0.99
            )
            full = window[whole]
            assert len(full) >= 16
            red = (boxes[full, 0] + boxes[full, 2]) / 2 / size[0]
            green = (boxes[full, 1] + boxes[full, 3]) / 2 / size[1]
            error = features.patches[0, full, :2] - torch.stack([red, green], dim=1)
            assert error.abs().max() < 0.012

    # Not pad: cells half in the padding mix its black into the ramp.
    @pytest.mark.parametrize("fit", ["crop", "squash"])
    def test_the_ramp_comes_back_as_a_heat_map(
        self, fit: Fit, size: tuple[int, int], tiles: Tiles
    ) -> None:
        features = TiledEncoder(ColorEncoder(fit), tiles).encode_images([ramp(*size)])
        expected = torch.from_numpy(np.array(ramp(*size))).float() / 255
        for channel in (0, 1):
            heat = on_image(features.patches[0, :, channel], features.grid, features.placements)
            error = (heat - expected[:, :, channel]).abs()
            edge = [side // 8 for side in size]
            assert error[edge[0] : -edge[0], edge[1] : -edge[1]].max() < 0.012
            assert error.max() < 0.1


@pytest.fixture(scope="module")
def encoder(load: Callable[..., ClipEncoder]) -> ClipEncoder:
    return load("clip", frontend="sc-clip")


class TestEncoding:
    def test_windows_are_crops_of_the_picture(self, encoder: ClipEncoder) -> None:
        picture, tiles = noise(300, 420, 0), Tiles(1, 2)
        tiled = TiledEncoder(encoder, tiles)
        features = tiled.encode_images(picture)
        whole = encoder.encode_images(picture)
        windows = features.patches.view(3, 196, encoder.dim)
        torch.testing.assert_close(features.cls, whole.cls, atol=1e-5, rtol=0)
        torch.testing.assert_close(windows[0], whole.patches[0], atol=1e-5, rtol=0)
        assert features.placements[0] == whole.placements[0]
        squash = replace(encoder.spec.preprocessing, fit="squash")
        boxes = tiles.boxes(300, 420)
        for window, box, placement in zip(
            windows[1:], boxes[1:], features.placements[1:], strict=True
        ):
            top, left, bottom, right = box
            pixels, _ = preprocess(picture.crop((left, top, right, bottom)), squash)
            alone = encoder.encode_pixels(pixels[None]).patches[0]
            torch.testing.assert_close(window, alone, atol=1e-5, rtol=0)
            assert placement.box == box
            assert placement.original_size == (300, 420)

    def test_surface(self, encoder: ClipEncoder) -> None:
        tiled = TiledEncoder(encoder)
        assert isinstance(tiled, Encoder)
        assert tiled.passes_per_image == 5
        assert tiled.dim == encoder.dim
        assert tiled.device == encoder.device
        assert tiled.source == encoder.source
        assert tiled.prompt_template == encoder.prompt_template
        assert tiled.text_scale == encoder.text_scale
        assert tiled.default_batch_size == 1
        assert TiledEncoder(encoder, Tiles(9, 9)).default_batch_size == 1
        assert torch.equal(tiled.encode_text(["cat"]), encoder.encode_text(["cat"]))
        assert "TiledEncoder Tiles(rows=2" in repr(tiled)

    def test_spec_differs_by_the_tiles_alone(self, encoder: ClipEncoder) -> None:
        spec, other = TiledEncoder(encoder).spec, TiledEncoder(encoder, Tiles(3, 3)).spec
        assert spec != encoder.spec
        assert spec != other
        assert replace(spec, tiles=None) == encoder.spec
        assert encoder.spec.to_dict()["tiles"] is None
        assert spec.to_dict()["tiles"] == {"rows": 2, "columns": 2, "overlap": 0.25}

    def test_refused(self, encoder: ClipEncoder) -> None:
        tiled = TiledEncoder(encoder)
        with pytest.raises(InputError, match="Tiles need pictures"):
            tiled.encode_pixels(torch.zeros(1, 3, 224, 224))
        with pytest.raises(InputError, match="has tiles already"):
            TiledEncoder(tiled)
        with pytest.raises(InputError, match="list is empty"):
            tiled.encode_images([])


class TestStreaming:
    @pytest.fixture
    def tiled(self) -> TiledEncoder:
        return TiledEncoder(ColorEncoder("crop"), Tiles(1, 2))

    def test_batch_size_changes_nothing(self, tiled: TiledEncoder) -> None:
        pictures = [noise(60 + 10 * i, 90, i) for i in range(5)]
        together = tiled.encode_images(pictures, batch_size=5)
        assert [len(f) for f in tiled.stream_images(pictures, batch_size=2)] == [2, 2, 1]
        assert tiled.encoder.batches == [15, 6, 6, 3]
        for size in (1, 2, 3):
            features = tiled.encode_images(pictures, batch_size=size)
            assert torch.equal(features.patches, together.patches)
            assert torch.equal(features.cls, together.cls)
            assert features.placements == together.placements
        assert [p.original_size[0] for p in together.placements[::3]] == [60, 70, 80, 90, 100]

    def test_endless_sources_are_read_a_little_ahead_and_threads_end(
        self, tiled: TiledEncoder
    ) -> None:
        taken = itertools.count()
        source = (noise(20, 20, next(taken)) for _ in itertools.repeat(None))
        stream = tiled.stream_images(source, batch_size=2)
        next(stream)
        assert next(taken) <= 4
        stream.close()
        for thread in threading.enumerate():
            if thread.name.startswith("piaa-windows"):
                thread.join(20)
                assert not thread.is_alive()

    def test_bad_pictures_are_named_in_order(self, tiled: TiledEncoder, tmp_path: Path) -> None:
        (tmp_path / "broken.jpg").write_bytes(b"no picture")
        stream = tiled.stream_images(
            [noise(20, 20, 0), tmp_path / "broken.jpg", tmp_path / "none.jpg"], batch_size=1
        )
        assert len(next(stream)) == 1
        with pytest.raises(ImageError, match=r"broken\.jpg"):
            next(stream)

    @pytest.mark.parametrize("batch_size", [0, -1, True, 1.5])
    def test_batch_size_is_checked(self, tiled: TiledEncoder, batch_size: int) -> None:
        with pytest.raises(InputError, match="batch_size must be"):
            tiled.encode_images([noise(20, 20, 0)], batch_size=batch_size)

    @pytest.mark.parametrize("images", ["photos", 5])
    def test_one_thing_is_not_a_stream(self, tiled: TiledEncoder, images: object) -> None:
        with pytest.raises(InputError, match="Put it in a list"):
            next(tiled.stream_images(images))


class TestImageFeatures:
    @pytest.fixture
    def features(self) -> ImageFeatures:
        pictures = [noise(50 + i, 60, i) for i in range(4)]
        return TiledEncoder(ColorEncoder("crop"), Tiles(1, 2)).encode_images(pictures)

    @pytest.mark.parametrize("rows", [slice(1, 3), slice(-1, None), slice(0, 4, 2), slice(2, 2)])
    def test_slices_keep_the_windows_of_their_images(
        self, features: ImageFeatures, rows: slice
    ) -> None:
        some = features[rows]
        heights = [p.original_size[0] for p in some.placements]
        assert heights == [50 + i for i in range(4)[rows] for _ in range(3)]
        assert torch.equal(some.patches, features.patches[rows])
        assert some.windows == 3

    def test_concatenate_is_the_inverse(self, features: ImageFeatures) -> None:
        back = ImageFeatures.concatenate([features[:1], features[1:3], features[3:]])
        assert torch.equal(back.patches, features.patches)
        assert (back.placements, back.windows) == (features.placements, 3)

    def test_different_windows_do_not_concatenate(self, features: ImageFeatures) -> None:
        plain = ImageFeatures(features.cls, features.patches[:, :96], features.grid)
        with pytest.raises(InputError, match=r"different grids or windows.*\(1, 8, 12\)"):
            ImageFeatures.concatenate([features, plain])

    def test_shapes_must_agree(self, features: ImageFeatures) -> None:
        for change in (
            {"windows": 2},
            {"windows": 0},
            {"placements": features.placements[:4]},
            {"grid": (8, 11)},
        ):
            with pytest.raises(InputError, match="ImageFeatures needs"):
                replace(features, **change)
