from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from piaa.errors import InputError
from piaa.features import sample
from piaa.features.sample import Sample, capacity, halves, image_ids


def vectors(seed: int, n: int, dim: int = 64) -> Tensor:
    """Unit vectors (n, dim) in a narrow cone, as global vectors of images are."""
    rng = np.random.RandomState(seed)
    drawn = rng.standard_normal((n, dim)) + 2 * rng.standard_normal(dim)
    return normalize(torch.from_numpy(drawn).float(), dim=-1)


def offer(ids: list[int] | Tensor, into: Sample | None = None) -> Sample:
    """Images that tell their id: patches (n, 2, 3) and cls hold it."""
    into = Sample() if into is None else into
    ids = torch.as_tensor(ids)
    values = (ids.float() / 1000)[:, None, None].expand(-1, 2, 3)
    into.update(values, values[:, 0], ids)
    return into


def content(of: Sample) -> list[tuple[int, float, float]]:
    order = of.order()
    return [
        (int(i), float(p[0, 0]), float(c[0]))
        for i, p, c in zip(of.ids[order], of.patches[order], of.cls[order], strict=True)
    ]


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sample, "SAMPLE_IMAGES", 64)
    return 64


class TestIds:
    def test_they_are_distinct_and_even(self) -> None:
        ids = image_ids(vectors(0, 20_000))
        assert ids.dtype == torch.int64
        assert len(ids.unique()) == 20_000
        assert 0.48 < halves(ids).float().mean() < 0.52
        assert 0.48 < (ids < 0).float().mean() < 0.52

    def test_the_same_for_the_same_picture(self) -> None:
        cls = vectors(1, 50)
        ids = image_ids(cls)
        assert torch.equal(image_ids(cls.double()), ids)
        assert torch.equal(image_ids(cls[10:20]), ids[10:20])

    def test_rounding_of_the_encoder_changes_next_to_none(self) -> None:
        """Other batch sizes change an encoder's vectors by about 1e-7."""
        cls = vectors(2, 10_000, 512)
        noise = 1e-7 * torch.from_numpy(np.random.RandomState(3).uniform(-1, 1, cls.shape)).float()
        changed = (image_ids(cls) != image_ids(cls + noise)).float().mean()
        assert changed < 5e-4

    def test_pictures_that_are_alike_differ(self) -> None:
        cls = vectors(4, 2000, 512)
        other = torch.from_numpy(np.random.RandomState(5).standard_normal(cls.shape)).float()
        near = normalize(cls + 0.15 * normalize(other, dim=-1), dim=-1)
        assert ((cls * near).sum(-1) > 0.985).all()
        assert (image_ids(cls) == image_ids(near)).float().mean() < 2e-3


class TestSample:
    def test_the_lowest_are_kept(self, room: int) -> None:
        ids = torch.from_numpy(np.random.RandomState(0).permutation(300)) - 150
        kept = offer(ids)
        assert [i for i, _, _ in content(kept)] == list(range(-150, -150 + room))
        for number, patch, cls in content(kept):
            assert cls == pytest.approx(number / 1000)
            assert patch == (0 if number == 0 else math.copysign(127, number))
        assert kept.patches.dtype == torch.int8
        assert kept._patches.shape[0] == room
        assert not kept.complete

    @settings(max_examples=40, deadline=None)
    @given(data=st.data())
    def test_any_history_gives_the_same(self, data: st.DataObject) -> None:
        n = data.draw(st.integers(1, 120))
        ids = np.random.RandomState(1).permutation(1000)[:n].tolist()
        expected = offer(ids)
        order = data.draw(st.permutations(ids))
        cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=4)))
        parts = [order[a:b] for a, b in zip([0, *cuts], [*cuts, n], strict=True)]
        streamed, merged = Sample(), Sample()
        for part in parts:
            if part:
                offer([*part, part[0]], streamed)
                merged.merge(offer(part))
        for found in (streamed, merged):
            assert content(found) == content(expected)
            assert found.complete == expected.complete == (n <= 64)

    def test_merging_leaves_the_other_alone(self) -> None:
        one, other = offer(list(range(100, 160))), offer(list(range(50)))
        before = content(other)
        one.merge(other)
        assert content(other) == before
        assert len(one) == 64
        one.merge(Sample())
        assert len(one) == 64

    def test_directions_survive(self) -> None:
        vectors = normalize(
            torch.randn(3, 4, 512, generator=torch.Generator().manual_seed(0)), dim=-1
        )
        kept = Sample()
        kept.update(vectors, vectors[:, 0], torch.arange(3))
        back = normalize(kept.patches[kept.order()].float(), dim=-1)
        assert (back * vectors).sum(-1).min() > 1 - 1e-4

    def test_bounded_by_bytes_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sample, "SAMPLE_IMAGES", 10_000)
        monkeypatch.setattr(sample, "SAMPLE_BYTES", 100 * 6)
        assert capacity(2, 3) == 100
        assert len(offer(list(range(300)))) == 100
        assert capacity(10_000, 1000) == 64  # fewer would be no sample

    def test_images_of_another_shape(self) -> None:
        with pytest.raises(InputError, match=r"5 patches of 3 numbers .* 2 x 3"):
            offer([1]).update(torch.zeros(1, 5, 3), torch.zeros(1, 3), torch.tensor([2]))
