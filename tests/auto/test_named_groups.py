"""What named groups say: against a plain loop, and where names are in doubt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from fake_encoder import features_of, recognizer_of
from measured_worlds import FIT, features, fit, mean_ap
from piaa import Config, Recognizer
from piaa.artifact import Artifact, load_artifact, save_artifact
from piaa.auto.named_groups import NamedGroups
from piaa.errors import ArtifactError
from piaa.shortlist import Shortlist
from worlds import varied_world

N_GROUPS, N_CLASSES, DIM = 6, 4, 16


def some_groups() -> tuple[NamedGroups, Tensor]:
    random = torch.Generator().manual_seed(0)
    parts = torch.rand(N_GROUPS, N_CLASSES, generator=random).softmax(0)
    groups = NamedGroups(
        5 * torch.randn(DIM, N_GROUPS, generator=random),
        torch.randn(N_GROUPS, generator=random),
        parts,
    )
    return groups, normalize(torch.randn(3, 7, DIM, generator=random), dim=-1)


def test_against_one_patch_and_one_group_after_the_other() -> None:
    groups, images = some_groups()
    said = groups.scores(images)
    for image, patches in enumerate(images.double()):
        of_groups = []
        for group in range(N_GROUPS):
            shares = [
                (patch @ groups.weight.double() + groups.bias).softmax(0)[group]
                for patch in patches
            ]
            best = max(shares)
            of_groups.append((best / (1 - best)).log())
        for column in range(N_CLASSES):
            expected = sum(
                part * log_odds
                for part, log_odds in zip(groups.parts[:, column], of_groups, strict=True)
            )
            assert float(said[image, column]) == pytest.approx(float(expected), abs=1e-4)


def test_what_they_lack_is_left_to_the_classifier() -> None:
    groups, images = some_groups()
    plain = torch.randn(3, N_CLASSES, generator=torch.Generator().manual_seed(1))
    assert torch.equal(groups.counting(torch.zeros(N_CLASSES)).beside(plain, images), plain)
    torch.testing.assert_close(groups.beside(plain, images), groups.scores(images))
    share = torch.tensor([0.0, 0.25, 0.5, 1.0])
    torch.testing.assert_close(
        groups.counting(share).beside(plain, images),
        torch.lerp(plain, groups.scores(images), share),
    )


def test_a_class_that_two_groups_may_be_is_found_in_the_images_of_both() -> None:
    """A mean of discriminants finds it in those of one: patches of the other go to the class that has it."""
    directions = torch.eye(DIM)
    parts = torch.zeros(N_GROUPS, N_CLASSES)
    parts[0, 0], parts[1, 0], parts[1, 1] = 0.6, 0.4, 1.0
    groups = NamedGroups(12 * directions[:, :N_GROUPS].contiguous(), torch.zeros(N_GROUPS), parts)
    nothing = directions[DIM - 1].expand(5, DIM)
    shows = [torch.cat([nothing, directions[group][None]]) for group in (0, 1)]
    said = groups.scores(torch.stack([*shows, torch.cat([nothing, nothing[:1]])]))[:, 0]
    assert said[0] > said[1] + 1
    assert said[1] > said[2] + 1


# Of 5 classes with a weak text two have each other's name by half.
TORN_WORLD = {"n_classes": 5, "text": 0.3, "cls": 0.3, "cls_noise": 0.6}


def test_torn_names_are_worth_more_than_a_mean_of_discriminants() -> None:
    world = varied_world(5004, FIT + 200, labels=(1, 3), **TORN_WORLD)
    test = slice(FIT, None)
    scorer, seen = fit(world, slice(FIT)).scorer, features(world, test)
    groups = scorer.groups
    assert groups is not None
    assert groups.parts.amax(0).min() < 0.7
    blurred = NamedGroups(groups.weight @ groups.parts, groups.bias @ groups.parts, torch.eye(5))
    ours, plain = (mean_ap(world, test, some.scores(seen.patches)) for some in (groups, blurred))
    assert ours > plain + 3
    assert mean_ap(world, test, scorer.evidence(seen)) > ours - 2


class TestAroundIt:
    @pytest.fixture
    def recognizer(self) -> Recognizer:
        world = varied_world(404, 120, n_classes=5, text=0.3)
        recognizer = recognizer_of(world)
        recognizer.fit([features_of(world)])
        assert recognizer.scorer.groups is not None
        return recognizer

    def test_saved_and_back(self, recognizer: Recognizer, tmp_path: Path) -> None:
        path = tmp_path / "model.piaa"
        recognizer.save(path)
        loaded = Recognizer.load(path, recognizer.encoder)
        seen = features_of(varied_world(404, 120, n_classes=5, text=0.3))
        assert torch.equal(loaded.scorer.evidence(seen), recognizer.scorer.evidence(seen))
        parts = loaded.scorer.groups.parts
        for forged, message in (
            (-parts, "below 0"),
            (parts * 3, "whole of a class"),
            (parts[:1], "in place of"),
        ):
            saved = load_artifact(path)
            tensors = {**saved.tensors, "groups.parts": forged.contiguous()}
            other = tmp_path / "forged.piaa"
            save_artifact(other, Artifact(tensors, saved.header))
            with pytest.raises(ArtifactError, match=message):
                Recognizer.load(other, recognizer.encoder)
        single = {
            f"groups.{name}": part[..., :1] for name, part in vars(loaded.scorer.groups).items()
        }
        single["groups.parts"] = parts[:1]
        tensors = {**saved.tensors, **{name: t.contiguous() for name, t in single.items()}}
        save_artifact(other, Artifact(tensors, saved.header))
        with pytest.raises(ArtifactError, match="two or more"):
            Recognizer.load(other, recognizer.encoder)

    def test_a_shortlist_hears_them(self, recognizer: Recognizer) -> None:
        seen = features_of(varied_world(404, 40, n_classes=5, text=0.3))
        scorer = recognizer.scorer
        full = scorer.evidence(seen)
        assert (full - replace(scorer, groups=None).evidence(seen)).abs().max() > 1
        got = Shortlist(scorer).evidence(seen, 7)
        torch.testing.assert_close(got, full, rtol=1e-4, atol=1e-4)

    def test_a_heatmap_is_of_the_groups(self, recognizer: Recognizer) -> None:
        scorer = recognizer.scorer
        world = varied_world(404, 1, n_classes=5, text=0.3)
        patches = world.patches[0]
        for column in range(5):
            alone = [
                scorer._branches(patch[None, None], world.cls)[1][0, column] for patch in patches
            ]
            shown = scorer.patch_map(patches, column, "learned")
            torch.testing.assert_close(shown, torch.stack(alone).sigmoid())

    def test_the_published_form_has_none(self) -> None:
        world = varied_world(404, 120, n_classes=5, text=0.3)
        published = Config.reference("voc").to_dict()
        config = Config.from_dict(published | {"purify": "auto", "purify_scale": None})
        assert fit(world, slice(120), config).scorer.groups is None
