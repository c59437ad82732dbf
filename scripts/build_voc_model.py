"""Rebuild src/piaa/data/models/voc.piaa: the 20 VOC objects, learnt from photographs without labels.

    python scripts/build_voc_model.py --root DEVKIT
    python scripts/build_voc_model.py --root DEVKIT --out voc.piaa --encoder lite

Learns with the default settings from the photographs that ImageSets/Main/trainval.txt lists, of VOC
2007 or 2012, and reads no annotation. The model in the package is learnt from 2,000 photographs of
the trainval list of VOC 2007 by the encoder `lite`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import piaa

OUTPUT = Path(__file__).parents[1] / "src/piaa/data/models/voc.piaa"


def listed_photographs(root: Path) -> list[Path]:
    """The photographs of the trainval list below a folder, in its order."""
    lists = sorted(root.rglob("ImageSets/Main/trainval.txt"))
    if not lists:
        sys.exit(f"No ImageSets/Main/trainval.txt below {root}: give the folder of a VOC devkit.")
    devkit = lists[0].parents[2]
    return [devkit / "JPEGImages" / f"{name}.jpg" for name in lists[0].read_text().split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=Path, required=True, help="a VOC devkit, or a folder above")
    parser.add_argument("--out", type=Path, default=OUTPUT, help="default: the package's own file")
    parser.add_argument("--encoder", default="lite", help="a name of piaa.list_encoders()")
    options = parser.parse_args()
    photographs = listed_photographs(options.root)
    recognizer = piaa.Recognizer(piaa.load_encoder(options.encoder), classes="voc")
    report = recognizer.fit(photographs)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    recognizer.save(options.out)
    sys.stdout.write(f"{report}\n{options.out}: {options.out.stat().st_size / 1e3:.0f} KB\n")


if __name__ == "__main__":
    main()
