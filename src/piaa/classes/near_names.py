"""Names that may well mean one thing: plurals, and words written together or apart."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_IRREGULAR = {
    "child": "children",
    "foot": "feet",
    "goose": "geese",
    "mouse": "mice",
    "ox": "oxen",
    "person": "people",
    "tooth": "teeth",
}
# A wrong plural does no harm unless it is a name itself: hence "es" not after every letter
# (cap, capes; plan, planes), while the others may be tried wherever they fit.
_ENDINGS = (
    (r"$", "s"),
    (r"(?<=[sxz])$|(?<=[cs]h)$|(?<=o)$", "es"),
    (r"(?<=[^aeiou])y$", "ies"),
    (r"fe?$", "ves"),
    (r"man$", "men"),
)


def comparable(name: str) -> str:
    """What two spellings of one name share: case, white space and Unicode forms are dropped.

    >>> comparable("Dining  Table") == comparable("dining table ")
    True
    """
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def joined(key: str) -> str:
    """A `comparable` name without spaces and hyphens.

    >>> joined("t-shirt") == joined("t shirt") == "tshirt"
    True
    """
    return re.sub(r"[\s-]+", "", key)


def plurals(key: str) -> Iterator[str]:
    """English plurals a `comparable` name may have, right and wrong ones.

    >>> "berries" in plurals("berry"), "fire trucks" in plurals("fire truck")
    (True, True)
    """
    for ending, plural in _ENDINGS:
        changed, count = re.subn(ending, plural, key, count=1)
        if count:
            yield changed
    head, _, last = key.rpartition(" ")
    if last in _IRREGULAR:
        yield f"{head} {_IRREGULAR[last]}".strip()
