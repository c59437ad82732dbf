"""The encoder's surface: what goes in, what comes out, what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

import piaa
from piaa.encoders import clip
from piaa.encoders.clip import ClipEncoder
from piaa.encoders.vit import resize_positions_as_reference
from piaa.errors import ImageError, InputError
from piaa.images import preprocess
from recipe import pixels, tokens


@pytest.fixture(scope="module")
def encoder(load: Callable[..., ClipEncoder]) -> ClipEncoder:
    return load("clip", frontend="sc-clip")


@pytest.fixture(scope="module")
def picture() -> Image.Image:
    rng = np.random.default_rng(0)
    return Image.fromarray(rng.integers(0, 256, (300, 420, 3), dtype=np.uint8))


class TestImages:
    def test_paths_pictures_and_arrays_are_the_same(
        self, encoder: ClipEncoder, picture: Image.Image, tmp_path: Path
    ) -> None:
        picture.save(tmp_path / "a.png")
        features = encoder.encode_images(
            [tmp_path / "a.png", str(tmp_path / "a.png"), picture, np.asarray(picture)]
        )
        assert features.cls.shape == (4, 64)
        assert features.patches.shape == (4, 196, 64)
        assert features.grid == (14, 14)
        assert all(placement.original_size == (300, 420) for placement in features.placements)
        for part in (features.cls, features.patches):
            torch.testing.assert_close(part.norm(dim=-1), torch.ones(part.shape[:-1]))
            assert torch.equal(part[0], part[3])

    def test_equal_to_pixels(self, encoder: ClipEncoder, picture: Image.Image) -> None:
        pixel, _ = preprocess(picture, encoder.spec.preprocessing)
        features = encoder.encode_images([picture])
        assert torch.equal(features.patches, encoder.encode_pixels(pixel[None]).patches)

    def test_one_picture_need_not_be_in_a_list(
        self, encoder: ClipEncoder, picture: Image.Image, tmp_path: Path
    ) -> None:
        picture.save(tmp_path / "a.png")
        assert (
            len(encoder.encode_images(picture))
            == len(encoder.encode_images(str(tmp_path / "a.png")))
            == 1
        )

    def test_stream_in_batches(self, encoder: ClipEncoder, picture: Image.Image) -> None:
        sizes = [
            len(part) for part in encoder.stream_images((picture for _ in range(5)), batch_size=2)
        ]
        assert sizes == [2, 2, 1]

    def test_a_bad_picture_is_named(
        self, encoder: ClipEncoder, picture: Image.Image, tmp_path: Path
    ) -> None:
        (tmp_path / "bad.jpg").write_bytes(b"no picture")
        with pytest.raises(ImageError, match=r"bad\.jpg"):
            encoder.encode_images([picture, tmp_path / "bad.jpg"])

    def test_empty_list(self, encoder: ClipEncoder) -> None:
        with pytest.raises(InputError, match="empty"):
            encoder.encode_images([])

    def test_fit_and_size(self, load: Callable[..., ClipEncoder], picture: Image.Image) -> None:
        encoder = load("clip", frontend="sclip", image_size=(64, 112), fit="squash")
        features = encoder.encode_images([picture])
        assert features.grid == (4, 7)
        assert features.patches.shape == (1, 28, 64)


class TestPixels:
    @pytest.mark.parametrize(
        ("bad", "message"),
        [
            (np.zeros((1, 3, 32, 32)), "torch tensor, not ndarray"),
            (torch.zeros(3, 32, 32), r"\(B, 3, H, W\).*\(3, 32, 32\)"),
            (torch.zeros(1, 4, 32, 32), r"\(1, 4, 32, 32\)"),
            (torch.zeros(0, 3, 32, 32), "at least one image"),
            (torch.zeros(1, 3, 0, 32), "at least one image"),
            (torch.zeros(1, 3, 32, 32, dtype=torch.uint8), "torch.uint8.*encode_images"),
            (torch.zeros(1, 3, 40, 32), "40 x 32.*multiples of 16.*32 x 32"),
            (torch.zeros(1, 3, 8, 16), "resize to 16 x 16"),
            (torch.full((1, 3, 32, 32), torch.nan), r"NaN or infinity in images \[0\]"),
        ],
    )
    def test_refused(self, encoder: ClipEncoder, bad: object, message: str) -> None:
        with pytest.raises(InputError, match=message):
            encoder.encode_pixels(bad)  # type: ignore[arg-type]

    def test_the_bad_image_is_named(self, encoder: ClipEncoder) -> None:
        images = pixels(1, 3, 32, 32)
        images[1, 0, 0, 0] = torch.inf
        with pytest.raises(InputError, match=r"images \[1\]"):
            encoder.encode_pixels(images)

    def test_other_float_types_and_layouts(self, encoder: ClipEncoder) -> None:
        images = pixels(1, 2, 64, 64)
        expected = encoder.encode_pixels(images).patches
        double = encoder.encode_pixels(images.double()).patches
        strided = encoder.encode_pixels(
            images.contiguous(memory_format=torch.channels_last)
        ).patches
        torch.testing.assert_close(double, expected, atol=1e-6, rtol=0)
        torch.testing.assert_close(strided, expected, atol=1e-6, rtol=0)

    def test_one_patch_has_nothing_to_compare(self, encoder: ClipEncoder) -> None:
        with pytest.raises(InputError, match="grid of 1 x 1"):
            encoder.encode_pixels(torch.zeros(1, 3, 16, 16))

    def test_no_gradients(self, encoder: ClipEncoder) -> None:
        assert not encoder.encode_pixels(pixels(1, 1, 32, 32)).patches.requires_grad


class TestPositions:
    def test_trained_grid_is_untouched(self, encoder: ClipEncoder) -> None:
        patches = encoder.vision.positions_for((14, 14))[1:]
        assert torch.equal(patches, encoder.vision.positions[1:])

    def test_same_count_in_another_shape_is_resized(self, encoder: ClipEncoder) -> None:
        patches = encoder.vision.positions_for((7, 28))[1:]
        assert not torch.equal(patches, encoder.vision.positions[1:])

    def test_sampling_points_of_the_published_front_ends(self) -> None:
        """Cubic convolution (A = -0.75) at source = (i + 0.5) g / (n + 0.1) - 0.5, written out."""
        values = torch.randn(14, generator=torch.Generator().manual_seed(0))
        resized = resize_positions_as_reference(values.expand(1, 1, 14, 14), (20, 31))
        assert resized.shape == (1, 1, 20, 31)

        def kernel(x: float) -> float:
            x, a = abs(x), -0.75
            if x <= 1:
                return (a + 2) * x**3 - (a + 3) * x**2 + 1
            return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0

        for column in range(31):
            source = (column + 0.5) * 14 / 31.1 - 0.5
            taps = range(math.floor(source) - 1, math.floor(source) + 3)
            expected = sum(kernel(source - t) * values[min(max(t, 0), 13)].item() for t in taps)
            assert resized[0, 0, 10, column].item() == pytest.approx(expected, abs=1e-5)

    @pytest.mark.parametrize("family", ["clip", "eva"])
    def test_larger_and_other_shapes(self, load: Callable[..., ClipEncoder], family: str) -> None:
        encoder = load(family, frontend="clip")
        features = encoder.encode_pixels(pixels(3, 1, 256, 320))
        assert features.grid == (16, 20)
        assert features.patches.shape == (1, 320, 64)

    def test_rows_are_rows(self, load: Callable[..., ClipEncoder]) -> None:
        """Transposing model and picture transposes the grid: rows and columns are not confused."""
        encoder = load("clip", frontend="sc-clip")
        other = load("clip", frontend="sc-clip")
        tower = other.vision
        with torch.no_grad():
            patches = tower.positions[1:].view(14, 14, -1).transpose(0, 1).flatten(0, 1)
            tower.positions[1:] = patches.clone()
            weight = tower.patch_embed.weight.view(-1, 3, 16, 16).transpose(2, 3).flatten(1)
            tower.patch_embed.weight.copy_(weight.clone())
        images = pixels(4, 1, 64, 128)
        wide = encoder.encode_pixels(images)
        tall = other.encode_pixels(images.transpose(2, 3))
        assert (wide.grid, tall.grid) == ((4, 8), (8, 4))
        expected = wide.patches.view(4, 8, -1).transpose(0, 1).flatten(0, 1)
        torch.testing.assert_close(tall.patches[0], expected, atol=1e-4, rtol=0)


class TestText:
    def test_remembered(
        self, load: Callable[..., ClipEncoder], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        encoder = load("clip", frontend="clip")
        sizes: list[int] = []
        original = encoder.encode_tokens
        monkeypatch.setattr(
            encoder, "encode_tokens", lambda t: (sizes.append(len(t)), original(t))[1]
        )
        first = encoder.encode_text(["cat", "dog", "cat"])
        again = encoder.encode_text(["dog", "bird"])
        assert sizes == [2, 1]
        assert torch.equal(first[0], first[2])
        assert torch.equal(again[0], first[1])

    def test_memory_is_bounded(
        self, load: Callable[..., ClipEncoder], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(clip, "TEXT_CACHE", 3)
        encoder = load("clip", frontend="clip")
        vectors = encoder.encode_text(["a", "b", "c", "d", "e"])
        assert vectors.shape == (5, 64)
        assert list(encoder._text_cache) == ["c", "d", "e"]

    def test_batch_equals_one_by_one(self, encoder: ClipEncoder) -> None:
        texts = ["a", "a photo of a dog", "x " * 100]
        together = encoder.encode_tokens(encoder._tokenizer(texts))
        for text, vector in zip(texts, together, strict=True):
            alone = encoder.encode_tokens(encoder._tokenizer([text]))[0]
            torch.testing.assert_close(vector, alone, atol=1e-5, rtol=0)

    def test_padding_does_not_matter(self, encoder: ClipEncoder) -> None:
        padded = tokens()
        padded[:, 7:] = 49407  # as transformers pads
        torch.testing.assert_close(
            encoder.encode_tokens(padded), encoder.encode_tokens(tokens()), atol=1e-6, rtol=0
        )

    @pytest.mark.parametrize(
        ("bad", "message"),
        [
            ([[1, 2]], "torch tensor, not list"),
            (torch.zeros(1, 77), "int64.*float32"),
            (torch.zeros(1, 5, dtype=torch.int64), r"\(N, 77\).*\(1, 5\)"),
            (torch.zeros(0, 77, dtype=torch.int64), "N is 0"),
            (torch.full((1, 77), 49408), "0 to 49407"),
            (torch.full((1, 77), -1), "-1 to -1"),
        ],
    )
    def test_bad_tokens(self, encoder: ClipEncoder, bad: object, message: str) -> None:
        with pytest.raises(InputError, match=message):
            encoder.encode_tokens(bad)  # type: ignore[arg-type]

    def test_bad_texts(self, encoder: ClipEncoder) -> None:
        for bad in ("a cat", [], ["a", 3]):
            with pytest.raises(InputError):
                encoder.encode_text(bad)  # type: ignore[arg-type]


class TestPrecision:
    @pytest.mark.parametrize("family", ["clip", "eva"])
    @pytest.mark.parametrize("frontend", ["sc-clip", "itaclip", "naclip"])
    def test_half_is_near_and_features_stay_float32(
        self, load: Callable[..., ClipEncoder], family: str, frontend: str
    ) -> None:
        images = pixels(5, 2, 96, 96)
        encoder = load(family, frontend=frontend)
        exact = encoder.encode_pixels(images)
        encoder._model.half()  # what precision="float16" does on a GPU
        encoder._dtype = torch.float16
        half = encoder.encode_pixels(images)
        assert half.patches.dtype == torch.float32
        assert F.cosine_similarity(half.patches, exact.patches, dim=-1).mean() > 0.999
        assert F.cosine_similarity(half.cls, exact.cls, dim=-1).min() > 0.999

    def test_not_on_a_cpu(self, load: Callable[..., ClipEncoder]) -> None:
        with pytest.raises(InputError, match="needs a GPU"):
            load("clip", precision="bfloat16", device="cpu")


def test_spec_tells_what_makes_the_features(
    load: Callable[..., ClipEncoder], clip_file: Path
) -> None:
    import hashlib

    encoder = load("clip", frontend="sclip", image_size=64, fit="pad")
    spec = encoder.spec.to_dict()
    assert spec["weights_sha256"] == hashlib.sha256(clip_file.read_bytes()).hexdigest()
    assert (spec["frontend"], spec["dim"], spec["precision"]) == ("sclip", 64, "float32")
    assert spec["preprocessing"]["fit"] == "pad"
    assert "sclip" in repr(encoder)
    assert encoder.logit_scale == pytest.approx(100)


def test_it_is_an_encoder(encoder: ClipEncoder) -> None:
    assert isinstance(encoder, piaa.Encoder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image_size": 100}, "multiple of 16.*trained with 224"),
        ({"image_size": (224, 7)}, "patches of 16 x 16"),
        ({"image_size": 0}, "patches of 16 x 16"),
        ({"fit": "stretch"}, "squash"),
        ({"resize": "opencv"}, "torch"),
        ({"precision": "int3"}, "Unknown precision 'int3'"),
        ({"device": "quantum"}, "device='quantum'"),
        ({"head_width": 0}, "head_width"),
    ],
)
def test_bad_options(load: Callable[..., ClipEncoder], options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load("clip", **options)
