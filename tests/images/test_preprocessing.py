from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
import torch
from image_samples import photograph
from PIL import Image

from piaa.errors import InputError, UnknownNameError
from piaa.images import CLIP_MEAN, CLIP_STD, Preprocessing, preprocess
from piaa.images import preprocessing as module
from piaa.images.preprocessing import fit_pixels, normalize_pixels

SIZES = [(224, 224), (300, 400), (401, 299), (100, 150), (151, 97), (500, 333), (90, 900)]


def torchvision_pixels(image: Image.Image, side: int) -> np.ndarray:
    """Resize(side, BICUBIC) and CenterCrop(side) of torchvision, on a Pillow image."""
    width, height = image.size
    short, long = (width, height) if width <= height else (height, width)
    new_short, new_long = side, int(side * long / short)
    new_width, new_height = (new_short, new_long) if width <= height else (new_long, new_short)
    resized = image.resize((new_width, new_height), Image.BICUBIC)
    top = int(round((new_height - side) / 2.0))  # noqa: RUF046
    left = int(round((new_width - side) / 2.0))  # noqa: RUF046
    return np.asarray(resized.crop((left, top, left + side, top + side)))


def as_array(pixels: torch.Tensor) -> np.ndarray:
    assert pixels.dtype == torch.uint8
    return pixels.permute(1, 2, 0).numpy().astype(int)


class TestCrop:
    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("side", [224, 97])
    def test_equals_torchvision(self, size: tuple[int, int], side: int) -> None:
        image = photograph(*size)
        expected = torchvision_pixels(image, side)
        pixels, _ = fit_pixels(image, Preprocessing(side))
        assert np.array_equal(as_array(pixels), expected)

        reference = (expected / 255 - CLIP_MEAN) / CLIP_STD
        normalized, _ = preprocess(image, Preprocessing(side))
        assert normalized.dtype == torch.float32
        assert normalized.shape == (3, side, side)
        assert np.abs(normalized.permute(1, 2, 0).numpy() - reference).max() < 1e-6

    # transformers rounds an odd excess down where torchvision rounds it to even, so only sizes
    # on which the two agree.
    @pytest.mark.parametrize("size", [(224, 224), (300, 400), (448, 450), (250, 224), (112, 140)])
    def test_equals_transformers(self, size: tuple[int, int]) -> None:
        transformers = pytest.importorskip("transformers")
        image = photograph(*size)
        processor = transformers.CLIPImageProcessorPil()
        expected = processor(image, return_tensors="pt")["pixel_values"][0]
        pixels, _ = preprocess(image, Preprocessing(224))
        assert (pixels - expected).abs().max() < 1e-5

    @pytest.mark.parametrize("canvas", [(64, 128), (128, 64), (96, 100)])
    @pytest.mark.parametrize("size", [(300, 400), (400, 300), (50, 61)])
    def test_other_canvases_are_covered(
        self, size: tuple[int, int], canvas: tuple[int, int]
    ) -> None:
        image = photograph(*size)
        scale = max(canvas[0] / size[0], canvas[1] / size[1])
        rows, columns = (int(side * scale + 1e-9) for side in size)
        top, left = round((rows - canvas[0]) / 2), round((columns - canvas[1]) / 2)
        whole = np.asarray(image.resize((columns, rows), Image.BICUBIC))
        expected = whole[top : top + canvas[0], left : left + canvas[1]]
        pixels, _ = fit_pixels(image, Preprocessing(canvas))
        assert np.array_equal(as_array(pixels), expected)


@pytest.mark.parametrize("size", [(300, 400), (500, 333), (60, 900)])
def test_squash(size: tuple[int, int]) -> None:
    image = photograph(*size)
    # Two steps: Pillow 13 may do the rows first, which rounds and clips differently.
    expected = np.asarray(
        image.resize((120, size[0]), Image.BICUBIC).resize((120, 90), Image.BICUBIC)
    )
    pixels, _ = fit_pixels(image, Preprocessing((90, 120), fit="squash"))
    assert np.array_equal(as_array(pixels), expected)


