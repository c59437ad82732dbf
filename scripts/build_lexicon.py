"""Rebuild src/piaa/data/lexicon.txt.gz from WordNet 3.0's noun files, byte for byte.

    python scripts/build_lexicon.py --wordnet /usr/share/wordnet --classes timm-1.0.30-py3-none-any.whl
    python scripts/build_lexicon.py --wordnet ... --classes ... --check

WordNet's files are in Debian's package `wordnet-base`. The order of the 1,000 ImageNet classes, as
WordNet ids, is a member of the timm wheel (`pip download --no-deps timm`), read out of the archive.

The file has two parts with an empty line between them, fields separated by tabs:

1. The synsets that cover at least one class, numbered from 0 in the order of their WordNet ids:
   lemmas separated by "|"; numbers of its hypernyms separated by ","; the class it is, or nothing.
2. A noun, in lower case, and its senses in WordNet's order (the more frequent first), separated by
   ";". A sense is the number of a synset of part 1 or, of a noun that covers no class, the nearest
   synsets above it that do, as number+steps separated by ",".

Left out: senses more than three steps below part 1, abstractions and names of single things (they
point to nothing one sees), and all after the sixth sense. Irregular plurals of noun.exc stand beside
their singulars.
"""

from __future__ import annotations

import argparse
import gzip
import io
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

OUTPUT = Path(__file__).parents[1] / "src/piaa/data/lexicon.txt.gz"
CLASS_ORDER = "timm/data/_info/imagenet_synsets.txt"
PHYSICAL_ENTITY = "00001930"
MOST_STEPS = 3
MOST_SENSES = 6


@dataclass(frozen=True)
class Synset:
    lemmas: tuple[str, ...]
    hypernyms: tuple[str, ...]


def read_synsets(path: Path) -> dict[str, Synset]:
    """Noun synsets by their eight-digit ids; the format is described in wndb(5WN)."""
    synsets = {}
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith("  "):  # the licence at the head of the file
            continue
        fields = line.split(" | ")[0].split()
        n_lemmas = int(fields[3], 16)
        lemmas = fields[4 : 4 + 2 * n_lemmas : 2]
        rest = fields[4 + 2 * n_lemmas :]
        pointers = [rest[i : i + 4] for i in range(1, 1 + 4 * int(rest[0]), 4)]
        # "@" is a kind of; "@i", an instance of, would let poets count as kinds of people.
        hypernyms = tuple(target for kind, target, *_ in pointers if kind == "@")
        synsets[fields[0]] = Synset(tuple(word.replace("_", " ") for word in lemmas), hypernyms)
    return synsets


def read_senses(path: Path) -> dict[str, list[str]]:
    """Ids of the senses of each noun, in WordNet's order."""
    senses = {}
    for line in path.read_text(encoding="ascii").splitlines():
        if not line.startswith("  "):
            fields = line.split()
            senses[fields[0].replace("_", " ")] = fields[-int(fields[2]) :]
    return senses


def read_classes(wheel: Path) -> list[str]:
    """WordNet ids of the 1,000 classes in the order of the classifiers."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.read(CLASS_ORDER).decode().split()
    if len(names) != 1000 or not all(name.startswith("n") for name in names):
        sys.exit(f"{CLASS_ORDER} in {wheel} does not hold 1,000 WordNet ids.")
    return [name.removeprefix("n") for name in names]


def nearest(start: str, synsets: dict[str, Synset], wanted: set[str]) -> dict[str, int]:
    """The first wanted synsets on every way up from `start`, with the steps to them."""
    found: dict[str, int] = {}
    seen, edge = {start}, [start]
    for steps in range(MOST_STEPS + 1):
        found |= {id_: steps for id_ in edge if id_ in wanted}
        above = [up for id_ in edge if id_ not in wanted for up in synsets[id_].hypernyms]
        edge = [id_ for id_ in dict.fromkeys(above) if id_ not in seen]
        seen.update(edge)
    return found


def below(top: str, synsets: dict[str, Synset], among: set[str]) -> set[str]:
    """Those of `among`, which holds all above its members, that are `top` or a kind of it."""
    found = {top}
    size = 0
    while len(found) > size:
        size = len(found)
        found |= {id_ for id_ in among if found & set(synsets[id_].hypernyms)}
    return found


def build(wordnet: Path, wheel: Path) -> str:
    synsets = read_synsets(wordnet / "data.noun")
    classes = read_classes(wheel)
    covering: set[str] = set()
    edge = set(classes)
    while edge:
        covering |= edge
        edge = {up for id_ in edge for up in synsets[id_].hypernyms} - covering
    number = {id_: index for index, id_ in enumerate(sorted(covering))}
    class_of = {id_: str(index) for index, id_ in enumerate(classes)}

    lines = []
    for id_ in sorted(covering):
        parents = ",".join(str(number[up]) for up in synsets[id_].hypernyms)
        lines.append("\t".join(("|".join(synsets[id_].lemmas), parents, class_of.get(id_, ""))))
    lines.append("")

    visible = below(PHYSICAL_ENTITY, synsets, covering)
    words: dict[str, str] = {}
    for word, ids in read_senses(wordnet / "index.noun").items():
        senses = []
        for id_ in ids:
            above = nearest(id_, synsets, visible)
            if id_ in covering:
                senses.append(str(number[id_]))
            elif above:
                pairs = sorted((number[up], steps) for up, steps in above.items())
                senses.append(",".join(f"{up}+{steps}" for up, steps in pairs))
        if senses:
            words[word] = ";".join(list(dict.fromkeys(senses))[:MOST_SENSES])
    for line in (wordnet / "noun.exc").read_text(encoding="ascii").splitlines():
        plural, singular, *_ = (word.replace("_", " ") for word in line.split())
        if singular in words:
            words.setdefault(plural, words[singular])
    lines.extend(f"{word}\t{words[word]}" for word in sorted(words))
    return "\n".join(lines) + "\n"


def pack(text: str) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=9, mtime=0) as file:
        file.write(text.encode("ascii"))
    return packed.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wordnet", type=Path, required=True, help="folder of data.noun")
    parser.add_argument("--classes", type=Path, required=True, help="the timm wheel")
    parser.add_argument("--check", action="store_true", help="compare with the file; write nothing")
    options = parser.parse_args()
    text = build(options.wordnet, options.classes)
    if options.check:
        same = gzip.decompress(OUTPUT.read_bytes()).decode("ascii") == text
        sys.exit(None if same else f"{OUTPUT} differs from what WordNet's files give.")
    OUTPUT.write_bytes(pack(text))


if __name__ == "__main__":
    main()
