"""What a class that is found says against all others: a picture of a train hardly shows a sofa as well.

Branches score each class for itself, by the best patch of an image, so that look-alikes score high
together. How much company a class keeps is seen without a label: r_d is the number of other classes found in
images of d, relative to that in any image. Where d is found, -log r_d nats speak against every other class.
That is next to nothing for a person or a chair, and much for all classes where each image holds one thing.

One number a class and not one a pair: look-alikes are found together, so that of pairs one would learn that
they keep company, and undo what this is for.

**One thing an image.** In a collection of portraits of pets or products no image holds two. It shows: classes
whose evidence splits in two are hardly ever found together. A class that is found then rules the others out,
unless one of them stands out more; so even a class that neither its text nor its patches tell is found, as
what is left. A class whose evidence is one lump says nothing here, neither of the collection nor of an image.

**Elimination.** Where the text is so weak that what was learnt from it splits images several times as well,
some classes are known by hardly more than that no other one explains the image. For those that their text
does not split at all, the log-softmax over classes of the learnt branch counts as much as the rest: the
competition that the published form has everywhere, and that costs where images hold much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from piaa.branch_statistics import ramp
from piaa.thresholds import Cuts, estimate_thresholds

SHARE = 0.5  # of the nats that count; more would harm classes that are not there
MOST = 4.0  # nats
PRIOR = 5.0  # images that are taken to have been seen with the usual company
FIRMNESS = 3.0  # of what is found: doubtful images count little on either side
CLEAR = (0.1, 0.4)  # split of a class relative to that of the upper quarter: one lump, or two
ONE_THING = (3.0, 3.5)  # nats of the middle one of the clear classes, among these
RULED_OUT = 8.0  # nats; the surest image of a class has half of that
_FAR = 60.0  # where a sigmoid is flat; classes off a shortlist are infinitely far


@dataclass(frozen=True)
class Company:
    """What classes say against each other.

    Attributes:
        level: (C,) float32, evidence at which a class is as likely found as not.
        steepness: () float32, of the sigmoid around it.
        cost: (C,) float32, at least 0: what all other classes lose where a class is found.
        rival: (C,) float32, at least 0: what they lose on top, unless they stand out more; 0 for all classes
            if images hold several things.
        elimination: (C,) float32, at least 0: weight of the log-softmax of the learnt branch over classes; 0
            unless the text is weak.
    """

    level: Tensor
    steepness: Tensor
    cost: Tensor
    rival: Tensor
    elimination: Tensor

    @staticmethod
    def of(evidence: Tensor, presence: Tensor | None) -> Company:
        """From evidence (n, C) of unlabelled images; presence (C,) as in `estimate_thresholds`."""
        cuts = estimate_thresholds(evidence, presence)
        found = found_by(evidence, cuts)
        clear = ramp(cuts.split / cuts.split.quantile(0.75).clamp_min(1e-6), CLEAR)
        return Company(
            level=cuts.thresholds,
            steepness=torch.tensor(FIRMNESS * cuts.slope),
            cost=SHARE / cuts.slope * solitude(found),
            rival=RULED_OUT / cuts.slope * one_thing(found, clear) * clear,
            elimination=torch.zeros(evidence.shape[1]),
        )

    def with_elimination(self, evidence: Tensor, learned: Tensor, weak: Tensor) -> Company:
        """The same, with elimination as far as the text is weak, (C,) in [0, 1].

        evidence and learned (n, C), the learnt branch by itself, are of the same unlabelled images.
        """
        spread, own = (
            scores.std(0, unbiased=False)
            for scores in (self._against(evidence), learned.log_softmax(1))
        )
        # What is the same for every image eliminates nothing.
        return replace(self, elimination=torch.where(own > 1e-6, weak * spread / own, 0))

    def explain(self, evidence: Tensor, learned: Tensor | None) -> Tensor:
        """What is left of evidence (B, C) once classes have been heard against each other.

        learned (B, C) is the learnt branch by itself; it may be None where there is no elimination.
        """
        return self._eliminated(self._against(evidence), learned)

    def own(self, evidence: Tensor, learned: Tensor | None) -> Tensor:
        """The same, with nothing said against a class: where its threshold is to be looked for.

        Images that another class speaks against are a heap of their own, far below. In a small vocabulary
        it is taken for the images without the class, and everything above it for those with it.
        """
        return self._eliminated(evidence, learned)

    def _eliminated(self, evidence: Tensor, learned: Tensor | None) -> Tensor:
        if learned is None or not self.elimination.any():
            return evidence
        weight = self.elimination.to(evidence.device, non_blocking=True)
        # Classes off a shortlist are at minus infinity, also where the weight is 0.
        return evidence + torch.where(weight > 0, weight * learned.log_softmax(1), 0)

    def _against(self, evidence: Tensor) -> Tensor:
        """Evidence (B, C), each class's less what the strongest other one says against it."""
        device = evidence.device
        level, steepness, cost, rival = (
            part.to(device, non_blocking=True)
            for part in (self.level, self.steepness, self.cost, self.rival)
        )
        margin = steepness * (evidence - level)
        found = margin.sigmoid()
        strongest = ((cost + rival) * found).topk(2, dim=1)
        own = strongest.indices[:, :1] == torch.arange(evidence.shape[1], device=device)
        if not self.rival.any():
            return evidence - torch.where(own, strongest.values[:, 1:], strongest.values[:, :1])
        speaker = torch.where(own, strongest.indices[:, 1:], strongest.indices[:, :1])
        margin = margin.clamp(-_FAR, _FAR)
        # A lump stands out by chance; only clear classes hold their own.
        stands_out = rival / rival.max() * (margin - margin.gather(1, speaker)).sigmoid()
        against = cost[speaker] + rival[speaker] * (1 - stands_out)
        return evidence - found.gather(1, speaker) * against


def found_by(evidence: Tensor, cuts: Cuts) -> Tensor:
    """How far each image holds each class, (n, C) in (0, 1), by evidence (n, C) around its cuts."""
    return torch.sigmoid(FIRMNESS * cuts.slope * (evidence - cuts.thresholds))


def solitude(found: Tensor, among: Tensor | None = None) -> Tensor:
    """Nats that finding a class speaks against any other, (C,) float32 in [0, MOST].

    found (n, C) in [0, 1]: how far each image seems to hold each class. among (C,) in [0, 1]: how far a class
    counts as one of the others, all by default.
    """
    found = found.double()
    n = len(found)
    share = found.mean(0)
    counted = found if among is None else found * among
    usual_company = counted.mean(0)
    # Not by way of all pairs, of which there may be a hundred million.
    others = counted.sum(1, keepdim=True) - counted
    together = (found * others).mean(0)
    usual = share * (usual_company.sum() - usual_company)
    tiny = 1e-12  # of a class that is never found there is nothing to say
    ratio = (together + PRIOR / n * usual + tiny) / ((1 + PRIOR / n) * usual + tiny)
    return -ratio.log().clamp(-MOST, 0).float()


def one_thing(found: Tensor, clear: Tensor) -> float:
    """In [0, 1]: whether images hold one thing each, by found (n, C) of the classes that are clear (C,).

    The middle class decides: two names of one thing are always found together.
    """
    alone, order = solitude(found, among=clear).sort()
    weight = clear[order].cumsum(0)
    if weight[-1] == 0:
        return 0.0
    middle = alone[(weight >= weight[-1] / 2).nonzero()[0]]
    return float(ramp(middle, ONE_THING))
