"""An image's features do not depend on the batch it comes in.

The published SC-CLIP code breaks this in three ways, each of which has its own test: outliers of the
first image used for all, one mean of the similarities for the whole batch, and similarities of
other images in the heads.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from piaa.encoders.clip import ClipEncoder
from piaa.encoders.frontends import FRONTENDS
from piaa.encoders.frontends.base import LastBlock, Trunk
from piaa.encoders.frontends.outliers import find_outliers, repair
from piaa.encoders.frontends.sc_clip import similarity_attention
from recipe import pixels

TOLERANCE = {"atol": 1e-5, "rtol": 0}


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return pixels(41, 5, 96, 128)


@pytest.mark.parametrize("name", FRONTENDS)
@pytest.mark.parametrize("family", ["clip", "eva"])
def test_alone_first_last_duplicated_and_beside_black(
    load: Callable[..., ClipEncoder], images: torch.Tensor, family: str, name: str
) -> None:
    encoder = load(family, frontend=name)
    alone = [encoder.encode_pixels(image[None]) for image in images]
    black = torch.full_like(images[:1], -1.8)
    batches = {
        "in order": [0, 1, 2, 3, 4],
        "reversed": [4, 3, 2, 1, 0],
        "with duplicates": [2, 2, 0, 2, 1],
        "two": [3, 1],
    }
    for title, order in batches.items():
        together = encoder.encode_pixels(images[order])
        for place, index in enumerate(order):
            for part in ("cls", "patches"):
                torch.testing.assert_close(
                    getattr(together, part)[place],
                    getattr(alone[index], part)[0],
                    msg=lambda m, t=title: f"{t}: {m}",
                    **TOLERANCE,
                )
    beside = encoder.encode_pixels(torch.cat([black, images[:2], black]))
    torch.testing.assert_close(
        beside.patches[1:3], torch.cat([a.patches for a in alone[:2]]), **TOLERANCE
    )
    assert beside.patches.isfinite().all()


def test_more_images_than_one_chunk(load: Callable[..., ClipEncoder], images: torch.Tensor) -> None:
    encoder = load("clip", frontend="sc-clip")
    many = images.repeat(4, 1, 1, 1)
    assert len(many) > encoder.default_batch_size
    features = encoder.encode_pixels(many)
    torch.testing.assert_close(features.patches[:5], features.patches[-5:], **TOLERANCE)


def test_each_image_has_its_own_outliers() -> None:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randn(2, 49, 8, generator=generator)
    tokens[0, 3] += 30
    tokens[1, 40] += 30
    outliers = find_outliers(tokens, neighbors=10, contamination=0.02, textbook=False)
    assert [row.nonzero().flatten().tolist() for row in outliers] == [[3], [40]]
    mended = repair(outliers, (7, 7)) @ tokens
    assert torch.equal(mended[0, 40], tokens[0, 40])
    assert torch.equal(mended[1, 3], tokens[1, 3])


def test_similarities_are_centered_per_image() -> None:
    generator = torch.Generator().manual_seed(1)
    similarity = torch.rand(2, 9, 9, generator=generator)
    similarity[1] = 0.1 * similarity[1]  # a joint mean would cut this image off entirely
    together = similarity_attention(similarity)
    assert torch.equal(together[1], similarity_attention(similarity[1:])[0])
    assert together.isfinite().all()


def test_every_head_sees_its_own_images_similarities(load: Callable[..., ClipEncoder]) -> None:
    """With k-k attention made uniform, only the similarities tell patches apart."""
    encoder = load("clip", frontend="sc-clip")
    frontend, block = encoder.frontend, encoder.vision.blocks[-1]
    generator = torch.Generator().manual_seed(2)
    batch, patches, width = 3, 9, 128
    x = torch.randn(batch, patches, width, generator=generator)
    steer = torch.stack(
        [torch.eye(patches)[torch.randperm(patches, generator=generator)] for _ in range(batch)]
    )
    cls = torch.zeros(batch, 1, width)
    trunk = Trunk(grid=(3, 3), rotate=None)
    last = LastBlock(block, torch.cat([cls, x], dim=1), None)
    with torch.no_grad():
        together = frontend._attend(x, cls, steer, trunk, last)
        for image in range(batch):
            one = slice(image, image + 1)
            alone = frontend._attend(x[one], cls[one], steer[one], trunk, last)
            torch.testing.assert_close(together[one], alone, **TOLERANCE)
            shuffled = frontend._attend(x[one], cls[one], steer[[(image + 1) % batch]], trunk, last)
            assert (shuffled - alone).abs().max() > 1e-2  # so a mix-up would show
