"""From what was gathered to a scorer: classifier, branch weights and thresholds in closed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from piaa.auto.beyond import Beyond
from piaa.auto.branch_statistics import few
from piaa.auto.company import Company
from piaa.auto.grouped import Grouped, learn_groups
from piaa.auto.learned import Learned, matched_scale, mixed
from piaa.auto.weighting import (
    BranchWeights,
    even_weights,
    held_at_all,
    purified_share,
    weakness_of,
    weigh,
    with_whole,
)
from piaa.auto.whole import learn_whole, taught
from piaa.classes.others import CLOSED, unnamed_share
from piaa.config import Config
from piaa.features.remembered import Remembered
from piaa.features.sample import Sample
from piaa.pvcl import Bank, Classifier, Members, merge, solve
from piaa.pvcl import Report as BankReport
from piaa.scoring import Scales, Scorer, cls_branch, text_branch
from piaa.thresholds import Cuts, estimate_thresholds

# Enough rows to match a scale to three digits.
_SCALE_ROWS = 20_000
# Of the regrouping that `Config.purify = "auto"` may mix in: the published code's for COCO. The softmax is
# then nearly flat, and no class loses its whole bank.
_PURIFY_SCALE = 0.01
# Of the entropy that patches are matched to: many a patch shows no class at all, but hardly a whole image.
_WHOLE_IMAGE = 0.75


@dataclass(frozen=True)
class Retained:
    """Where the vectors of the banks came from, each (N,) int64: class, id of the image, its cell."""

    label: Tensor
    image: Tensor
    cell: Tensor

    def marks(self, column: int, ids: Tensor, n_cells: int) -> Tensor:
        """Which cells of the images with those ids (B,) are in a class's bank, (B, n_cells) bool."""
        mine = self.label == column
        row, found = (ids[:, None] == self.image[mine]).nonzero(as_tuple=True)
        marks = torch.zeros(len(ids), n_cells, dtype=torch.bool)
        marks[row, self.cell[mine][found]] = True
        return marks


@dataclass(frozen=True)
class Fitted:
    """A finished fit.

    Attributes:
        prevalence: (C,) float32, share of the images above each class's threshold.
        group: (C + R,) float32 in [0, 1], how far a class was learnt from a group of patches.
        unnamed: share of the images that other names than the classes' fit best; None without such names.
    """

    scorer: Scorer
    bank: BankReport
    retained: Retained
    prevalence: Tensor
    group: Tensor
    n_images: int
    unnamed: float | None = None


