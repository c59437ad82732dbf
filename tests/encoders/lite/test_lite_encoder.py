"""The encoder's surface: shapes, lengths, sizes, caches and refusals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from lite_samples import TINY_REPEATS, tiny_state
from PIL import Image

from piaa.encoders.base import Encoder
from piaa.encoders.lite.encoder import CONTEXT, LiteEncoder
from piaa.encoders.lite.loading import load_lite
from piaa.encoders.lite.network import fold_network, run_network
from piaa.errors import InputError, UnknownNameError


@pytest.fixture(scope="module")
def tiny(make_tiny: Callable[..., LiteEncoder]) -> LiteEncoder:
    return make_tiny()


def picture(rows: int, columns: int, seed: int = 0) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (rows, columns, 3), dtype=np.uint8)
    return Image.fromarray(noise)


def test_it_is_an_encoder(tiny: LiteEncoder) -> None:
    assert isinstance(tiny, Encoder)
    assert (tiny.dim, tiny.spec.dim, tiny.spec.frontend) == (1280, 1280, "none")


def test_pictures_become_the_networks_features(tiny: LiteEncoder) -> None:
    image = picture(64, 96)  # of the canvas' size: nothing is resized
    features = tiny.encode_images([image])
    pixels = (torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() - 127) / 128
    plain = run_network(fold_network(tiny_state(), TINY_REPEATS), pixels)
    cells = plain[0].flatten(1).T
    assert features.grid == (2, 3)
    assert len(features.placements) == 1
    whole = F.normalize(cells.mean(0), dim=0)
    in_context = F.normalize(F.normalize(cells, dim=1) + CONTEXT * whole, dim=1)
    torch.testing.assert_close(features.patches[0], in_context, atol=1e-5, rtol=0)
    torch.testing.assert_close(features.cls[0], whole, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("size", "grid"),
    [((64, 96), (2, 3)), ((65, 96), (3, 3)), ((31, 1), (1, 1)), ((100, 40), (4, 2))],
)
def test_pixels_of_any_size(
    tiny: LiteEncoder, size: tuple[int, int], grid: tuple[int, int]
) -> None:
    features = tiny.encode_pixels(torch.rand(11, 3, *size, dtype=torch.float64) - 0.5)
    assert features.grid == grid
    assert features.patches.shape == (11, grid[0] * grid[1], 1280)
    assert features.patches.dtype == features.cls.dtype == torch.float32
    for vectors in (features.cls, features.patches):
        torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(vectors.shape[:-1]))


def test_batches_do_not_change_the_features(tiny: LiteEncoder) -> None:
    images = [picture(50, 70, seed) for seed in range(5)]
    together = tiny.encode_images(images, batch_size=5)
    one_by_one = list(tiny.stream_images(images, batch_size=1))
    assert [len(part) for part in one_by_one] == [1] * 5
    alone = torch.cat([part.patches for part in one_by_one])
    torch.testing.assert_close(together.patches, alone, atol=1e-5, rtol=0)


def test_on_several_cores_a_picture_is_encoded_as_on_one(tiny: LiteEncoder) -> None:
    images, before = [picture(50, 70, seed) for seed in range(5)], torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = [tiny.encode_images([image]).patches for image in images]
        torch.set_num_threads(2)
        together = tiny.encode_images(images).patches
    finally:
        torch.set_num_threads(before)
    assert torch.equal(together, torch.cat(alone))


def test_cells_where_nothing_is_active_get_the_neutral_direction(
    make_tiny: Callable[..., LiteEncoder],
) -> None:
    encoder = make_tiny()
    cells = torch.zeros(2, 1280, 1, 2)
    cells[0, 7, 0, 1] = 3.0
    encoder._network = lambda pixels: cells[pixels[:, 0, 0, 0].long()]
    features = encoder.encode_pixels(torch.arange(2.0).view(2, 1, 1, 1).expand(2, 3, 32, 64))
    one = F.one_hot(torch.tensor(7), 1280).float()
    in_context = F.normalize(encoder.neutral + CONTEXT * one, dim=0)
    torch.testing.assert_close(features.patches[0], torch.stack([in_context, one]))
    torch.testing.assert_close(features.patches[1], encoder.neutral.expand(2, -1))
    torch.testing.assert_close(features.cls, torch.stack([one, encoder.neutral]))
    torch.testing.assert_close(encoder.neutral.norm(), torch.tensor(1.0))
    assert (encoder._word_map.rows @ encoder.neutral).abs().max() < 1e-5


def test_the_spec_tells_encoders_apart(make_tiny: Callable[..., LiteEncoder]) -> None:
    assert make_tiny((64, 64)).spec == make_tiny((64, 64)).spec
    assert make_tiny((64, 64)).spec != make_tiny((64, 96)).spec


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (np.zeros((1, 3, 32, 32)), "torch tensor, not ndarray"),
        (torch.zeros(3, 32, 32), r"\(B, 3, H, W\)"),
        (torch.zeros(0, 3, 32, 32), "at least one image"),
        (torch.zeros(1, 3, 32, 32, dtype=torch.uint8), "encode_images"),
        (torch.full((2, 3, 32, 32), torch.nan), r"NaN or infinity in images \[0, 1\]"),
    ],
)
def test_bad_pixels(tiny: LiteEncoder, pixels: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        tiny.encode_pixels(pixels)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("dog", r"Pass \['dog'\]"),
        ([], "texts is empty"),
        (7, "got int"),
        (["dog", 7], r"texts\[1\] must be a string, got int"),
        (["dog", "\ud800"], r"texts\[1\] holds half"),
    ],
)
def test_bad_texts(tiny: LiteEncoder, texts: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        tiny.encode_text(texts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frontend": "sc-clip"}, "frontend='sc-clip' was asked for, but 'lite' has none"),
        ({"image_size": 31}, "at least 32 pixels a side, not 31"),
        ({"image_size": (320, 0)}, "image_size must be"),
        ({"device": "abacus"}, "device='abacus' is not a device"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_lite("lite", **options)  # type: ignore[arg-type]


def test_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match="lite-fast"):
        load_lite("lite-fats")


def test_texts_are_unit_vectors_and_remembered(lite: LiteEncoder) -> None:
    texts = ["dog", "a photo of a dog", "something else entirely", "dog", "狗"]
    vectors = lite.encode_text(texts)
    assert (vectors.shape, vectors.dtype) == ((5, 1280), torch.float32)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(5))
    torch.testing.assert_close(vectors[1], vectors[0])
    alone = torch.cat([lite.encode_text([text]) for text in texts])
    assert torch.equal(alone, vectors)
    lite._text_cache.clear()
    again = torch.cat([lite.encode_text([text]) for text in reversed(texts)]).flip(0)
    torch.testing.assert_close(again, vectors, atol=1e-5, rtol=0)


def test_a_photograph_goes_to_its_words(lite: LiteEncoder) -> None:
    """scikit-learn ships two photographs: a temple in China and a dahlia."""
    from sklearn.datasets import load_sample_images

    temple, flower = (np.asarray(image) for image in load_sample_images().images)
    features = lite.encode_images([temple, flower])
    cosines = features.cls @ lite.encode_text(["temple", "flower", "dog", "car"]).T
    assert cosines.argmax(1).tolist() == [0, 1]
    assert "ML Illustrated" in lite.licence
    assert "Princeton" in lite.licence


def test_a_gpu_is_not_waited_for(make_tiny: Callable[..., LiteEncoder]) -> None:
    """On "meta" tensors, which have no values, whatever looks at one raises; see test_no_waiting.py."""
    encoder, meta = make_tiny(), torch.device("meta")
    encoder.__dict__["neutral"] = encoder.neutral.to(meta)
    layers = [layer.to(meta) for layer in fold_network(tiny_state(), TINY_REPEATS)]
    encoder._network, encoder.device = partial(run_network, layers), meta
    features = encoder._encode(torch.empty(2, 3, 64, 96, device=meta))
    assert features.patches.device == meta
    assert features.grid == (2, 3)
