"""Rebuild src/piaa/data/classes/imagenet.txt from the package's lexicon, byte for byte.

    python scripts/build_imagenet_list.py
    python scripts/build_imagenet_list.py --check

A class is named by the first lemma of its WordNet synset, and described by it and by those other
lemmas that mean this class before anything else ("mouse: computer mouse", but not "cougar: painter").
Names that several classes share, or whose plural is another class, get what they are a kind of in
brackets: crane (wading bird), crane (lifting device). The order is that of the classifiers' outputs.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from piaa.classes.near_names import plurals
from piaa.encoders.lite.lexicon import Lexicon, load_lexicon

OUTPUT = Path(__file__).parents[1] / "src/piaa/data/classes/imagenet.txt"
HEADER = """\
# The 1,000 classes of ImageNet (ILSVRC 2012), in the order of the classifiers' outputs. Names are
# lemmas of WordNet 3.0, whose license is in ../NOTICE; written by scripts/build_imagenet_list.py.
"""


def build(lexicon: Lexicon) -> str:
    above = {parent for parents in lexicon.parents for parent in parents}
    own = {covered[0]: n for n, covered in enumerate(lexicon.classes) if n not in above}
    synsets = [own[number] for number in range(1000)]  # no class is a kind of another
    firsts = [lexicon.lemmas[synset][0] for synset in synsets]
    times = Counter(first.casefold() for first in firsts)
    lines = []
    for synset, first in zip(synsets, firsts, strict=True):
        name = first
        if times[name.casefold()] > 1 or any(more in times for more in plurals(name.casefold())):
            name = f"{first} ({lexicon.lemmas[lexicon.parents[synset][0]][0]})"
        others = [
            lemma
            for lemma in lexicon.lemmas[synset][1:]
            if lexicon.senses(lemma.lower())[:1] == [((synset, 0),)]
            and lemma.casefold() not in times
        ]
        lines.append(f"{name}: {', '.join(others)}" if others else name)
    return HEADER + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the file; write nothing")
    text = build(load_lexicon())
    if parser.parse_args().check:
        same = OUTPUT.read_text(encoding="utf-8") == text
        sys.exit(None if same else f"{OUTPUT} differs from what the lexicon gives.")
    OUTPUT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
