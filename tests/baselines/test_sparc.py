"""SPARC against a plain form in numpy and scikit-learn, and its algebra."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from torch import Tensor
from torch.nn.functional import normalize

from fake_encoder import FeatureEncoder
from piaa.baselines.compounds import Compounds, all_pairs, likely_groups, mentioned
from piaa.baselines.sparc import Sparc, fuse
from piaa.classes.class_list import ClassList
from piaa.encoders.base import ImageFeatures
from piaa.errors import InputError

NAMES = ["cat", "dog", "person", "boat", "hot dog"]
DIM = 24
SENTENCES = ["two dogs on a boat", "people eating hot dogs", "a cat", "an empty street"]


def world(seed: int, n_images: int = 80) -> tuple[FeatureEncoder, ImageFeatures]:
    """Words of random directions; sentences and images are mixtures of them, with noise."""
    rng = np.random.RandomState(seed)

    def noise(*shape: int) -> Tensor:
        return torch.from_numpy(rng.standard_normal((*shape, DIM)).astype(np.float32)) / DIM**0.5

    vectors = noise(len(NAMES))
    words = dict(zip(NAMES, vectors, strict=True))
    words |= {f"a {name}": vector + 0.3 * noise() for name, vector in list(words.items())}
    for count in (2, 3):
        for group in combinations(range(len(NAMES)), count):
            words[text_of([NAMES[c] for c in group])] = vectors[list(group)].sum(0) + 0.3 * noise()
    words |= {sentence: noise() for sentence in SENTENCES}
    labels = torch.from_numpy(rng.rand(n_images, len(NAMES)) < 0.4).float()
    cls = normalize(labels @ vectors + 0.7 * noise(n_images), dim=1)
    encoder = FeatureEncoder({text: normalize(v, dim=0) for text, v in words.items()})
    return encoder, ImageFeatures(cls, cls[:, None], (1, 1))


def text_of(names: list[str]) -> str:
    if len(names) == 2:
        return f"{names[0]} and {names[1]}"
    return f"{names[0]}, {names[1]}, and {names[2]}"


def plain_scores(
    encoder: FeatureEncoder, images: ImageFeatures, compounds: Compounds, template: str
) -> np.ndarray:
    """The published steps, class by class and with scikit-learn's PCA."""
    cls = images.cls.double().numpy()

    def cosines(texts: list[str]) -> np.ndarray:
        return cls @ np.array([encoder.words[text].double().numpy() for text in texts]).T

    own = cosines([template.replace("{}", name) for name in NAMES])
    plain = cosines(NAMES)
    own = (own - own.mean(1, keepdims=True)) / own.std(1, ddof=1, keepdims=True)
    own = (own - own.mean(0)) / own.std(0, ddof=1)
    out = own.copy()
    for c in range(len(NAMES)):
        texts = [
            t for t, m in zip(compounds.texts, compounds.members.tolist(), strict=True) if m[c]
        ]
        if not texts:
            continue
        joint = (cosines(texts) - plain.mean(1, keepdims=True)) / plain.std(
            1, ddof=1, keepdims=True
        )
        joint = (joint - joint.mean(0)) / joint.std(0, ddof=1)
        ranked = np.column_stack([np.sort(joint, axis=1), own[:, c]])
        direction = PCA().fit(ranked).components_[0]
        if direction.mean() < 0:
            direction = -direction
        out[:, c] = 0.5 * own[:, c] + 0.5 * ranked @ (direction / np.abs(direction).sum())
    return out


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("template", ["{}", "a {}"])
def test_all_pairs_equal_the_plain_form(seed: int, template: str) -> None:
    encoder, images = world(seed)
    method = Sparc(encoder, NAMES, template=template, compounds="all-pairs")
    expected = plain_scores(encoder, images, all_pairs(method.classes), template)
    np.testing.assert_allclose(method.scores(images).numpy(), expected, atol=1e-5)


def test_pseudo_labels_equal_the_plain_form_with_the_groups_they_give() -> None:
    encoder, images = world(3, 120)
    _, other = world(3, 300)
    method = Sparc(encoder, NAMES)
    method.fit(other)
    groups = method._compounds
    assert groups is not None
    assert any(len(row.nonzero()) == 3 for row in groups.members)
    expected = plain_scores(encoder, images, groups, "{}")
    np.testing.assert_allclose(method.scores(images).numpy(), expected, atol=1e-5)


def test_without_fit_the_scored_images_tell_which_classes_go_together() -> None:
    encoder, images = world(4)
    fitted = Sparc(encoder, NAMES)
    fitted.fit(images)
    assert torch.equal(Sparc(encoder, NAMES).scores(images), fitted.scores(images))


def test_sentences_equal_the_plain_form() -> None:
    encoder, images = world(5)
    method = Sparc(encoder, NAMES, compounds=SENTENCES)
    expected = plain_scores(encoder, images, mentioned(SENTENCES, method.classes), "{}")
    np.testing.assert_allclose(method.scores(images).numpy(), expected, atol=1e-5)
    assert not method.learns
    method.fit([])  # nothing to learn, so nothing is read
    np.testing.assert_allclose(method.scores(images).numpy(), expected, atol=1e-5)


