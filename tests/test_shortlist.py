"""The two-step search against the full computation."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from fake_encoder import FeatureEncoder
from piaa import Config, Recognizer
from piaa.auto.beyond import Beyond
from piaa.auto.company import Company
from piaa.auto.weighting import BranchWeights
from piaa.encoders.base import ImageFeatures
from piaa.errors import InputError
from piaa.pvcl import Classifier
from piaa.scoring import Scales, Scorer
from piaa.shortlist import Clusters, Shortlist

FAMILIES, EACH, DIM = 40, 25, 32


def words_and_images(seed: int = 0) -> tuple[Tensor, ImageFeatures]:
    """1,000 words in 40 families, and 12 images that each show two words on some patches."""
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random) / DIM**0.5

    families = normal(FAMILIES, DIM).repeat_interleave(EACH, 0)
    words = normalize(families + 0.5 * normal(FAMILIES * EACH, DIM), dim=1)
    shown = torch.randint(len(words), (12, 2), generator=random)
    kinds = shown.gather(1, torch.randint(2, (12, 30), generator=random))
    strength = torch.rand(12, 30, 1, generator=random)
    patches = normalize(strength * words[kinds] + 0.5 * normal(12, 30, DIM), dim=-1)
    cls = normalize(words[shown].sum(1) + 0.7 * normal(12, DIM), dim=-1)
    return words, ImageFeatures(cls, patches, (5, 6))


def fitted_scorer(words: Tensor) -> Scorer:
    """All four branches, company and known images' ends; of every class all numbers differ."""
    random = torch.Generator().manual_seed(7)
    n = len(words)
    shares = torch.rand(4, n, generator=random)
    shares /= shares.sum(0)
    noise = 0.3 * torch.randn(2, DIM, n, generator=random) / DIM**0.5
    head = Classifier((words.T + noise[0]).contiguous(), 0.05 * torch.rand(n, generator=random))
    whole = Classifier((words.T + noise[1]).contiguous(), torch.zeros(n))
    none = torch.zeros(n)
    company = Company(
        torch.rand(n, generator=random),
        torch.tensor(4.0),
        torch.rand(n, generator=random),
    )
    level, width, floor = torch.rand(3, n, generator=torch.Generator().manual_seed(9))
    beyond = Beyond(-1.5 + level, 0.1 + width, -2 * floor)
    return Scorer(
        words,
        Config.auto(),
        head,
        Scales(text=12.0, learned=9.0, cls=15.0),
        BranchWeights(*shares, evidence=none, presence=none),
        torch.rand(n, generator=random),
        1.3,
        whole=whole,
        company=company,
        beyond=beyond,
    )


def scorers(words: Tensor) -> dict[str, Scorer]:
    return {
        "zero-shot": Scorer.zero_shot(words, Config.auto(), 14.0),
        "fitted": fitted_scorer(words),
    }


def test_images_beyond_the_known_are_among_those_to_compare() -> None:
    words, features = words_and_images()
    scorer = fitted_scorer(words)
    lifted = scorer.evidence(features) - replace(scorer, beyond=None).evidence(features)
    assert (lifted > 0.1).sum() > 100


@pytest.mark.parametrize("kind", ["zero-shot", "fitted"])
def test_a_list_of_all_classes_is_the_full_computation(kind: str) -> None:
    words, features = words_and_images()
    scorer = scorers(words)[kind]
    got = Shortlist(scorer).evidence(features, 4 * len(words) // 3)
    torch.testing.assert_close(got, scorer.evidence(features), rtol=1e-4, atol=1e-4)


# Weights and thresholds that differ as wildly as these between neighbors blur the coarse step.
@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [("zero-shot", 0.97, 0.01), ("fitted", 0.8, 0.01)],
)
def test_a_tenth_of_the_classes_holds_the_best_and_scores_them_right(
    kind: str, least: float, most: float
) -> None:
    words, features = words_and_images()
    scorer = scorers(words)[kind]
    full = scorer.evidence(features) - scorer.thresholds
    got = Shortlist(scorer).evidence(features, 100) - scorer.thresholds
    listed = got > -torch.inf
    assert (listed.sum(1) >= 100).all()
    assert (listed.sum(1) <= 250).all()  # whole clusters, and one of them may be large
    best, mine = full.topk(10).indices, got.topk(10).indices
    recall = (best[:, :, None] == mine[:, None]).any(2).float().mean()
    assert recall > least
    error = (got - full)[listed].abs()
    assert error.median() < most * full.std()
    assert error.max() < 0.15 * full.std()


