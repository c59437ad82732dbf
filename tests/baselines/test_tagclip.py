"""TagCLIP against its slow plain form, and each pass against the encoder's own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from plain_tagclip import PlainTagClip, plain_boxes
from torch import Tensor
from torch.nn.functional import normalize

from fake_encoder import ColorEncoder
from piaa.baselines import make_method
from piaa.baselines.attention import (
    attention_pass,
    masked_class_vectors,
    with_bilinear_positions,
)
from piaa.baselines.refinement import component_boxes, dual_mask_refine, find_candidates
from piaa.baselines.tagclip import TagClip, background_words, native_size
from piaa.classes.class_list import ClassList
from piaa.datasets.names import COCO, VOC
from piaa.encoders.clip import ClipEncoder
from piaa.encoders.tiled import TiledEncoder
from piaa.errors import InputError, UnknownNameError
from piaa.images import Preprocessing, preprocess
from recipe import clip_checkpoint, pixels

Load = Callable[..., ClipEncoder]
CLASSES = ["cat", "dog", "person", "boat", "train", "sofa"]


@pytest.fixture(scope="module")
def state() -> dict[str, Tensor]:
    return clip_checkpoint(7)


@pytest.fixture(scope="module")
def encoder(load: Load) -> ClipEncoder:
    return load("clip")


@pytest.fixture(scope="module")
def method(encoder: ClipEncoder) -> TagClip:
    return TagClip(encoder, CLASSES)


@pytest.mark.parametrize(
    ("size", "level"),
    [((112, 160), 0.5), ((160, 96), 0.5), ((112, 160), 0.2), ((224, 224), 0.5)],
    ids=str,
)
def test_equals_the_plain_form(
    encoder: ClipEncoder, state: dict[str, Tensor], size: tuple[int, int], level: float
) -> None:
    image = pixels(41, 1, *size)
    # Few words of a random text tower would be found anywhere: these are near some of the patches.
    patches = encoder.encode_pixels(image).patches[0]
    names = [*CLASSES, "sky", "wall"]
    text = normalize(patches[:: len(patches) // len(names)][: len(names)] + 0.05, dim=1)
    method = TagClip(encoder, CLASSES, background=names[-2:], level=level)
    words = encoder.encode_text([f"a photo of a {name}" for name in names])
    torch.testing.assert_close(method._prototypes, words)
    method._prototypes = text

    expected = PlainTagClip(state, text, len(CLASSES)).run(image[0], level=level)
    found = method.tag_pixels(image)

    assert found.grid == (size[0] // 16, size[1] // 16)
    assert list(found.candidates) == expected.candidates
    assert len(found.candidates) >= 2
    torch.testing.assert_close(found.refined.double(), expected.refined, atol=2e-5, rtol=0)
    scores = torch.tensor(expected.scores, dtype=torch.float64)
    torch.testing.assert_close(found.scores.double(), scores, atol=2e-5, rtol=0)


@pytest.mark.parametrize("family", ["clip", "eva"])
def test_passes_are_the_encoders_own_where_nothing_is_hidden(load: Load, family: str) -> None:
    encoder = load(family, frontend="maskclip")
    images = pixels(44, 2)
    tower = with_bilinear_positions(encoder.vision)
    own = encoder.encode_pixels(images)
    with torch.no_grad():
        vectors, affinity, grid = attention_pass(tower, images[:1], first_block=8, votes=4)
        everything = masked_class_vectors(tower, images, torch.ones(2, 196, dtype=torch.bool))
        nothing = masked_class_vectors(tower, images, torch.zeros(2, 196, dtype=torch.bool))
    assert grid == (14, 14)
    assert affinity.shape == (196, 196)
    torch.testing.assert_close(normalize(vectors, dim=1), own.patches[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(normalize(everything, dim=1), own.cls, atol=1e-5, rtol=0)
    assert (normalize(nothing, dim=1) - own.cls).abs().max() > 1e-2
    wide = TagClip(encoder, CLASSES, level=0.0).tag_pixels(pixels(44, 1, 64, 112))
    assert wide.grid == (4, 7)
    assert wide.scores.isfinite().all()
    assert wide.candidates


def test_fewer_votes_keep_more_pairs(method: TagClip) -> None:
    image = pixels(45, 1, 64, 96)
    with torch.no_grad():
        kept = [
            attention_pass(method._tower, image, first_block=8, votes=votes)[1] for votes in (1, 12)
        ]
    assert (kept[0] > 0).sum() > (kept[1] > 0).sum()
    assert torch.equal(kept[0].where(kept[1] > 0, 0), kept[1])


def test_other_positions_leave_the_encoder_alone(encoder: ClipEncoder) -> None:
    image = pixels(47, 1, 64, 96)
    before = encoder.encode_pixels(image).patches
    TagClip(encoder, CLASSES).tag_pixels(image)
    assert torch.equal(encoder.encode_pixels(image).patches, before)


def test_pictures_are_scored_at_their_own_size(method: TagClip) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (3, 7, 9, 3), dtype=np.uint8)
    pictures = [
        Image.fromarray(each).resize(size, Image.Resampling.BICUBIC)
        for each, size in zip(noise, [(90, 60), (64, 100), (33, 33)], strict=True)
    ]
    scores = method.scores(pictures)
    assert scores.shape == (3, len(CLASSES))
    assert scores.dtype == torch.float32
    for picture, row in zip(pictures, scores, strict=True):
        rows, columns = (-(-side // 16) * 16 for side in (picture.height, picture.width))
        whole, _ = preprocess(picture, Preprocessing((rows, columns), fit="squash"))
        assert torch.equal(row, method.tag_pixels(whole[None]).scores)


def test_a_picture_of_too_many_patches_is_scaled_down(encoder: ClipEncoder) -> None:
    picture = Image.fromarray(
        np.random.default_rng(1).integers(0, 256, (96, 192, 3), dtype=np.uint8)
    )
    small = TagClip(encoder, CLASSES, most_patches=32)
    assert small.tag(picture).grid == (4, 8)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 11),
    st.floats(0.1, 0.9),
    st.integers(0, 2**31 - 1),
)
def test_boxes_equal_those_of_flooding(rows: int, columns: int, share: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    masks = torch.rand(5, rows, columns, generator=generator) < share
    expected = torch.stack([plain_boxes(mask) for mask in masks])
    assert torch.equal(component_boxes(masks), expected)


def test_a_component_as_long_as_a_snake_is_one() -> None:
    mask = torch.zeros(1, 15, 21, dtype=torch.bool)
    mask[0, ::2] = True
    mask[0, 1::4, -1] = True
    mask[0, 3::4, 0] = True
    assert torch.equal(component_boxes(mask)[0], plain_boxes(mask[0]))
    assert component_boxes(mask)[0, :-1, :-1].all()


def test_refinement_is_zero_where_attention_is() -> None:
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(30, 4, generator=generator).softmax(dim=1)
    assert not dual_mask_refine(coarse, torch.zeros(30, 30), (5, 6)).any()


def test_refinement_is_linear_in_the_attention() -> None:
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(30, 4, generator=generator).softmax(dim=1)
    affinity = torch.rand(30, 30, generator=generator)
    once, twice = (dual_mask_refine(coarse, factor * affinity, (5, 6)) for factor in (1, 2))
    torch.testing.assert_close(2 * once, twice)


def test_a_class_in_the_last_row_alone_does_not_hide_those_after_it() -> None:
    refined = torch.zeros(4 * 5, 3)
    refined[-2, 0] = 1.0
    refined[6, 1] = 0.9
    refined[12, 2] = 0.8
    found = find_candidates(refined, (4, 5), n_classes=2, level=0.5)
    assert found.classes == [1]
    assert found.boxes == [(1, 1, 2, 2)]


@pytest.mark.parametrize(
    ("names", "count"), [(list(VOC.values()), 25), (list(COCO), 23)], ids=["voc", "coco"]
)
def test_background_words_are_the_published_ones(names: list[str], count: int) -> None:
    assert len(background_words(ClassList.of(names))) == count


@pytest.mark.parametrize("size", [(1, 1), (16, 17), (480, 640), (5000, 3), (3, 9000), (4000, 6000)])
def test_native_size_is_whole_patches_within_the_limit(size: tuple[int, int]) -> None:
    rows, columns = native_size(size, patch=16, most_patches=500)
    assert rows % 16 == columns % 16 == 0
    assert 1 <= (rows // 16) * (columns // 16) <= 500
    if -(-size[0] // 16) * -(-size[1] // 16) <= 500:
        assert 0 <= rows - size[0] < 16
        assert 0 <= columns - size[1] < 16


def test_options_are_used(encoder: ClipEncoder) -> None:
    image = pixels(48, 1, 96, 96)
    plain = TagClip(encoder, CLASSES).tag_pixels(image).scores
    for options in (
        {"template": ["a {}", "the {}"]},
        {"background": []},
        {"background": ["sky"]},
        {"level": 0.05},
        {"first_block": 2},
        {"votes": 9},
    ):
        changed = make_method("tagclip", encoder, CLASSES, **options)
        assert not torch.equal(changed.tag_pixels(image).scores, plain), options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 1.5}, r"level must be a number in \[0, 1\], not 1.5"),
        ({"first_block": 11}, "first_block must be a whole number from 0 to 10, not 11"),
        ({"votes": 0}, "votes must be a whole number from 1 to 12, not 0"),
        ({"most_patches": 1.0}, "most_patches must be a whole number"),
        ({"background": ["sky", "Cat"]}, "there twice"),
        ({"background": "sky"}, "background must be a list of words, not 'sky'"),
        ({"template": []}, "template is empty"),
    ],
)
def test_refuses_options(encoder: ClipEncoder, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TagClip(encoder, CLASSES, **options)


def test_refuses_encoders_without_attention(encoder: ClipEncoder) -> None:
    for other in (ColorEncoder(), TiledEncoder(encoder)):
        with pytest.raises(InputError, match="attention maps of a CLIP transformer"):
            make_method("tagclip", other, CLASSES)


def test_refuses_features_and_nothing(method: TagClip) -> None:
    with pytest.raises(InputError, match="pictures at their own resolution"):
        method.scores(method.encoder.encode_pixels(pixels(49, 1)))
    with pytest.raises(InputError, match="no images"):
        method.scores([])
    for shape in ((2, 3, 32, 32), (1, 3, 32, 40), (3, 32, 32)):
        with pytest.raises(InputError, match="H and W multiples of 16, not"):
            method.tag_pixels(torch.zeros(shape))


def test_says_what_it_costs(method: TagClip) -> None:
    assert method.forward_passes == "1 at native resolution + 1 at 224 x 224 for each class found"
    assert method.needs_pictures
    with pytest.raises(UnknownNameError, match="Unknown option of method 'tagclip' 'vote'"):
        make_method("tagclip", method.encoder, CLASSES, vote=3)
