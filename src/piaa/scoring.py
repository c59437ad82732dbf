"""What a fit leaves behind: everything that scores an image, as tensors and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from piaa import paa
from piaa.auto.beyond import Beyond
from piaa.auto.company import Company
from piaa.auto.named_groups import NamedGroups
from piaa.auto.weighting import BranchWeights, even_weights
from piaa.config import Config
from piaa.encoders.base import ImageFeatures
from piaa.errors import InputError, UnknownNameError
from piaa.pvcl import Classifier

HeatmapKind = Literal["fused", "learned", "text", "difference"]


@dataclass(frozen=True)
class Scales:
    """Softmax scales of the three branches."""

    text: float
    learned: float
    cls: float


@dataclass(frozen=True)
class Scorer:
    """Scores images for C classes.

    Attributes:
        text: (C + R, D) float32 unit text prototypes, of the classes and of R other names
            (`piaa.classes.others`). All that follows is of both, but for thresholds.
        config: decides between the auto form (weighted log-odds) and the published form (`paa.aggregate`).
        classifier: the learnt branch; None before any fit.
        groups: of patches, which speak in its place as far as they have classes' names; None without such.
        whole: the learnt classifier of the global vector; None where it has no weight.
        scales, weights: of the branches, in the auto form.
        company: what found classes say against the others; None before any fit and in the published form.
        beyond: where each class's known images end; likewise.
        thresholds: (C,) float32, where each class's evidence is cut.
        slope: turns evidence above its threshold into a score.
        n_others: R.
    """

    text: Tensor
    config: Config
    classifier: Classifier | None
    scales: Scales
    weights: BranchWeights
    thresholds: Tensor
    slope: float
    groups: NamedGroups | None = None
    whole: Classifier | None = None
    company: Company | None = None
    beyond: Beyond | None = None
    n_others: int = 0

    @staticmethod
    def zero_shot(text: Tensor, config: Config, scale: float, *, n_others: int = 0) -> Scorer:
        """Text alone, on patches and on the whole image; a class needs even odds to be a tag."""
        return Scorer(
            text=text,
            config=config,
            classifier=None,
            scales=Scales(scale, scale, scale),
            weights=even_weights(len(text)),
            thresholds=torch.zeros(len(text) - n_others),
            slope=1.0,
            n_others=n_others,
        )

    @property
    def n_classes(self) -> int:
        """C: how many are scored."""
        return len(self.text) - self.n_others

    @property
    def published_form(self) -> bool:
        """Whether scores come from `paa.aggregate`: a classifier, and a config that leaves nothing open."""
        return self.classifier is not None and self.config.alpha is not None

    def evidence(self, features: ImageFeatures) -> Tensor:
        """Evidence (B, C) float32 on the scale of log-odds: comparable between images, not classes."""
        patches, cls = features.patches, features.cls
        if self.classifier is not None and self.published_form:
            fused = paa.aggregate(patches, cls, self.text, self.classifier, self.config).fused
            return paa.log_odds(fused.clamp_min(1e-30).log())[:, : self.n_classes]
        text, learned, by_cls, whole = self._branches(patches, cls)
        weights = self.weights
        by_text, by_learned = torch.zeros(2, len(cls), len(self.text), device=cls.device)
        for total, weight, branch in (
            (by_text, weights.text, text),
            (by_text, weights.cls, by_cls),
            (by_learned, weights.learned, learned),
            (by_learned, weights.whole, whole),
        ):
            if branch is not None:
                total += weight.to(cls.device, non_blocking=True) * branch
        return self.together(by_text, by_learned)[:, : self.n_classes]

    def together(self, by_text: Tensor, by_learned: Tensor) -> Tensor:
        """Evidence (B, C + R) from what the text branches and the learnt ones say in sum, each (B, C + R)."""
        if self.beyond is not None:
            by_learned = self.beyond.lift(by_text, by_learned)
        total = by_text + by_learned
        return total if self.company is None else self.company.explain(total)

    def scores(self, features: ImageFeatures) -> Tensor:
        """Scores (B, C) float32 in [0, 1]; 0.5 is each class's threshold."""
        evidence = self.evidence(features)
        thresholds = self.thresholds.to(evidence.device, non_blocking=True)
        return torch.sigmoid(self.slope * (evidence - thresholds))

    def _branches(self, patches: Tensor, cls: Tensor) -> list[Tensor | None]:
        """T, G, g and h, each (B, C), or None where its weight is 0 for every class."""
        used, learned = self.weights, None
        if self.classifier is not None and used.learned.any():
            learned = learned_branch(patches, self.classifier, self.scales.learned, self.groups)
        return [
            text_branch(patches, self.text, self.scales.text) if used.text.any() else None,
            learned,
            cls_branch(cls, self.text, self.scales.cls) if used.cls.any() else None,
            None if self.whole is None else self.whole.scores(cls),
        ]

    def patch_map(self, patches: Tensor, column: int, kind: HeatmapKind) -> Tensor:
        """What each patch (M, D) of an image says of one class, (M,) float32.

        `text` and `learned` are probabilities among the classes; `difference` is learned - text, in [-1, 1];
        `fused` weighs the two as scoring does.
        """
        if kind not in get_args(HeatmapKind):
            raise UnknownNameError("kind of heatmap", kind, get_args(HeatmapKind))
        # Every patch as an image of its own: the maximum over patches is then that patch.
        patches = patches.to(self.text.device)[:, None]
        by_text = text_branch(patches, self.text, self.scales.text)[:, column]
        if self.classifier is None:
            if kind in ("learned", "difference"):
                raise InputError(f"A heatmap of kind {kind!r} needs a fit; before it, use 'text'.")
            return torch.sigmoid(by_text)
        divisor = self.config.score_divisor
        scale = self.scales.learned if divisor is None else 1 / divisor
        learned = learned_branch(patches, self.classifier, scale, self.groups)[:, column]
        if kind == "text":
            return torch.sigmoid(by_text)
        if kind == "learned" or (kind == "fused" and self.published_form):
            return torch.sigmoid(learned)
        if kind == "difference":
            return torch.sigmoid(learned) - torch.sigmoid(by_text)
        share = self.weights.learned[column] / (
            self.weights.learned[column] + self.weights.text[column]
        ).clamp_min(1e-6)
        return torch.sigmoid(share * learned + (1 - share) * by_text)


def text_branch(patches: Tensor, text: Tensor, scale: float) -> Tensor:
    """T: log-odds (B, C) of the text prototypes in each image's best patch."""
    return _log_odds(patches, text.T, None, scale)


def learned_branch(
    patches: Tensor, classifier: Classifier, scale: float, groups: NamedGroups | None = None
) -> Tensor:
    """G: log-odds (B, C) of the learnt classifier, or of named groups in its place, in the best patch."""
    plain = _log_odds(patches, classifier.weight, classifier.bias, scale)
    return plain if groups is None else groups.beside(plain, patches)


def cls_branch(cls: Tensor, text: Tensor, scale: float) -> Tensor:
    """g: log-odds (B, C) of the text prototypes for the whole image."""
    return _log_odds(cls[:, None], text.T, None, scale)


def _log_odds(patches: Tensor, weight: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    if weight.shape[1] > 1:
        return paa.patch_log_odds(patches, weight, bias=bias, scale=scale)
    # A single class has no rival to be likelier than: its plain scores take the place of log-odds.
    scores = patches @ weight
    return scale * (scores if bias is None else scores + bias).amax(dim=1)
