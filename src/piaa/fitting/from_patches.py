"""The classifier of patches: from the banks, purified as far as that splits images better, or from groups."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from piaa.auto.grouped import Grouped, learn_groups
from piaa.auto.learned import Learned, mixed
from piaa.auto.named_groups import NamedGroups
from piaa.auto.weighting import purified_share, weakness_of
from piaa.config import Config
from piaa.features.remembered import Remembered
from piaa.pvcl import Bank, Classifier, solve
from piaa.pvcl import Report as BankReport

# Enough rows to match a scale to three digits.
SCALE_ROWS = 20_000
# Of the regrouping that `Config.purify = "auto"` may mix in: the published code's for COCO. The softmax is
# then nearly flat, and no class loses its whole bank.
_PURIFY_SCALE = 0.01


@dataclass(frozen=True)
class FromPatches:
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
        return plain if self.groups is None else self.groups.beside(plain, patches)

    @property
    def groups(self) -> NamedGroups | None:
        return None if self.grouped is None else self.grouped.groups

    @property
    def group(self) -> Tensor:
        """(C,) in [0, 1], how far a class was learnt from groups of patches."""
        return self._none if self.grouped is None else self.grouped.share

    @property
    def sure(self) -> Tensor:
        """(C,) in [0, 1], how far it was learnt from a single one of them."""
        return self._none if self.grouped is None else self.grouped.sure

    @property
    def _none(self) -> Tensor:
        return torch.zeros(len(self.report.text_fallback))


@dataclass(frozen=True)
class PatchLearner:
    """Learns it for text prototypes (C, D).

    Attributes:
        whole: bank of the collection.
        halves: banks of its two halves.
        seen: the sample, which scales are matched to and classifiers compared on.
    """

    text: Tensor
    config: Config
    whole: Bank
    halves: tuple[Bank, Bank]
    seen: Remembered

    def learn(self, by_text: Tensor) -> FromPatches:
        """By T, (n, C) of the sample."""
        plain, report = self._solve(self.whole, self.config)
        if min(bank.n_images for bank in self.halves) < 2 or len(self.text) < 2:
            return FromPatches(plain, report)
        crossfit = self._crossfit(self.config)
        if self.config.purify != "auto":
            return FromPatches(plain, report, crossfit)
        learned, report, crossfit = self._purify(
            plain, report, crossfit, weakness_of(by_text, crossfit)
        )
        # The published form takes a softmax over the classes of one classifier.
        published = self.config.alpha is not None
        grouped = None if published else learn_groups(self.seen, self.text, self.config)
        if grouped is not None:
            share = grouped.share
            crossfit = (1 - share) * crossfit + share * grouped.crossfit
            by_group = share.to(self.text.device) >= 0.5
            report = replace(report, text_fallback=report.text_fallback & ~by_group)
        return FromPatches(learned, report, crossfit, grouped)

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

    def _crossfit(self, config: Config) -> Tensor:
        by_first, by_second = (self._solve(bank, config)[0] for bank in self.halves)
        scores = torch.empty(len(self.seen.cls), len(self.text))
        for half, learned in ((self.seen.in_second, by_first), (~self.seen.in_second, by_second)):
            found = self.seen.scores(learned, len(self.text), half)
            # The level of a class differs between two classifiers: left in, it would look like a split.
            scores[half] = found - found.mean(0)
        return scores

    def _solve(self, bank: Bank, config: Config) -> tuple[Learned, BankReport]:
        classifier, report = solve(bank, config)
        return self._with_scale(classifier), report

    def _with_scale(self, classifier: Classifier) -> Learned:
        return Learned.matched(classifier, self.seen.rows(SCALE_ROWS), self.config.matched_entropy)