def test_only_the_denominator_of_the_softmax_is_estimated() -> None:
    """With the true denominators in place of the estimates, nothing is left that differs."""
    words, features = words_and_images()
    scorer = scorers(words)["zero-shot"]
    shortlist = Shortlist(scorer)
    (branch,) = shortlist._branches
    label, n = shortlist.clusters.label, len(shortlist.clusters.sizes)

    class Oracle:
        weight = branch.weight
        fine = branch.fine

        @staticmethod
        def coarse(patches: Tensor) -> Tensor:
            each = (branch.vectors.double() @ patches.double().T).exp()
            return torch.zeros(n, len(patches)).double().index_add_(0, label, each).log().float()

    shortlist._branches = [Oracle()]  # type: ignore[list-item]
    got = shortlist.evidence(features, 60)
    listed = got > -torch.inf
    assert not listed.all()
    torch.testing.assert_close(got[listed], scorer.evidence(features)[listed], rtol=1e-4, atol=1e-4)


def test_clusters_are_a_partition_and_find_families() -> None:
    words, _ = words_and_images()
    clusters = Clusters.of(words, count=FAMILIES)
    assert clusters.order.sort().values.equal(torch.arange(len(words)))
    assert clusters.sizes.min() > 0
    assert clusters.label[clusters.order].equal(
        torch.arange(len(clusters.sizes)).repeat_interleave(clusters.sizes)
    )
    means = torch.stack([words[clusters.label == k].mean(0) for k in range(len(clusters.sizes))])
    torch.testing.assert_close(clusters.mean(words), means)
    # Of two words of a family, most are together; of all pairs, few are.
    same_family = torch.arange(len(words)) // EACH
    together = clusters.label[:, None] == clusters.label
    assert together[same_family[:, None] == same_family].float().mean() > 0.6
    assert together.float().mean() < 0.1
    assert Clusters.of(words, count=FAMILIES).label.equal(clusters.label)


def test_equal_words_and_more_clusters_than_classes() -> None:
    same = normalize(torch.ones(5, 4), dim=1)
    clusters = Clusters.of(same)
    assert clusters.sizes.tolist() == [5]
    apart = Clusters.of(torch.eye(3), count=99)
    assert apart.sizes.tolist() == [1, 1, 1]


def test_predicting_with_a_shortlist() -> None:
    words, features = words_and_images()
    names = [f"word {n}" for n in range(len(words))]
    recognizer = Recognizer(FeatureEncoder(dict(zip(names, words, strict=True))), names)
    full = recognizer.predict([features], top_k=3)
    quick = recognizer.predict([features], top_k=3, shortlist=100)
    assert sum(a.top(1)[0][0] == b.top(1)[0][0] for a, b in zip(full, quick, strict=True)) >= 11
    assert all((p.scores == 0).sum() >= 700 for p in quick)
    everything = recognizer.predict([features], shortlist=len(words))
    assert all(torch.equal(a.scores, b.scores) for a, b in zip(full, everything, strict=True))


@pytest.mark.parametrize("shortlist", [0, -5, 2.5, True, "10"])
def test_a_bad_length_is_an_error(shortlist: object) -> None:
    words, features = words_and_images()
    names = [f"word {n}" for n in range(len(words))]
    recognizer = Recognizer(FeatureEncoder(dict(zip(names, words, strict=True))), names)
    with pytest.raises(InputError, match="whole number of at least 1"):
        recognizer.predict([features], shortlist=shortlist)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="whole number of at least 1"):
        Shortlist(recognizer.scorer).scores(features, shortlist)  # type: ignore[arg-type]


def test_what_has_no_shortlist_says_so() -> None:
    words, _ = words_and_images()
    published = replace(fitted_scorer(words), config=Config.reference("voc"))
    with pytest.raises(InputError, match="second softmax"):
        Shortlist(published)
    with pytest.raises(InputError, match="at least two classes"):
        Shortlist(Scorer.zero_shot(words[:1], Config.auto(), 10.0))
    with pytest.raises(InputError, match="at least one cluster"):
        Clusters.of(words, count=0)
