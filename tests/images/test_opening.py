from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from image_samples import grey_rgb, over_white, photograph, pixels
from PIL import Image

from piaa.errors import InputError
from piaa.images import open_image

RGB = np.asarray(photograph(24, 36))
GREY = RGB[..., 0]


class TestAnimations:
    @pytest.mark.parametrize("suffix", ["gif", "png", "webp", "tif"])
    def test_first_frame(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"a.{suffix}"
        red, blue = (Image.new("RGB", (20, 10), color) for color in ("red", "blue"))
        options = {"lossless": True} if suffix == "webp" else {}
        red.save(path, save_all=True, append_images=[blue], **options)
        assert (pixels(open_image(path)) == [255, 0, 0]).all()
        with Image.open(path) as opened:
            opened.seek(1)
            assert (pixels(open_image(opened)) == [0, 0, 255]).all()


# EXIF 2.3, tag 274: which side of the scene the 0th row and the 0th column of the file show.
ORIENTATIONS = {
    1: ("top", "left"),
    2: ("top", "right"),
    3: ("bottom", "right"),
    4: ("bottom", "left"),
    5: ("left", "top"),
    6: ("right", "top"),
    7: ("right", "bottom"),
    8: ("left", "bottom"),
}


def as_stored(upright: np.ndarray, orientation: int) -> np.ndarray:
    row_0, column_0 = ORIENTATIONS[orientation]
    stored = upright if row_0 in ("top", "bottom") else upright.swapaxes(0, 1)
    stored = stored[::-1] if row_0 in ("bottom", "right") else stored
    return stored[:, ::-1] if column_0 in ("right", "bottom") else stored


class TestOrientation:
    @pytest.mark.parametrize("orientation", ORIENTATIONS)
    @pytest.mark.parametrize("suffix", ["png", "webp", "tif", "jpg"])
    def test_every_orientation(self, tmp_path: Path, suffix: str, orientation: int) -> None:
        path = tmp_path / f"a.{suffix}"
        exif = Image.Exif()
        exif[274] = orientation
        options = {"webp": {"lossless": True}, "jpg": {"quality": 100, "subsampling": 0}}
        stored = Image.fromarray(np.ascontiguousarray(as_stored(RGB, orientation)))
        stored.save(path, exif=exif, **options.get(suffix, {}))

        image = open_image(path)
        difference = np.abs(pixels(image) - RGB.astype(int))
        assert difference.max() <= (8 if suffix == "jpg" else 0)
        with Image.open(path) as opened:
            assert np.array_equal(pixels(open_image(opened)), pixels(image))
        assert np.array_equal(pixels(open_image(image)), pixels(image)), "turned twice"

    @pytest.mark.parametrize("exif", [b"Exif\0\0garbage", b"Exif\0\0II*\0\xff\xff\xff\xff", b"x"])
    def test_garbled_exif_leaves_the_picture_as_stored(self, tmp_path: Path, exif: bytes) -> None:
        Image.fromarray(RGB).save(tmp_path / "a.png", exif=exif)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Pillow remarks on the second one
            assert np.array_equal(pixels(open_image(tmp_path / "a.png")), RGB)

    def test_unknown_orientation_leaves_the_picture_as_stored(self, tmp_path: Path) -> None:
        exif = Image.Exif()
        exif[274] = 9
        Image.fromarray(RGB).save(tmp_path / "a.png", exif=exif)
        assert np.array_equal(pixels(open_image(tmp_path / "a.png")), RGB)


class TestSources:
    def test_path_string_image_and_array_agree(self, tmp_path: Path) -> None:
        path = tmp_path / "a.png"
        Image.fromarray(RGB).save(path)
        for source in (path, str(path), Image.fromarray(RGB), RGB, RGB[:, ::-1][:, ::-1]):
            assert np.array_equal(pixels(open_image(source)), RGB)

    def test_arrays(self) -> None:
        assert np.array_equal(pixels(open_image(GREY)), grey_rgb(GREY))
        half = np.dstack([RGB, np.full_like(GREY, 128)])
        expected = over_white(RGB, half[..., 3])
        assert np.abs(pixels(open_image(half)) - expected).max() <= 1

    def test_result_shares_no_memory_with_the_source(self) -> None:
        array = RGB.copy()
        picture = Image.fromarray(RGB).copy()
        opened = open_image(array), open_image(picture)
        array[:] = 0
        picture.paste((0, 0, 0), (0, 0, *picture.size))
        for image in opened:
            assert np.array_equal(pixels(image), RGB)

    def test_callers_image_keeps_its_metadata(self) -> None:
        source = Image.new("RGB", (4, 2))
        source.getexif()[274] = 6
        source.info["exif"] = source.getexif().tobytes()
        assert open_image(source).size == (2, 4)
        assert "exif" in source.info
        assert source.size == (4, 2)

    def test_one_lazily_opened_image_in_many_threads(self, tmp_path: Path) -> None:
        exif = Image.Exif()
        exif[274] = 3
        photograph(300, 400).save(tmp_path / "a.png", exif=exif)
        expected = pixels(open_image(tmp_path / "a.png"))
        with Image.open(tmp_path / "a.png") as lazy:
            results: list[np.ndarray] = []
            start = threading.Barrier(8)

            def work() -> None:
                start.wait()
                results.append(pixels(open_image(lazy)))

            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(results) == 8
        assert all(np.array_equal(result, expected) for result in results)

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            (np.zeros((4, 4), np.float32), "float32.*scale and convert"),
            (np.zeros((3, 8, 9), np.uint8), "channels last"),
            (np.zeros((8, 9, 1), np.uint8), "rows, columns"),
            (np.zeros(8, np.uint8), "rows, columns"),
            (np.zeros((0, 4, 3), np.uint8), "no pixels"),
            (None, "NoneType"),
            (b"a.jpg", "bytes"),
            (io.BytesIO(), "BytesIO"),
        ],
    )
    def test_wrong_types(self, source: object, message: str) -> None:
        with pytest.raises(InputError, match=message):
            open_image(source)  # type: ignore[arg-type]

    @pytest.mark.parametrize("max_pixels", [0, -1, 1.5, True, None])
    def test_wrong_limit(self, max_pixels: object) -> None:
        with pytest.raises(InputError, match="max_pixels"):
            open_image(RGB, max_pixels=max_pixels)  # type: ignore[arg-type]


def test_options_are_keyword_only() -> None:
    opener: Callable[..., object] = open_image
    with pytest.raises(TypeError):
        opener(RGB, 10)
