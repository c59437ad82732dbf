"""Groups of patches and what is learnt from them: against scikit-learn, and worlds with known groups."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from measured_worlds import FIT, assert_above_text_and_presets, features, fit, mean_ap
from piaa.auto.grouped import Grouped, learn_groups
from piaa.auto.groups import _join, find_groups, stability
from piaa.auto.weighting import weigh
from piaa.classes.class_list import ClassList
from piaa.config import Config
from piaa.features.remembered import Remembered
from piaa.features.sample import Sample, image_ids
from piaa.fitting.fit_report import FitReport
from worlds import World, varied_world

metrics = pytest.importorskip("sklearn.metrics")
cluster = pytest.importorskip("sklearn.cluster")


def blobs(
    seed: int, sizes: list[int], dim: int = 24, noise: float = 0.5
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows around one center a group in random order, their groups, the centers."""
    random = torch.Generator().manual_seed(seed)
    centers = normalize(torch.randn(len(sizes), dim, generator=random), dim=1)
    label = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    label = label[torch.randperm(len(label), generator=random)]
    rows = centers[label] + noise * torch.randn(len(label), dim, generator=random) / dim**0.5
    return rows, label, centers


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sizes", [[200, 200, 200], [400, 30, 90, 250, 60, 800, 45, 45]])
def test_groups_and_their_number_are_found(seed: int, sizes: list[int]) -> None:
    rows, label, _ = blobs(seed, sizes)
    groups = find_groups(rows, n_classes=5)
    assert len(groups.means) == len(sizes)
    assert metrics.adjusted_rand_score(label, groups.label) > 0.99
    means = torch.stack([rows[groups.label == g].mean(0) for g in range(len(sizes))])
    torch.testing.assert_close(groups.means, means, atol=1e-5, rtol=1e-5)
    assert (groups.nearest(rows) == groups.label).float().mean() > 0.99


def test_noise_as_wide_as_the_groups_are_apart() -> None:
    """Single patches are farther from their own center than centers are from each other."""
    rows, label, centers = blobs(0, [300] * 12, dim=64, noise=1.5)
    own = torch.cdist(rows, centers).gather(1, label[:, None]).mean()
    assert own > torch.cdist(centers, centers)[0, 1:].mean()
    groups = find_groups(rows, n_classes=8)
    assert metrics.adjusted_rand_score(label, groups.label) > 0.95


@pytest.mark.parametrize("seed", range(4))
def test_joining_is_wards(seed: int) -> None:
    rows, _, _ = blobs(seed, [9, 14, 6, 11], dim=5, noise=0.8)
    ours = _join(rows, torch.arange(len(rows)), len(rows))
    count = int(ours.max()) + 1
    assert sorted(set(ours.tolist())) == list(range(count))
    theirs = cluster.AgglomerativeClustering(count, linkage="ward").fit_predict(rows.numpy())
    assert metrics.adjusted_rand_score(theirs, ours) == 1


def test_one_heap_is_one_group() -> None:
    rows = torch.randn(600, 8, generator=torch.Generator().manual_seed(0))
    assert len(find_groups(rows, n_classes=4).means) == 1


@pytest.mark.parametrize("n", [1, 2, 9])
def test_next_to_no_rows(n: int) -> None:
    rows = torch.randn(n, 6, generator=torch.Generator().manual_seed(n))
    groups = find_groups(rows, n_classes=3)
    assert len(groups.label) == n
    assert groups.means.isfinite().all()


def test_equal_rows_are_one_group() -> None:
    groups = find_groups(torch.ones(40, 6), n_classes=3)
    assert groups.label.unique().tolist() == [0]
    assert groups.means.isfinite().all()


