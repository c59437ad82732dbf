"""What a class that is found says against all others: a picture of a train hardly shows a sofa as well.

Branches score each class for itself, by the best patch of an image, so that look-alikes score high
together. How much company a class keeps is seen without a label: r_d is the number of other classes found in
images of d, relative to that in any image. Where d is found, -log r_d nats speak against every other class.
That is next to nothing for a person or a chair, and much for all classes where each image holds one thing.

One number a class and not one a pair: look-alikes are found together, so that of pairs one would learn that
they keep company, and undo what this is for.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from piaa.thresholds import Cuts

SHARE = 0.5  # of the nats that count; more would harm classes that are not there
MOST = 4.0  # nats
PRIOR = 5.0  # images that are taken to have been seen with the usual company
FIRMNESS = 3.0  # of what is found: doubtful images count little on either side


@dataclass(frozen=True)
class Company:
    """What classes say against each other.

    Attributes:
        level: (C,) float32, evidence at which a class is as likely found as not.
        steepness: () float32, of the sigmoid around it.
        cost: (C,) float32, at least 0: what all other classes lose where a class is found.
    """

    level: Tensor
    steepness: Tensor
    cost: Tensor

    @staticmethod
    def of(evidence: Tensor, cuts: Cuts) -> Company:
        """From evidence (n, C) of unlabelled images and where it is cut."""
        return Company(
            level=cuts.thresholds,
            steepness=torch.tensor(FIRMNESS * cuts.slope),
            cost=SHARE / cuts.slope * solitude(found_by(evidence, cuts)),
        )

    def explain(self, evidence: Tensor) -> Tensor:
        """Evidence (B, C), each class's less what the strongest other one says against it."""
        device = evidence.device
        level, steepness, cost = (
            part.to(device, non_blocking=True) for part in (self.level, self.steepness, self.cost)
        )
        said = cost * (steepness * (evidence - level)).sigmoid()
        strongest = said.topk(2, dim=1)
        own = strongest.indices[:, :1] == torch.arange(evidence.shape[1], device=device)
        return evidence - torch.where(own, strongest.values[:, 1:], strongest.values[:, :1])


def found_by(evidence: Tensor, cuts: Cuts) -> Tensor:
    """How far each image holds each class, (n, C) in (0, 1), by evidence (n, C) around its cuts."""
    return torch.sigmoid(FIRMNESS * cuts.slope * (evidence - cuts.thresholds))


def solitude(found: Tensor) -> Tensor:
    """Nats that finding a class speaks against any other, (C,) float32 in [0, MOST].

    found (n, C) in [0, 1]: how far each image seems to hold each class.
    """
    found = found.double()
    n = len(found)
    share = found.mean(0)
    # Not by way of all pairs, of which there may be a hundred million.
    others = found.sum(1, keepdim=True) - found
    together = (found * others).mean(0)
    usual = share * (share.sum() - share)
    tiny = 1e-12  # of a class that is never found there is nothing to say
    ratio = (together + PRIOR / n * usual + tiny) / ((1 + PRIOR / n) * usual + tiny)
    return -ratio.log().clamp(-MOST, 0).float()
