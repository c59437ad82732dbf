from __future__ import annotations

import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
from image_samples import grey_rgb, over_white, photograph, pixels, png_bytes
from PIL import Image

from piaa.errors import ImageError
from piaa.images import open_image

RGB = np.asarray(photograph(24, 36))
GREY = RGB[..., 0]


class TestModes:
    @pytest.mark.parametrize(
        ("mode", "tolerance"),
        [("RGB", 0), ("RGBX", 0), ("CMYK", 0), ("YCbCr", 3), ("HSV", 8), ("LAB", 40)],
    )
    def test_color_modes_keep_the_colors(self, mode: str, tolerance: int) -> None:
        # 8-bit HSV and LAB are coarse themselves: LAB's mean error shows that hues are right.
        source = Image.fromarray(RGB).convert(mode)
        difference = np.abs(pixels(open_image(source)) - RGB.astype(int))
        assert difference.max() <= tolerance
        assert difference.mean() <= 2

    def test_bilevel(self) -> None:
        source = Image.fromarray(GREY).convert("1")
        assert np.array_equal(pixels(open_image(source)), grey_rgb(np.asarray(source) * 255))

    def test_greyscale(self) -> None:
        assert np.array_equal(pixels(open_image(Image.fromarray(GREY))), grey_rgb(GREY))

    def test_palette(self) -> None:
        source = Image.fromarray(RGB).quantize(64)
        expected = np.array(source.getpalette()).reshape(-1, 3)[np.asarray(source)]
        assert np.array_equal(pixels(open_image(source)), expected)

    @pytest.mark.parametrize("mode", ["LA", "RGBA", "La", "RGBa"])
    def test_alpha_is_laid_over_white(self, mode: str) -> None:
        alpha = np.linspace(0, 255, GREY.size).reshape(GREY.shape).astype(np.uint8)
        source = Image.fromarray(GREY).convert("RGB" if "RGB" in mode else "L")
        source.putalpha(Image.fromarray(alpha))
        source = source.convert(mode)
        expected = over_white(grey_rgb(GREY), alpha)
        assert np.abs(pixels(open_image(source)) - expected).max() <= 2

    def test_palette_with_alpha_channel(self) -> None:
        source = Image.new("P", (3, 1))
        source.putpalette([200, 0, 0, 0, 200, 0, 0, 0, 200])
        source.putdata([0, 1, 2])
        source.putalpha(Image.fromarray(np.array([[0, 128, 255]], dtype=np.uint8)))
        assert source.mode == "PA"
        expected = np.array([[[255, 255, 255], [127, 227, 127], [0, 0, 200]]])
        assert np.abs(pixels(open_image(source)) - expected).max() <= 1

    @pytest.mark.parametrize("transparency", [1, bytes([255, 0, 128])])
    def test_palette_with_transparency(self, tmp_path: Path, transparency: int | bytes) -> None:
        source = Image.new("P", (3, 1))
        source.putpalette([200, 0, 0, 0, 200, 0, 0, 0, 200])
        source.putdata([0, 1, 2])
        source.save(tmp_path / "a.png", transparency=transparency)
        third = [0, 0, 200] if transparency == 1 else [127, 127, 227]
        expected = np.array([[[200, 0, 0], [255, 255, 255], third]])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            got = pixels(open_image(tmp_path / "a.png"))
        assert np.abs(got - expected).max() <= 1

    @pytest.mark.parametrize("file_name", ["a.jpg", "a.tif"])
    def test_cmyk_files_whether_stored_inverted_or_not(
        self, tmp_path: Path, file_name: str
    ) -> None:
        # JPEG stores ink inverted (Adobe's habit), TIFF does not.
        Image.new("RGB", (16, 16), (220, 30, 60)).convert("CMYK").save(tmp_path / file_name)
        assert np.abs(pixels(open_image(tmp_path / file_name)) - [220, 30, 60]).max() <= 6

    @pytest.mark.parametrize(
        ("file_name", "mode"), [("a.png", "I;16"), ("a.tif", "I;16"), ("a.tif", "I;16B")]
    )
    def test_16_bit_files(self, tmp_path: Path, file_name: str, mode: str) -> None:
        samples = np.linspace(0, 65535, 600).round().astype(np.uint16).reshape(20, 30)
        stored = samples.astype("<u2" if mode == "I;16" else ">u2").tobytes()
        Image.frombytes(mode, (30, 20), stored).save(tmp_path / file_name)
        expected = grey_rgb(np.rint(samples / 257))
        assert np.array_equal(pixels(open_image(tmp_path / file_name)), expected)

    def test_16_bit_pgm(self, tmp_path: Path) -> None:
        samples = np.linspace(0, 65535, 600).round().astype(">u2")
        (tmp_path / "a.pgm").write_bytes(b"P5\n30 20\n65535\n" + samples.tobytes())
        expected = grey_rgb(np.rint(samples.reshape(20, 30) / 257))
        assert np.array_equal(pixels(open_image(tmp_path / "a.pgm")), expected)

    def test_16_bit_grey_with_key_color(self, tmp_path: Path) -> None:
        data = struct.pack(">3H", 0, 1000, 65535)
        file = png_bytes(3, 1, 16, 0, data, transparency=struct.pack(">H", 1000))
        (tmp_path / "a.png").write_bytes(file)
        assert pixels(open_image(tmp_path / "a.png"))[0, :, 0].tolist() == [0, 255, 255]

    def test_16_bit_rgb(self, tmp_path: Path) -> None:
        data = struct.pack(">6H", 65535, 32896, 0, 257, 514, 771)
        (tmp_path / "a.png").write_bytes(png_bytes(2, 1, 16, 2, data))
        assert pixels(open_image(tmp_path / "a.png")).tolist() == [[[255, 128, 0], [1, 2, 3]]]

    def test_rgb_with_key_color(self, tmp_path: Path) -> None:
        file = png_bytes(2, 1, 8, 2, bytes([9, 8, 7, 1, 2, 3]), struct.pack(">3H", 9, 8, 7))
        (tmp_path / "a.png").write_bytes(file)
        assert pixels(open_image(tmp_path / "a.png")).tolist() == [[[255, 255, 255], [1, 2, 3]]]

    @pytest.mark.parametrize(
        ("samples", "expected"),
        [
            ([0.0, 0.5, 1.0], [0, 128, 255]),
            ([0.0, 100.0, 255.0], [0, 100, 255]),
            ([0.0, 25700.0, 65535.0], [0, 100, 255]),
            ([-1.0, 0.0, 1.0], [0, 128, 255]),
            ([-3e38, 0.0, 3e38], [0, 128, 255]),
            ([0.0, 0.0, 0.0], [0, 0, 0]),
        ],
    )
    def test_float_samples(self, samples: list[float], expected: list[int]) -> None:
        source = Image.fromarray(np.array([samples], dtype=np.float32))
        assert source.mode == "F"
        assert pixels(open_image(source))[0, :, 0].tolist() == expected

    @pytest.mark.parametrize(
        ("samples", "expected"),
        [
            ([0, 100, 255], [0, 100, 255]),
            ([0, 25700, 65535], [0, 100, 255]),
            ([-(2**31), 0, 2**31 - 1], [0, 128, 255]),
            ([7_000_000] * 3, [0, 0, 0]),
        ],
    )
    def test_32_bit_samples(self, samples: list[int], expected: list[int]) -> None:
        source = Image.fromarray(np.array([samples], dtype=np.int32))
        assert source.mode == "I"
        assert pixels(open_image(source))[0, :, 0].tolist() == expected

    def test_samples_that_are_not_finite(self) -> None:
        source = Image.fromarray(np.array([[0.0, np.nan]], dtype=np.float32))
        with pytest.raises(ImageError, match="not finite"):
            open_image(source)