@pytest.mark.parametrize("resize", ["pillow", "torch"])
@pytest.mark.parametrize(("size", "inner"), [((300, 400), (75, 100)), ((401, 133), (100, 33))])
def test_pad(resize: Any, size: tuple[int, int], inner: tuple[int, int]) -> None:
    image = photograph(*size)
    preprocessing = Preprocessing(100, fit="pad", resize=resize)
    pixels, placement = preprocess(image, preprocessing)
    top, left, bottom, right = placement.content
    assert (bottom - top, right - left) == inner

    columns_first = image.resize((inner[1], size[0]), Image.BICUBIC)
    shown = np.asarray(columns_first.resize(inner[::-1], Image.BICUBIC))
    squashed = dataclasses.replace(preprocessing, image_size=inner, fit="squash")
    expected, _ = preprocess(image, squashed)
    assert torch.equal(pixels[:, top:bottom, left:right], expected)
    raw = (expected.permute(1, 2, 0).numpy() * CLIP_STD + CLIP_MEAN) * 255
    assert np.abs(raw - shown).max() < (1e-3 if resize == "pillow" else 2.001)

    padding = torch.ones(100, 100, dtype=torch.bool)
    padding[top:bottom, left:right] = False
    assert (pixels[:, padding] == 0).all()


@pytest.mark.parametrize("resize", ["pillow", "torch"])
@pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
@pytest.mark.parametrize("canvas", [(60, 60), (48, 80)])
@pytest.mark.parametrize("size", [(90, 200), (200, 90), (30, 41)])
def test_placement_tells_where_each_pixel_came_from(
    size: tuple[int, int], canvas: tuple[int, int], fit: Any, resize: Any
) -> None:
    """A ramp keeps its slope under bicubic scaling, so each pixel says where it comes from."""
    rows, columns = np.mgrid[: size[0], : size[1]]
    ramps = np.stack([rows, columns, rows * 0], axis=-1).astype(np.uint8)
    pixels, placement = fit_pixels(
        Image.fromarray(ramps), Preprocessing(canvas, fit=fit, resize=resize)
    )
    top, left, bottom, right = placement.content
    margin = 6  # filters reach over the picture's edge, where the ramp ends
    center_rows = torch.arange(top + margin, bottom - margin) + 0.5
    center_columns = torch.arange(left + margin, right - margin) + 0.5
    expected_rows, expected_columns = placement.to_original(center_rows, center_columns)
    shown = pixels[:, top + margin : bottom - margin, left + margin : right - margin].float()
    assert shown.numel() > 0
    assert (shown[0] - (expected_rows - 0.5)[:, None]).abs().max() <= 1
    assert (shown[1] - (expected_columns - 0.5)[None, :]).abs().max() <= 1


class TestThinPictures:
    @pytest.mark.parametrize("resize", ["pillow", "torch"])
    @pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
    @pytest.mark.parametrize("size", [(1, 1), (1, 5000), (5000, 1), (2, 30000), (1, 2)])
    def test_any_shape_works(self, size: tuple[int, int], fit: Any, resize: Any) -> None:
        image = Image.new("RGB", size[::-1], (50, 100, 150))
        pixels, placement = preprocess(image, Preprocessing(224, fit=fit, resize=resize))
        top, left, bottom, right = placement.content
        expected = (np.array([50, 100, 150]) / 255 - CLIP_MEAN) / CLIP_STD
        shown = pixels[:, top:bottom, left:right].permute(1, 2, 0).numpy()
        assert shown.size > 0
        assert np.abs(shown - expected).max() < 1e-5

    @pytest.mark.parametrize("resize", ["pillow", "torch"])
    @pytest.mark.parametrize("size", [(1, 200), (200, 1), (3, 150), (171, 2), (1, 17)])
    def test_crop_equals_the_detour_over_the_whole(
        self, size: tuple[int, int], resize: Any
    ) -> None:
        image = Image.fromarray(
            np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
        )
        pixels, _ = fit_pixels(image, Preprocessing(32, resize=resize))
        difference = np.abs(as_array(pixels) - torchvision_pixels(image, 32))
        assert difference.max() <= 1

    @pytest.mark.parametrize("resize", ["pillow", "torch"])
    @pytest.mark.parametrize("size", [(1, 5000), (5000, 1)])
    def test_the_whole_is_never_made(
        self, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], resize: Any
    ) -> None:
        made: list[int] = []
        original = Image.Image.resize

        def record(self: Image.Image, size: tuple[int, int], *args: Any, **options: Any) -> Any:
            made.append(size[0] * size[1])
            return original(self, size, *args, **options)

        monkeypatch.setattr(Image.Image, "resize", record)
        fit_pixels(Image.new("RGB", size), Preprocessing(224, resize=resize))
        assert made
        assert max(made) <= 224 * 5000


