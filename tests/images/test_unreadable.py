from __future__ import annotations

import io
import os
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from image_samples import photograph, png_bytes
from PIL import Image

from piaa.errors import ImageError
from piaa.images import open_image

RGB = np.asarray(photograph(24, 36))


def encoded(suffix: str) -> bytes:
    buffer = io.BytesIO()
    photograph(60, 80).save(buffer, suffix)
    return buffer.getvalue()


ENCODED = {
    name: encoded(name)
    for name in ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF", "JPEG2000", "PPM")
}


class TestUnreadable:
    @pytest.mark.parametrize("name", ENCODED)
    @pytest.mark.parametrize("keep", [0.05, 0.5, 0.9])
    def test_truncated(self, tmp_path: Path, name: str, keep: float) -> None:
        path = tmp_path / "cut.img"
        path.write_bytes(ENCODED[name][: int(len(ENCODED[name]) * keep)])
        with pytest.raises(ImageError, match=r"cut\.img.*again, or leave it out"):
            open_image(path)

    @pytest.mark.parametrize("name", ENCODED)
    def test_whole(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / "misleading.txt"
        path.write_bytes(ENCODED[name])
        assert open_image(path).size == (80, 60)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "empty"),
            (b"hello, this is text", "not a picture.*JPEG, PNG"),
            (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC.*pillow-heif"),
            (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", "HEIC.*pillow-heif"),
            (b"\0\0\0\x18ftypavif\0\0\0\0mif1miaf", "AVIF|cannot be decoded"),
            (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "not a picture"),
            (b"\x89PNG\r\n\x1a\n\0\0", "header is damaged|cannot be decoded"),
        ],
    )
    def test_no_picture(self, tmp_path: Path, content: bytes, message: str) -> None:
        path = tmp_path / "photo.jpg"
        path.write_bytes(content)
        with pytest.raises(ImageError, match=rf"photo\.jpg.*({message})"):
            open_image(path)

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(ImageError, match=r"nothere\.jpg.*no such file"):
            open_image(tmp_path / "nothere.jpg")

    def test_address(self) -> None:
        with pytest.raises(ImageError, match="download it first"):
            open_image("https://example.org/a.jpg")

    @pytest.mark.parametrize("path", ["", "."])
    def test_folder(self, path: str) -> None:
        with pytest.raises(ImageError, match=r"folder.*list_images"):
            open_image(path)

    def test_nul_in_path(self) -> None:
        with pytest.raises(ImageError, match="null byte"):
            open_image("a\0.jpg")

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    def test_pipe_does_not_hang(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.jpg")
        with pytest.raises(ImageError, match="not a regular file"):
            open_image(tmp_path / "pipe.jpg")

    def test_no_permission(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # Simulated: the tests may run as a user to whom nothing is forbidden.
        def refuse(self: Path, *args: object) -> None:
            raise PermissionError(13, "Permission denied")

        (tmp_path / "a.jpg").write_bytes(ENCODED["JPEG"])
        monkeypatch.setattr(Path, "open", refuse)
        with pytest.raises(ImageError, match=r"a\.jpg.*permission"):
            open_image(tmp_path / "a.jpg")

    def test_closed_image(self, tmp_path: Path) -> None:
        (tmp_path / "a.jpg").write_bytes(ENCODED["JPEG"])
        with Image.open(tmp_path / "a.jpg") as image:
            pass
        with pytest.raises(ImageError, match=r"a\.jpg.*cannot be decoded"):
            open_image(image)

    def test_image_without_pixels(self) -> None:
        with pytest.raises(ImageError, match="no pixels"):
            open_image(Image.new("RGB", (0, 3)))

    def test_files_are_closed(self, tmp_path: Path) -> None:
        (tmp_path / "good.gif").write_bytes(ENCODED["GIF"])
        (tmp_path / "cut.png").write_bytes(ENCODED["PNG"][:900])
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            open_image(tmp_path / "good.gif")
            with pytest.raises(ImageError):
                open_image(tmp_path / "cut.png")

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        name=st.sampled_from(sorted(ENCODED)),
        changes=st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), min_size=1),
    )
    def test_damage_gives_a_picture_or_one_error(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        name: str,
        changes: list[tuple[int, int]],
    ) -> None:
        damaged = bytearray(ENCODED[name])
        for position, value in changes:
            damaged[position % len(damaged)] = value
        path = tmp_path_factory.getbasetemp() / "damaged"
        path.write_bytes(damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Pillow's remarks on broken metadata
            with suppress(ImageError):
                assert open_image(path, max_pixels=100_000).mode == "RGB"


class TestLimit:
    def test_bomb_is_refused_before_decoding(self, tmp_path: Path) -> None:
        # 17 GB once decoded; there are no pixels behind the header, so decoding would say so.
        bomb = png_bytes(65_535, 65_535, 8, 2, b"\0" * 65_535)
        (tmp_path / "bomb.png").write_bytes(bomb)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ImageError, match=r"bomb\.png.*4,294,836,225 pixels.*max_pixels"):
                open_image(tmp_path / "bomb.png")

    @pytest.mark.parametrize("source", [RGB, Image.fromarray(RGB)])
    def test_limit_is_inclusive(self, source: Image.Image | np.ndarray) -> None:
        assert open_image(source, max_pixels=24 * 36).size == (36, 24)
        with pytest.raises(ImageError, match=r"864 pixels.*limit of 863"):
            open_image(source, max_pixels=24 * 36 - 1)

    @pytest.mark.parametrize("pillow_limit", [3000, 1000, None])
    @pytest.mark.parametrize("name", ["JPEG", "PNG", "GIF", "TIFF", "BMP", "AVIF"])
    def test_only_our_limit_counts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, pillow_limit: int | None
    ) -> None:
        # 4800 pixels: Pillow alone would warn at 3000 and refuse at 1000.
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", pillow_limit)
        (tmp_path / "a").write_bytes(ENCODED[name])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert open_image(tmp_path / "a").size == (80, 60)
        assert pillow_limit == Image.MAX_IMAGE_PIXELS

    def test_pillow_limit_is_restored_when_decoding_fails(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
        (tmp_path / "a").write_bytes(ENCODED["TIFF"][:9000])
        with pytest.raises(ImageError):
            open_image(tmp_path / "a")
        assert Image.MAX_IMAGE_PIXELS == 1000