def test_a_class_without_compounds_keeps_its_own_score() -> None:
    encoder, images = world(6)
    some, none = (Sparc(encoder, NAMES, compounds=c).scores(images) for c in (SENTENCES, []))
    same = [torch.equal(some[:, c], none[:, c]) for c in range(len(NAMES))]
    assert same == [False, False, False, False, False]
    few = Sparc(encoder, NAMES, compounds=SENTENCES[:1]).scores(images)
    same = [torch.equal(few[:, c], none[:, c]) for c in range(len(NAMES))]
    assert same == [True, False, True, False, True]
    torch.testing.assert_close(none.mean(0), torch.zeros(5), atol=1e-6, rtol=0)
    torch.testing.assert_close(none.std(0), torch.ones(5))


def test_order_of_images_and_batches_does_not_matter() -> None:
    encoder, images = world(7)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    moved = ImageFeatures(images.cls[order], images.patches[order], (1, 1))
    method = Sparc(encoder, NAMES)
    scores = method.scores(images)
    torch.testing.assert_close(method.scores(moved), scores[order], atol=1e-5, rtol=0)
    assert torch.equal(method.scores([images[:30], images[30:]]), scores)


def test_order_of_sentences_does_not_matter() -> None:
    encoder, images = world(8)
    one, other = (Sparc(encoder, NAMES, compounds=s) for s in (SENTENCES, SENTENCES[::-1]))
    torch.testing.assert_close(one.scores(images), other.scores(images), atol=1e-6, rtol=0)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31 - 1), st.integers(1, 6))
def test_fusing_a_score_with_itself_changes_nothing(seed: int, copies: int) -> None:
    own = torch.randn(50, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    torch.testing.assert_close(fuse(own, own[:, None].expand(-1, copies)), own)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_fusion_is_of_first_degree_and_ignores_the_order_of_compounds(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    own = torch.randn(60, generator=generator, dtype=torch.float64)
    compound = own[:, None] + 0.5 * torch.randn(60, 4, generator=generator, dtype=torch.float64)
    fused = fuse(own, compound)
    torch.testing.assert_close(fuse(3 * own, 3 * compound), 3 * fused)
    torch.testing.assert_close(fuse(own, compound[:, [2, 0, 3, 1]]), fused)


@pytest.mark.parametrize("seed", range(4))
def test_groups_equal_those_of_counting(seed: int) -> None:
    rng = np.random.RandomState(seed)
    labels = rng.rand(400, 7) < rng.uniform(0.02, 0.3, 7)
    labels[:, 6] = labels[:, 0] & (rng.rand(400) < 0.1)
    pairs, triples = set(), set()
    for i, j in combinations(range(7), 2):
        both = (labels[:, i] & labels[:, j]).sum()
        if max(both / max(1, labels[:, k].sum()) for k in (i, j)) > 0.05:
            pairs.add((i, j))
            shares = [
                (labels[:, i] & labels[:, j] & labels[:, k]).sum() / both if k not in (i, j) else 0
                for k in range(7)
            ]
            if max(shares) > 0.025:
                triples.add(tuple(sorted((i, j, int(np.argmax(shares))))))
    classes = ClassList.of([f"thing {chr(97 + c)}" for c in range(7)])
    found = likely_groups(torch.from_numpy(labels), classes)
    groups = [tuple(row.nonzero().flatten().tolist()) for row in found.members]
    assert len(groups) == len(set(groups)) == len(found.texts)
    assert set(groups) == pairs | triples
    for text, group in zip(found.texts, groups, strict=True):
        assert text == text_of([classes.names[c] for c in group])


def test_no_labels_give_no_groups() -> None:
    classes = ClassList.of(NAMES)
    assert likely_groups(torch.zeros(9, 5, dtype=torch.bool), classes).texts == ()
    assert likely_groups(torch.eye(5).bool(), classes).texts == ()


def test_sentences_speak_of_the_classes_they_name() -> None:
    found = mentioned(SENTENCES, ClassList.of(NAMES)).members
    named = [[NAMES[c] for c in row.nonzero().flatten()] for row in found]
    assert named == [["dog", "boat"], ["person", "hot dog"], ["cat"], []]


def test_refuses_too_little() -> None:
    encoder, images = world(9)
    with pytest.raises(InputError, match="'cat' is the only one"):
        Sparc(encoder, ["cat"])
    with pytest.raises(InputError, match="at least 2, not 1"):
        Sparc(encoder, NAMES).scores(images[:1])
    message = "fuses up to 5 scores a class by their spread over images, and needs more than"
    with pytest.raises(InputError, match=message):
        Sparc(encoder, NAMES, compounds="all-pairs").scores(images[:5])
    with pytest.raises(InputError, match="no images"):
        Sparc(encoder, NAMES).scores([])
    for compounds in ("pairs", [3]):
        with pytest.raises(InputError, match=re.escape("'all-pairs' or a list of sentences")):
            Sparc(encoder, NAMES, compounds=compounds)
