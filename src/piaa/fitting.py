"""From a stream of features to a scorer: what is gathered, merged, and finished in closed form.

Gathered are two banks (an image's id decides which of the two; together they are the collection's bank) and
one bounded sample of whole images. Both are exact whatever the order, the batches and the shards, so fits of
shards merge into the fit of the collection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.config import Config
from piaa.encoders.base import ImageFeatures
from piaa.errors import InputError
from piaa.pvcl import Classifier, Members, match_scale, merge, new_bank, solve
from piaa.pvcl import Report as BankReport
from piaa.sample import Sample, halves, image_ids
from piaa.scoring import Scales, Scorer, cls_branch, learned_branch, text_branch
from piaa.thresholds import estimate_thresholds
from piaa.weighting import BranchWeights, even_weights, weigh

# Enough rows to match a scale to three digits.
_SCALE_ROWS = 20_000
_IMAGES_AT_ONCE = 32


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
        confidence: (C,) float32, mean text probability of each class's bank, relative to the classes that
            have the surest banks (their upper quarter). It tells absent classes best.
        prevalence: (C,) float32, share of the images above each class's threshold.
    """

    scorer: Scorer
    bank: BankReport
    retained: Retained
    confidence: Tensor
    prevalence: Tensor
    n_images: int


class Gathered:
    """What fitting keeps of the images seen so far."""

    def __init__(self, text: Tensor, config: Config) -> None:
        self.text, self.config = text, config
        self.banks = (new_bank(text, config), new_bank(text, config))
        self.sample = Sample()

    @property
    def n_images(self) -> int:
        return self.banks[0].n_images + self.banks[1].n_images

    def add(self, features: ImageFeatures) -> None:
        """Take in B images. The same image again changes nothing but the count."""
        every = image_ids(features.cls)
        for places in _rounds(every):
            ids, patches, cls = every[places], features.patches[places], features.cls[places]
            # First, because it may refuse the images; then nothing has been taken in.
            self.sample.update(patches, cls, ids)
            second_half = halves(ids)
            for bank, mine in zip(self.banks, (~second_half, second_half), strict=True):
                if mine.any():
                    bank.update(patches[mine], ids[mine])

    def merge(self, other: Gathered) -> None:
        """Add what was gathered from other images of the collection."""
        if not torch.equal(self.text, other.text) or self.config != other.config:
            raise InputError(
                "Fits of different classes, encoders or configs cannot be merged; fit every shard with "
                "the same ones."
            )
        self.sample.merge(other.sample)
        self.banks = (merge(self.banks[0], other.banks[0]), merge(self.banks[1], other.banks[1]))

    def finish(self) -> Fitted:
        """Classifier, branch weights and thresholds of everything gathered."""
        if self.n_images == 0:
            raise InputError("There is no image to learn from.")
        whole = merge(*self.banks)
        classifier, bank_report = solve(whole, self.config)
        scales = self._scales(classifier)
        branches = self._branch_scores(classifier, scales)
        weights = self._weights(branches, bank_report.text_fallback.cpu())
        scorer = Scorer(
            text=self.text,
            config=self.config,
            classifier=classifier,
            scales=scales,
            weights=weights,
            thresholds=torch.zeros(len(self.text)),
            slope=1.0,
        )
        evidence = self._evidence(scorer, branches)
        thresholds, slope, prevalence = estimate_thresholds(evidence)
        scorer = replace(scorer, thresholds=thresholds, slope=slope)
        size = self.config.effective_bank_size(n_patches=whole.n_patches, n_classes=len(self.text))
        members = whole.members(size)
        retained = Retained(members.label.cpu(), members.image.cpu(), members.cell.cpu())
        confidence = _confidence(members, self.text, scales.text).cpu()
        return Fitted(scorer, bank_report, retained, confidence, prevalence, self.n_images)

    def remembered(self) -> Iterator[ImageFeatures]:
        """The images of the sample by id, some at a time; as one row of patches, whatever their grid."""
        grid = (1, self.sample.patches.shape[1])
        for some in self._places():
            cls = self.sample.cls[some].to(self.text.device)
            yield ImageFeatures(cls, self._patches(some), grid)

    def _patches(self, images: Tensor) -> Tensor:
        """Patches (n, M, D) float32 of some of the sample; half precision cost them their length."""
        return F.normalize(self.sample.patches[images].float(), dim=-1).to(self.text.device)

    def _places(self) -> list[Tensor]:
        """The sample in chunks, by id, so that nothing below depends on the order images came in."""
        return list(torch.split(self.sample.order(), _IMAGES_AT_ONCE))

    def _scales(self, classifier: Classifier) -> Scales:
        rows, cls = self._scale_rows(), self.sample.cls.to(self.text.device)
        return Scales(
            text=self._match(rows @ self.text.T),
            learned=self._match(classifier.scores(rows)),
            cls=self._match(cls @ self.text.T),
        )

    def _match(self, logits: Tensor) -> float:
        if logits.shape[1] == 1:
            spread = float(logits.std(unbiased=False))
            return 1 / spread if spread > 1e-6 else 1.0  # of a single image there is none
        return match_scale(logits, entropy=self.config.matched_entropy)

    def _branch_scores(self, classifier: Classifier, scales: Scales) -> dict[str, Tensor]:
        """T, G, g and the cross-fitted X of the sample, each (n, C) on the CPU."""
        out = {name: torch.empty(len(self.sample), len(self.text)) for name in "TGgX"}
        crossed = self._crossed()
        in_second = halves(self.sample.ids)
        for some in self._places():
            patches, cls = self._patches(some), self.sample.cls[some].to(self.text.device)
            out["T"][some] = text_branch(patches, self.text, scales.text).cpu()
            out["G"][some] = learned_branch(patches, classifier, scales.learned).cpu()
            out["g"][some] = cls_branch(cls, self.text, scales.cls).cpu()
            if crossed is not None:
                by_first, by_second = (learned_branch(patches, *half).cpu() for half in crossed)
                out["X"][some] = torch.where(in_second[some, None], by_first, by_second)
        if crossed is None:
            del out["X"]
        order = self.sample.order()
        return {name: scores[order] for name, scores in out.items()}

    def _crossed(self) -> list[tuple[Classifier, float]] | None:
        """The classifier of each half with its scale, or None if a half is too small to learn from."""
        if min(bank.n_images for bank in self.banks) < 2 or len(self.text) < 2:
            return None
        rows = self._scale_rows()
        crossed = []
        for bank in self.banks:
            classifier = solve(bank, self.config)[0]
            crossed.append((classifier, self._match(classifier.scores(rows))))
        return crossed

    def _scale_rows(self) -> Tensor:
        n, m, _ = self.sample.patches.shape
        picked = torch.arange(0, n * m, max(1, n * m // _SCALE_ROWS))
        image = self.sample.order()[picked // m]
        rows = self.sample.patches[image, picked % m].float()
        return F.normalize(rows, dim=-1).to(self.text.device)

    def _weights(self, branches: dict[str, Tensor], fell_back: Tensor) -> BranchWeights:
        """Of the branches; classes that fell back to their text (C,) bool have learnt nothing."""
        if "X" not in branches:
            return even_weights(len(self.text))
        weights = weigh(branches["T"], branches["X"], branches["g"])
        return replace(
            weights,
            text=weights.text + torch.where(fell_back, weights.learned, 0),
            learned=weights.learned.masked_fill(fell_back, 0),
            evidence=weights.evidence.masked_fill(fell_back, 0),
        )

    def _evidence(self, scorer: Scorer, branches: dict[str, Tensor]) -> Tensor:
        """What the scorer gives for the sample, (n, C)."""
        if not scorer.published_form:
            return scorer.weights.fuse(branches["T"], branches["G"], branches["g"])
        return torch.cat([scorer.evidence(some).cpu() for some in self.remembered()])


def _rounds(ids: Tensor) -> list[Tensor]:
    """Places of ids (B,) in groups without a repetition, as banks take them: first ones, second ones..."""
    rounds: list[list[int]] = []
    times: Counter[int] = Counter()
    for place, value in enumerate(ids.tolist()):
        if times[value] == len(rounds):
            rounds.append([])
        rounds[times[value]].append(place)
        times[value] += 1
    return [torch.tensor(places, dtype=torch.int64) for places in rounds]


def _confidence(members: Members, text: Tensor, scale: float) -> Tensor:
    probability = members.text_probability(text, scale)
    counts = members.counts(len(text)).clamp_min(1)
    mean = (
        torch.zeros(len(text), device=text.device).index_add_(0, members.label, probability)
        / counts
    )
    return mean / mean.quantile(0.75).clamp_min(1e-6)
