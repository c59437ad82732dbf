"""From what was gathered to a scorer: classifier, branch weights and thresholds in closed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from piaa.auto.beyond import Beyond
from piaa.auto.branch_statistics import few
from piaa.auto.company import Company
from piaa.auto.learned import matched_scale
from piaa.auto.weighting import (
    BranchWeights,
    even_weights,
    held_at_all,
    weigh,
    with_whole,
)
from piaa.auto.whole import learn_whole, taught
from piaa.classes.others import CLOSED, unnamed_share
from piaa.config import Config
from piaa.features.remembered import Remembered
from piaa.features.sample import Sample
from piaa.fitting.fitted import Fitted, Retained
from piaa.fitting.from_patches import SCALE_ROWS, FromPatches, PatchLearner
from piaa.pvcl import Bank, Classifier, merge
from piaa.scoring import Scales, Scorer, cls_branch, text_branch
from piaa.thresholds import Cuts, estimate_thresholds

# Of the entropy that patches are matched to: many a patch shows no class at all, but hardly a whole image.
_WHOLE_IMAGE = 0.75


class Finisher:
    """Everything below depends on banks and sample alone, not on the order that images came in.

    Args:
        text: (C + R, D) unit text prototypes, of the classes and of R = n_others other names.
        banks: of the two halves of the collection.
        sample: some of its images, whole.
    """

    def __init__(
        self,
        text: Tensor,
        config: Config,
        banks: tuple[Bank, Bank],
        sample: Sample,
        *,
        n_others: int = 0,
    ) -> None:
        self.text, self.config, self.banks = text, config, banks
        self.n_others = n_others
        self.seen = Remembered(sample, text.device)
        self.unnamed = self._unnamed()
        if self.unnamed is not None and self.unnamed < CLOSED and config.alpha is None:
            self._leave_others_out()
        self.whole = merge(*self.banks)

    def _unnamed(self) -> float | None:
        if self.n_others == 0:
            return None
        scale = self._text_scale()
        by_text = self._over_sample(lambda patches: text_branch(patches, self.text, scale))
        by_text += cls_branch(self.seen.cls, self.text, scale).cpu()
        return unnamed_share(by_text, self.n_others)

    def _leave_others_out(self) -> None:
        n_classes = len(self.text) - self.n_others
        first, second = (bank.first(n_classes) for bank in self.banks)
        self.text, self.banks, self.n_others = self.text[:n_classes], (first, second), 0

    def finish(self) -> Fitted:
        scale = self._text_scale()
        text = self._over_sample(lambda patches: text_branch(patches, self.text, scale))
        learner = PatchLearner(self.text, self.config, self.whole, self.banks, self.seen)
        found = learner.learn(text)
        scales = Scales(text=scale, learned=found.learned.scale, cls=self._cls_scale(scale))
        cls = cls_branch(self.seen.cls, self.text, scales.cls).cpu()
        weights = even_weights(len(self.text))
        if found.crossfit is not None:
            weights = weigh(text, found.crossfit, cls, found.sure)
            weights = _without(weights, found.report.text_fallback.cpu())
        scorer = Scorer(
            text=self.text,
            config=self.config,
            classifier=found.learned.classifier,
            scales=scales,
            weights=weights,
            thresholds=torch.zeros(len(self.text)),
            slope=1.0,
            groups=found.groups,
            n_others=self.n_others,
        )
        if scorer.published_form:
            cuts = self._published_cuts(scorer, found)
        else:
            scorer, cuts = self._fuse(scorer, text, found, cls)
        return Fitted(
            scorer=replace(scorer, thresholds=cuts.thresholds, slope=cuts.slope),
            bank=found.report,
            retained=self._retained(),
            prevalence=cuts.prevalence,
            group=found.group,
            n_images=self.whole.n_images,
            unnamed=self.unnamed,
        )

    def _published_cuts(self, scorer: Scorer, found: FromPatches) -> Cuts:
        scores = torch.cat([scorer.evidence(some).cpu() for some in self.seen.features()])
        held = None if found.crossfit is None else held_at_all(scorer.weights)
        return estimate_thresholds(scores, None if held is None else held[: scorer.n_classes])

    def _fuse(
        self, scorer: Scorer, text: Tensor, found: FromPatches, cls: Tensor
    ) -> tuple[Scorer, Cuts]:
        """The auto form: adds h, known images' ends and company, by T and g (n, C) of the sample."""
        held = None
        if found.crossfit is not None:
            by_patches = scorer.weights.by_patches(text, found.crossfit)
            doubt = found.group - found.sure
            scorer = self._learn_whole(scorer, by_patches, scorer.weights.cls * cls, doubt)
            held = held_at_all(scorer.weights)
        by_whole = None if scorer.whole is None else scorer.whole.scores(self.seen.cls).cpu()
        by_text = scorer.weights.by_text(text, cls)
        by_learned = scorer.weights.by_learned(self._over_sample(found), by_whole)
        if found.crossfit is not None:
            scorer = replace(scorer, beyond=Beyond.of(by_text, by_learned))
        own = scorer.together(by_text, by_learned)
        # Where a class is cut is looked for with nothing said against it. Images that another class speaks
        # against are a heap of their own, far below, and would be taken for all those without the class.
        cuts = estimate_thresholds(own, held)
        if found.crossfit is not None:
            scorer = replace(scorer, company=Company.of(own, cuts))
        return scorer, cuts.over(scorer.together(by_text, by_learned)[:, : scorer.n_classes])

    def _learn_whole(
        self, scorer: Scorer, by_patches: Tensor, by_cls: Tensor, doubt: Tensor
    ) -> Scorer:
        """Add the classifier of the global vector, taught by what patches and g say, (n, C) each."""
        teacher = by_patches + by_cls
        cls, holds = self.seen.cls.cpu(), taught(teacher)
        crossfit = torch.empty_like(teacher)
        for half in (self.seen.in_second, ~self.seen.in_second):
            if half.sum() < 2:
                return scorer
            classifier = learn_whole(cls[half], holds[half], teacher[half])
            crossfit[~half] = classifier.scores(cls[~half])
        weights = with_whole(scorer.weights, by_patches, crossfit, doubt)
        if not weights.whole.any():
            return scorer
        classifier = learn_whole(cls, holds, teacher)
        device = self.text.device
        moved = Classifier(classifier.weight.to(device), classifier.bias.to(device))
        return replace(scorer, weights=weights, whole=moved)

    def _retained(self) -> Retained:
        n_classes = len(self.text)
        size = self.config.effective_bank_size(n_patches=self.whole.n_patches, n_classes=n_classes)
        members = self.whole.members(size)
        mine = members.label < n_classes - self.n_others
        return Retained(*(c[mine].cpu() for c in (members.label, members.image, members.cell)))

    def _text_scale(self) -> float:
        return matched_scale(self.seen.rows(SCALE_ROWS) @ self.text.T, self.config.matched_entropy)

    def _cls_scale(self, text_scale: float) -> float:
        """Of g: matched to the images; with few of them that of T, as both have one before any fit."""
        entropy = _WHOLE_IMAGE * self.config.matched_entropy
        matched = matched_scale(self.seen.cls @ self.text.T, entropy)
        doubt = few(len(self.seen.cls))
        return float(text_scale**doubt * matched ** (1 - doubt))

    def _over_sample(self, branch: Callable[[Tensor], Tensor]) -> Tensor:
        """A branch's scores of the sample by id, (n, C) on the CPU."""
        return self.seen.scores(branch, len(self.text))


def _without(weights: BranchWeights, fell_back: Tensor) -> BranchWeights:
    """Classes that fell back to their text (C,) bool have learnt nothing."""
    return replace(
        weights,
        text=weights.text + torch.where(fell_back, weights.learned, 0),
        learned=weights.learned.masked_fill(fell_back, 0),
        evidence=weights.evidence.masked_fill(fell_back, 0),
    )