class TestTorchResize:
    @pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
    @pytest.mark.parametrize("size", [*SIZES, (1500, 2000), (40, 30), (16, 16)])
    def test_within_two_levels_of_pillow(self, size: tuple[int, int], fit: Any) -> None:
        image = photograph(*size)
        exact, placement = fit_pixels(image, Preprocessing(224, fit=fit))
        fast, same = fit_pixels(image, Preprocessing(224, fit=fit, resize="torch"))
        assert same == placement
        assert fast.shape == exact.shape
        assert np.abs(as_array(fast) - as_array(exact)).max() <= 2

    @pytest.mark.parametrize("side", [32, 336])
    @pytest.mark.parametrize("kind", ["noise", "checkers", "edge"])
    def test_within_two_levels_on_the_worst_pictures(self, kind: str, side: int) -> None:
        rows, columns = np.mgrid[:600, :800]
        patterns = {
            "noise": np.random.default_rng(0).integers(0, 256, (600, 800)),
            "checkers": (rows + columns) % 2 * 255,
            "edge": (columns > 400) * 255,
        }
        image = Image.fromarray(patterns[kind].astype(np.uint8)).convert("RGB")
        exact, _ = fit_pixels(image, Preprocessing(side))
        fast, _ = fit_pixels(image, Preprocessing(side, resize="torch"))
        assert np.abs(as_array(fast) - as_array(exact)).max() <= 2

    @pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
    def test_bands_change_nothing(self, monkeypatch: pytest.MonkeyPatch, fit: Any) -> None:
        image = photograph(301, 403)
        preprocessing = Preprocessing(224, fit=fit, resize="torch")
        whole, _ = fit_pixels(image, preprocessing)
        monkeypatch.setattr(module, "_LARGE_BYTES", 0)
        monkeypatch.setattr(module, "_BAND_BYTES", 3 * 403 * 20)
        banded, _ = fit_pixels(image, preprocessing)
        assert torch.equal(whole, banded)


def test_normalizing_a_batch_equals_one_by_one() -> None:
    preprocessing = Preprocessing((40, 60), fit="pad")
    images = [photograph(*size) for size in ((50, 50), (20, 80), (9, 3))]
    fitted = [fit_pixels(image, preprocessing) for image in images]
    pixels, placements = zip(*fitted, strict=True)
    batch = normalize_pixels(torch.stack(pixels), placements, preprocessing)
    assert batch.is_contiguous()
    for row, image in zip(batch, images, strict=True):
        one, _ = preprocess(image, preprocessing)
        assert one.is_contiguous()
        assert torch.equal(row, one)


@pytest.mark.parametrize("mode", ["L", "RGBA", "CMYK"])
def test_only_rgb_is_accepted(mode: str) -> None:
    with pytest.raises(InputError, match=f"RGB, not {mode}.*open_image"):
        preprocess(Image.new(mode, (4, 4)), Preprocessing(8))


def test_picture_without_pixels() -> None:
    with pytest.raises(InputError, match="no pixels"):
        preprocess(Image.new("RGB", (4, 0)), Preprocessing(8))


class TestSettings:
    def test_one_side_is_a_square(self) -> None:
        assert Preprocessing(224).image_size == (224, 224)
        assert Preprocessing(image_size=(224, 320)).image_size == (224, 320)

    def test_dict_survives_json(self) -> None:
        settings = Preprocessing((224, 320), (0.5, 0.4, 0.3), (0.2, 0.2, 0.1), "pad", "torch")
        stored = json.loads(json.dumps(settings.to_dict()))
        assert Preprocessing.from_dict(stored) == settings
        assert hash(Preprocessing.from_dict(stored)) == hash(settings)

    def test_replace(self) -> None:
        settings = dataclasses.replace(Preprocessing(224), image_size=336, fit="squash")
        assert (settings.image_size, settings.fit) == ((336, 336), "squash")
        with pytest.raises(UnknownNameError):
            dataclasses.replace(settings, fit="stretch")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"image_size": 0}, "image_size .*0"),
            ({"image_size": (224, -1)}, "image_size"),
            ({"image_size": (224, 224, 3)}, "image_size"),
            ({"image_size": 224.0}, "image_size"),
            ({"image_size": True}, "image_size"),
            ({"image_size": "224"}, "image_size"),
            ({"mean": (0.5, 0.5)}, "mean must be three"),
            ({"mean": (0.5, 0.5, float("nan"))}, "mean must be three"),
            ({"mean": "abc"}, "mean must be three"),
            ({"std": (0.5, 0.5, 0.0)}, "std must be above 0"),
            ({"std": 0.5}, "std must be three"),
            ({"fit": "cropp"}, "Did you mean 'crop'"),
            ({"resize": "opencv"}, "Known: pillow, torch"),
        ],
    )
    def test_wrong_values(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            Preprocessing(**{"image_size": 224, **options})

    def test_wrong_dicts(self) -> None:
        with pytest.raises(UnknownNameError, match="Did you mean 'image_size'"):
            Preprocessing.from_dict({"image_sizes": 224})
        with pytest.raises(InputError, match="needs 'image_size'"):
            Preprocessing.from_dict({"fit": "crop"})