@dataclass(frozen=True)
class _FromPatches:
    """The classifier of patches.

    Attributes:
        crossfit: X, (n, C) float32, what the other half's classifier says of the sample; None if a half is
            too small to learn from.
        grouped: what groups of patches say; None where there are none.
    """

    learned: Learned
    report: BankReport
    crossfit: Tensor | None = None
    grouped: Grouped | None = None

    def __call__(self, patches: Tensor) -> Tensor:
        """G, (B, C), of patches (B, M, D)."""
        plain = self.learned(patches)
        return plain if self.grouped is None else self.grouped.groups.beside(plain, patches)


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
        found = self._learn(text)
        scales = Scales(text=scale, learned=found.learned.scale, cls=self._cls_scale(scale))
        cls = cls_branch(self.seen.cls, self.text, scales.cls).cpu()
        weights = even_weights(len(self.text))
        if found.crossfit is not None:
            sure = None if found.grouped is None else found.grouped.sure
            weights = weigh(text, found.crossfit, cls, sure)
            weights = _without(weights, found.report.text_fallback.cpu())
        scorer = Scorer(
            text=self.text,
            config=self.config,
            classifier=found.learned.classifier,
            scales=scales,
            weights=weights,
            thresholds=torch.zeros(len(self.text)),
            slope=1.0,
            groups=None if found.grouped is None else found.grouped.groups,
            n_others=self.n_others,
        )
        if scorer.published_form:
            cuts = self._published_cuts(scorer, found)
        else:
            scorer, cuts = self._fuse(scorer, text, found, cls)
        members = self._members()
        mine = members.label < scorer.n_classes
        retained = Retained(*(c[mine].cpu() for c in (members.label, members.image, members.cell)))
        return Fitted(
            scorer=replace(scorer, thresholds=cuts.thresholds, slope=cuts.slope),
            bank=found.report,
            retained=retained,
            prevalence=cuts.prevalence,
            group=torch.zeros(len(self.text)) if found.grouped is None else found.grouped.share,
            n_images=self.whole.n_images,
            unnamed=self.unnamed,
        )

    def _published_cuts(self, scorer: Scorer, found: _FromPatches) -> Cuts:
        scores = torch.cat([scorer.evidence(some).cpu() for some in self.seen.features()])
        held = None if found.crossfit is None else held_at_all(scorer.weights)
        return estimate_thresholds(scores, None if held is None else held[: scorer.n_classes])

    def _fuse(
        self, scorer: Scorer, text: Tensor, found: _FromPatches, cls: Tensor
    ) -> tuple[Scorer, Cuts]:
        """The auto form: adds h, known images' ends and company, by T and g (n, C) of the sample."""
        held = None
        if found.crossfit is not None:
            by_patches = scorer.weights.by_patches(text, found.crossfit)
            grouped = found.grouped
            doubt = None if grouped is None else grouped.share - grouped.sure
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

    def _learn(self, text: Tensor) -> _FromPatches:
        """By T (n, C) of the sample."""
        plain, report = self._solve(self.whole, self.config)
        if min(bank.n_images for bank in self.banks) < 2 or len(self.text) < 2:
            return _FromPatches(plain, report)
        crossfit = self._crossfit(self.config)
        if self.config.purify != "auto":
            return _FromPatches(plain, report, crossfit)
        learned, report, crossfit = self._purify(
            plain, report, crossfit, weakness_of(text, crossfit)
        )
        # The published form takes a softmax over the classes of one classifier.
        grouped = None
        if self.config.alpha is None:
            grouped = learn_groups(self.seen, self.text, self.config)
        if grouped is not None:
            share = grouped.share
            crossfit = (1 - share) * crossfit + share * grouped.crossfit
            by_group = share.to(self.text.device) >= 0.5
            report = replace(report, text_fallback=report.text_fallback & ~by_group)
        return _FromPatches(learned, report, crossfit, grouped)

    def _purify(
        self, plain: Learned, report: BankReport, crossfit: Tensor, weak: float
    ) -> tuple[Learned, BankReport, Tensor]:
        """Mix in what is learnt from regrouped banks, as far as its X splits images better."""
        regroup = replace(self.config, purify="regroup", purify_scale=_PURIFY_SCALE)
        by_purified = self._crossfit(regroup)
        share = purified_share(crossfit, by_purified, weak)
        if share == 0:
            return plain, report, crossfit
        purified, report = self._solve(self.whole, regroup)
        both = self._with_scale(mixed(plain, purified, share))
        return both, report, (1 - share) * crossfit + share * by_purified

    def _learn_whole(
        self, scorer: Scorer, by_patches: Tensor, by_cls: Tensor, doubt: Tensor | None
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

    def _members(self) -> Members:
        size = self.config.effective_bank_size(
            n_patches=self.whole.n_patches, n_classes=len(self.text)
        )
        return self.whole.members(size)

    def _text_scale(self) -> float:
        return matched_scale(self._scale_rows() @ self.text.T, self.config.matched_entropy)

    def _cls_scale(self, text_scale: float) -> float:
        """Of g: matched to the images; with few of them that of T, as both have one before any fit."""
        entropy = _WHOLE_IMAGE * self.config.matched_entropy
        matched = matched_scale(self.seen.cls @ self.text.T, entropy)
        doubt = few(len(self.seen.cls))
        return float(text_scale**doubt * matched ** (1 - doubt))

    def _crossfit(self, config: Config) -> Tensor:
        by_first, by_second = (self._solve(bank, config)[0] for bank in self.banks)
        scores = torch.empty(len(self.seen.cls), len(self.text))
        for half, learned in ((self.seen.in_second, by_first), (~self.seen.in_second, by_second)):
            found = self._over_sample(learned, half)
            # The level of a class differs between two classifiers: left in, it would look like a split.
            scores[half] = found - found.mean(0)
        return scores

    def _over_sample(
        self, branch: Callable[[Tensor], Tensor], chosen: Tensor | None = None
    ) -> Tensor:
        """A branch's scores of the sample, or of those chosen (n,) bool, by id, (n, C) on the CPU."""
        return self.seen.scores(branch, len(self.text), chosen)

    def _solve(self, bank: Bank, config: Config) -> tuple[Learned, BankReport]:
        classifier, report = solve(bank, config)
        return self._with_scale(classifier), report

    def _with_scale(self, classifier: Classifier) -> Learned:
        return Learned.matched(classifier, self._scale_rows(), self.config.matched_entropy)

    def _scale_rows(self) -> Tensor:
        return self.seen.rows(_SCALE_ROWS)


def _without(weights: BranchWeights, fell_back: Tensor) -> BranchWeights:
    """Classes that fell back to their text (C,) bool have learnt nothing."""
    return replace(
        weights,
        text=weights.text + torch.where(fell_back, weights.learned, 0),
        learned=weights.learned.masked_fill(fell_back, 0),
        evidence=weights.evidence.masked_fill(fell_back, 0),
    )
