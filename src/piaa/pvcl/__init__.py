"""PVCL: a visual classifier learned from unlabeled patches, in closed form."""

from piaa.pvcl.bank import Bank, merge
from piaa.pvcl.gda import Classifier
from piaa.pvcl.learn import Report, learn, new_bank, solve
from piaa.pvcl.members import Members
from piaa.pvcl.purify import Purified, purify
from piaa.pvcl.scale import match_scale

__all__ = [
    "Bank",
    "Classifier",
    "Members",
    "Purified",
    "Report",
    "learn",
    "match_scale",
    "merge",
    "new_bank",
    "purify",
    "solve",
]