@pytest.mark.parametrize("seed", range(5))
def test_stability_is_the_adjusted_rand_index(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    one = torch.randint(5, (200,), generator=random)
    two = torch.where(torch.rand(200, generator=random) < 0.2 * seed, one, one.roll(1))
    assert stability(one, two) == pytest.approx(metrics.adjusted_rand_score(one, two), abs=1e-9)
    renamed = torch.randperm(5, generator=random)[one]
    assert stability(one, renamed) == pytest.approx(1)
    assert stability(two, one) == pytest.approx(stability(one, two))


def learnt(world: World, n: int = FIT) -> Grouped | None:
    sample = Sample()
    sample.update(world.patches[:n], world.cls[:n], image_ids(world.cls[:n]))
    return learn_groups(Remembered(sample, torch.device("cpu")), world.text, Config.auto())


class TestLearning:
    def test_classifier_and_crossfit_tell_the_classes(self) -> None:
        world = varied_world(404, FIT + 200, n_classes=5, text=0.3)
        found = learnt(world)
        assert found is not None
        test = slice(FIT, None)
        assert mean_ap(world, test, found.groups.scores(world.patches[test])) > 97
        order = image_ids(world.cls[:FIT]).argsort()
        seen = World(world.patches, world.cls, world.text, world.labels[order])
        assert mean_ap(seen, slice(None), found.crossfit) > 97
        assert found.share.shape == found.sure.shape == (5,)
        assert (found.sure <= found.share + 1e-6).all()
        assert found.share.max() <= 1
        torch.testing.assert_close(found.groups.parts.sum(0), found.share)

    def test_a_cloud_has_no_groups(self) -> None:
        """Whatever a cloud is cut into, its other half is cut otherwise."""
        random = torch.Generator().manual_seed(2)
        patches = normalize(torch.randn(200, 25, 32, generator=random) + 1, dim=-1)
        text = normalize(torch.randn(8, 32, generator=random), dim=1)
        world = World(patches, normalize(patches.mean(1), dim=1), text, torch.zeros(200, 8))
        assert learnt(world, 200) is None

    def test_few_images_and_very_many_classes_are_left_alone(self) -> None:
        world = varied_world(1, 100, n_classes=5)
        assert learnt(world, 100) is not None
        assert learnt(world, 12) is None
        text = normalize(torch.randn(251, 64, generator=torch.Generator().manual_seed(0)), dim=1)
        assert learnt(world._replace(text=text), 100) is None

    def test_the_report_tells(self) -> None:
        world = varied_world(404, FIT, n_classes=5, text=0.3)
        names = tuple("abcde")
        report = FitReport.of(
            fit(world, slice(FIT)), ClassList(names, tuple((name,) for name in names))
        )
        assert "5 classes, 5 learnt from groups of patches" in str(report)
        assert all(row.group > 0.5 for row in report.classes)
        assert FitReport.from_dict(report.to_dict()) == report

    def test_switched_off_with_purification(self) -> None:
        world = varied_world(404, FIT + 200, n_classes=5, text=0.3)
        config = Config.from_dict(Config.auto().to_dict() | {"purify": "none"})
        test = slice(FIT, None)
        plain, auto = (
            mean_ap(world, test, fit(world, slice(FIT), c).scorer.evidence(features(world, test)))
            for c in (config, Config.auto())
        )
        assert auto > plain + 3


def test_weights_of_classes_with_a_group() -> None:
    """A class goes to G as far as its group is sure and its text tells it less; the rest stays."""
    random = torch.Generator().manual_seed(0)
    holds = (torch.rand(400, 3, generator=random) < 0.3).float()
    noise = torch.randn(400, 3, generator=random)
    clear, blurred = 6 * holds + noise, 1.5 * holds + noise
    sure = torch.tensor([1.0, 0.4, 0.0])
    without, after = (weigh(blurred, clear, noise, some) for some in (None, sure))
    assert after.learned[0] == pytest.approx(1, abs=1e-6)
    kept = without.text + without.cls
    torch.testing.assert_close(after.text + after.cls, (1 - sure) * kept, atol=0.05, rtol=0)
    assert (after.evidence >= sure).all()
    torch.testing.assert_close(after.presence, torch.maximum(without.presence, sure))
    total = after.text + after.learned + after.cls + after.whole
    torch.testing.assert_close(total, torch.ones(3))
    good = weigh(clear, clear, noise, torch.ones(3))
    torch.testing.assert_close(good.learned, torch.full((3,), 0.5), atol=1e-3, rtol=0)


@pytest.mark.parametrize("patch_noise", [0.9, 1.3])
@pytest.mark.parametrize(("n_classes", "text"), [(8, 0.3), (20, 0.45)])
def test_noisier_patches_stay_above_text_and_presets(
    patch_noise: float, n_classes: int, text: float
) -> None:
    world = varied_world(21, FIT + 200, n_classes=n_classes, text=text, patch_noise=patch_noise)
    assert_above_text_and_presets(world)


@pytest.mark.parametrize("seed", [206, 413, 1006])
@pytest.mark.parametrize("labels", [(1, 1), (1, 3), (2, 4)])
def test_names_that_are_mixed_up_stay_above_text_and_presets(
    seed: int, labels: tuple[int, int]
) -> None:
    """In the first two the texts fit the true places best in a wrong order; in the last, all but."""
    world = varied_world(seed, FIT + 200, n_classes=5, text=0.3, labels=labels)
    assert_above_text_and_presets(world)


def test_groups_do_not_depend_on_the_order_of_images() -> None:
    world = varied_world(7, 120, n_classes=6, text=0.35)
    order = torch.from_numpy(np.random.RandomState(0).permutation(120))
    turned = World(world.patches[order], world.cls[order], world.text, world.labels[order])
    one, two = learnt(world, 120), learnt(turned, 120)
    assert one is not None
    assert two is not None
    assert torch.equal(one.groups.weight, two.groups.weight)
    assert torch.equal(one.crossfit, two.crossfit)


def test_one_thing_before_one_background_and_many_names() -> None:
    """Nearly all names then point to the same group, and cannot be told apart by groups."""
    random = torch.Generator().manual_seed(5)
    text = normalize(torch.randn(12, 32, generator=random), dim=1)
    places = torch.stack([0.8 * text[0], 0.8 * normalize(torch.randn(32, generator=random), dim=0)])
    holds = torch.rand(80, generator=random) < 0.5
    thing = (torch.arange(16) < 6) & holds[:, None]
    rows = places[(~thing).long()] + 0.3 * torch.randn(80, 16, 32, generator=random) / 32**0.5
    patches = normalize(rows, dim=-1)
    world = World(patches, normalize(patches.mean(1), dim=1), text, holds[:, None].long())
    scorer = fit(world, slice(80)).scorer
    evidence = scorer.evidence(features(world, slice(80)))
    assert evidence.isfinite().all()
    assert mean_ap(world, slice(80), evidence, slice(0, 1)) > 99
