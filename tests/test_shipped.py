"""What ships under a name: class lists and a fitted recognizer."""

from __future__ import annotations

import hashlib
import runpy
import warnings
from pathlib import Path

import pytest

import piaa
from piaa import ClassList, Config, Recognizer
from piaa.artifact import load_artifact
from piaa.encoders.lite.lexicon import load_lexicon
from piaa.encoders.lite.sources import LITE_ENCODERS, MINILM
from piaa.errors import ArtifactError, InputError
from piaa.shipped import model_path

SCRIPTS = Path(__file__).parents[1] / "scripts"


class TestClassLists:
    @pytest.mark.parametrize(
        ("name", "count", "first", "last"),
        [
            ("voc", 20, "aeroplane", "tv monitor"),
            ("coco", 80, "person", "toothbrush"),
            ("nus", 81, "airport", "zebra"),
            ("everyday", 80, "person", "toothbrush"),
            ("imagenet", 1000, "tench", "toilet tissue"),
            ("photos", 243, "person", "artichoke"),
        ],
    )
    def test_by_name(self, name: str, count: int, first: str, last: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # names that look alike
            found = ClassList.of(name)
        assert len(found) == count
        assert (found.names[0], found.names[-1]) == (first, last)

    def test_all_are_listed(self) -> None:
        assert piaa.list_class_lists() == ["coco", "everyday", "imagenet", "nus", "photos", "voc"]

    def test_those_of_data_sets_are_their_names_alone(self) -> None:
        for name in ("voc", "coco", "nus"):
            found = ClassList.of(name)
            assert found.phrases == tuple((word,) for word in found.names)

    def test_everyday_is_coco_with_synonyms_and_senses(self) -> None:
        everyday = ClassList.of("everyday")
        assert everyday.names == ClassList.of("coco").names
        assert everyday.phrases[everyday.index("mouse")] == ("mouse", "computer mouse")
        assert everyday.phrases[everyday.index("couch")] == ("couch", "sofa")

    def test_imagenet_is_what_the_script_makes_of_wordnet(self) -> None:
        script = runpy.run_path(str(SCRIPTS / "build_imagenet_list.py"))
        assert script["OUTPUT"].read_text(encoding="utf-8") == script["build"](load_lexicon())

    @pytest.mark.parametrize(
        ("output", "name"),
        [(1, "goldfish"), (207, "golden retriever"), (281, "tabby"), (504, "coffee mug"),
         (673, "mouse"), (817, "sports car"), (963, "pizza")],
    )  # fmt: skip
    def test_imagenet_is_in_the_order_of_the_classifiers(self, output: int, name: str) -> None:
        assert ClassList.of("imagenet").names[output] == name

    def test_names_that_two_classes_share_are_told_apart(self) -> None:
        names = ClassList.of("imagenet").names
        assert (names[134], names[517]) == ("crane (wading bird)", "crane (lifting device)")
        assert (names[638], names[639]) == ("maillot (tights)", "maillot (swimsuit)")

    def test_a_name_beats_a_file_and_a_path_is_a_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "voc").write_text("own\nother\n")
        monkeypatch.chdir(tmp_path)
        assert len(ClassList.of("voc")) == 20
        for path in ("./voc", Path("voc"), str(tmp_path / "voc")):
            assert ClassList.of(path).names == ("own", "other")

    @pytest.mark.parametrize("name", ["everday", "VOC", "../models/voc", "voc.txt", ""])
    def test_an_unknown_string_may_have_meant_a_list_or_a_file(self, name: str) -> None:
        with pytest.raises(InputError, match="not a file that can be read") as error:
            ClassList.of(name)
        assert "coco, everyday, imagenet, nus, photos, voc" in str(error.value)

    def test_a_near_name_is_suggested(self) -> None:
        with pytest.raises(InputError, match="Did you mean 'everyday'"):
            ClassList.of("everday")

    def test_an_unknown_path_meant_a_file(self) -> None:
        with pytest.raises(InputError) as error:
            ClassList.of(Path("everday"))
        assert "Did you mean" not in str(error.value)


class TestModels:
    def test_listed(self) -> None:
        assert piaa.list_models() == ["voc"]

    def test_small_and_without_traces_of_where_it_was_made(self) -> None:
        with model_path("voc") as path:
            content = path.read_bytes()
        assert len(content) < 700_000
        for trace in (b"JPEGImages", b"/home", b"/tmp", b"/work"):
            assert trace not in content

    def test_is_what_this_version_of_piaa_would_make(self) -> None:
        """A changed lexicon, weight or default makes it another encoder's or method's: build it again."""
        header = load_artifact("voc").header
        parts = LITE_ENCODERS["lite"].source, MINILM
        digests = "".join([*(part.content_sha256 for part in parts), load_lexicon().sha256])
        assert header["encoder"]["weights_sha256"] == hashlib.sha256(digests.encode()).hexdigest()
        assert header["config"] == Config.auto().to_dict()
        assert ClassList.from_dict(header["classes"]) == ClassList.of("voc")
        assert header["report"]["n_images"] == 2000

    def test_an_unknown_name_lists_the_known_ones(self) -> None:
        with pytest.raises(ArtifactError, match="ships with piaa: voc"):
            Recognizer.load("vco")

    def test_a_path_is_a_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "voc").write_bytes(b"something else")
        for path in ("./voc", Path("voc")):
            with pytest.raises(ArtifactError, match="no complete piaa model"):
                Recognizer.load(path)
