"""The shipped lexicon, and the script that builds it, on a WordNet of a few lines."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import zipfile
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import pytest

from piaa.encoders.lite.lexicon import Lexicon, load_lexicon

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return load_lexicon()


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = ROOT / "scripts" / "build_lexicon.py"
    spec = importlib.util.spec_from_file_location("build_lexicon", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_notice_names_the_file_that_ships(lexicon: Lexicon) -> None:
    data = files("piaa").joinpath("data")
    text = gzip.decompress(data.joinpath("lexicon.txt.gz").read_bytes())
    assert hashlib.sha256(text).hexdigest() == lexicon.sha256
    notice = data.joinpath("NOTICE").read_text()
    assert lexicon.sha256 in notice
    assert "WordNet 3.0 Copyright 2006 by Princeton University" in notice


def test_every_class_has_its_synset_and_the_root_covers_all(lexicon: Lexicon) -> None:
    assert lexicon.lemmas[0] == ("entity",)
    assert lexicon.classes[0] == tuple(range(1000))
    assert {c for classes in lexicon.classes for c in classes} == set(range(1000))


def test_a_hypernym_covers_all_that_its_kinds_cover(lexicon: Lexicon) -> None:
    for number, parents in enumerate(lexicon.parents):
        for parent in parents:
            assert set(lexicon.classes[number]) <= set(lexicon.classes[parent])


def test_senses_point_into_the_synsets(lexicon: Lexicon) -> None:
    for word in lexicon.words:
        for sense in lexicon.senses(word):
            assert all(0 <= number < len(lexicon.lemmas) for number, _ in sense)
            assert all(0 <= steps <= 3 for _, steps in sense)


@pytest.mark.parametrize(
    ("written", "noun"),
    [
        ("Dogs", "dog"),
        ("cell phone", "cellphone"),
        ("tee shirts", "tee shirt"),
        ("t shirt", "t-shirt"),
        ("buses", "bus"),
        ("knives", "knife"),
        ("children", "child"),
        ("butterflies", "butterfly"),
    ],
)
def test_spellings_of_one_noun(lexicon: Lexicon, written: str, noun: str) -> None:
    assert lexicon.senses(noun)
    assert lexicon.find(written) == lexicon.senses(noun)


def test_dogs_are_covered_and_a_giraffe_hangs_below_the_ruminants(lexicon: Lexicon) -> None:
    ((dog, steps),) = lexicon.senses("dog")[0]
    assert (len(lexicon.classes[dog]), steps) == (118, 0)
    (giraffe,) = lexicon.senses("giraffe")
    names = {lemma: s for n, s in lexicon.above(giraffe).items() for lemma in lexicon.lemmas[n]}
    assert names["ruminant"] == 1
    assert names["ruminant"] < names["mammal"] < names["animal"]
    assert lexicon.find("qwrtzp") == []


def test_steps_are_the_fewest_where_ways_meet() -> None:
    #     0
    #    / \
    #   1   2
    #   |   |
    #   3   |
    #    \ /
    #     4
    parents = [(), (0,), (0,), (1,), (3, 2)]
    diamond = Lexicon([("",)] * 5, parents, [()] * 5, {}, "")
    assert diamond.above(((4, 1),)) == {4: 1, 3: 2, 2: 2, 1: 3, 0: 3}


# Two classes (tabby, truck); kit is below cat, a poet only an instance, a hue abstract, and the
# fourth-cousin more than three steps down.
_DATA = """\
  1 licence
00001740 03 n 01 entity 0 001 ~ 00001930 n 0000 | what is
00001930 03 n 01 physical_entity 0 001 @ 00001740 n 0000 | what is solid
00002000 03 n 02 cat 0 true_cat 0 001 @ 00001930 n 0000 | an animal | with whiskers
00002100 05 n 01 tabby 0 001 @ 00002000 n 0000 | striped
00002200 06 n 02 truck 0 motortruck 0 001 @ 00001930 n 0000 | carries
00002300 05 n 01 kit 0 001 @ 00002000 n 0000 | young cat
00002400 18 n 01 Tom 0 001 @i 00002000 n 0000 | a famous cat
00002500 07 n 01 hue 0 001 @ 00001740 n 0000 | colour
00002600 05 n 01 one_down 0 001 @ 00002300 n 0000 | x
00002700 05 n 01 two_down 0 001 @ 00002600 n 0000 | x
00002800 05 n 01 three_down 0 001 @ 00002700 n 0000 | x
"""
_INDEX = """\
  1 licence
cat n 1 1 @ 1 1 00002000
hue n 1 1 @ 1 0 00002500
kit n 2 1 @ 2 0 00002300 00002500
motortruck n 1 1 @ 1 0 00002200
three_down n 1 1 @ 1 0 00002800
tom n 1 1 @i 1 0 00002400
two_down n 1 1 @ 1 0 00002700
"""


def test_the_script_on_a_small_wordnet(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "data.noun").write_text(_DATA)
    (tmp_path / "index.noun").write_text(_INDEX)
    (tmp_path / "noun.exc").write_text("kitten kit\nmotor_trucken motortruck\nhuen hue\n")
    classes = ["n00002200", *["n00002100"] * 999]
    with zipfile.ZipFile(tmp_path / "timm.whl", "w") as wheel:
        wheel.writestr(script.CLASS_ORDER, "\n".join(classes))
    text = script.build(tmp_path, tmp_path / "timm.whl")
    assert text.splitlines() == [
        "entity\t\t",
        "physical entity\t0\t",
        "cat|true cat\t1\t",
        "tabby\t2\t999",
        "truck|motortruck\t1\t0",
        "",
        "cat\t2",
        "kit\t2+1",
        "kitten\t2+1",
        "motor trucken\t4",
        "motortruck\t4",
        "two down\t2+3",
    ]
    assert gzip.decompress(script.pack(text)).decode() == text
    assert script.pack(text) == script.pack(text)
