from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from piaa.classes.class_list import ClassList, ClassNameWarning, encode_classes
from piaa.encoders.clip import ClipEncoder
from piaa.errors import InputError, UnknownNameError


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(content: bytes) -> Path:
        path = tmp_path / "classes.txt"
        path.write_bytes(content)
        return path

    return write


class TestReading:
    def test_every_form_gives_the_same(self, write: Callable[[bytes], Path]) -> None:
        expected = ClassList(("cat", "sofa"), (("cat",), ("sofa", "couch", "settee")))
        path = write(b"cat\nsofa: couch, settee\n")
        for form in (
            expected,
            ["cat", "sofa: couch, settee"],
            ("cat", " sofa :couch ,  settee "),
            {"cat": [], "sofa": ("couch", "settee")},
            path,
            str(path),
        ):
            assert ClassList.of(form) == expected

    @pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
    def test_comments_blank_lines_and_bom(
        self, write: Callable[[bytes], Path], newline: bytes
    ) -> None:
        lines = [b"\xef\xbb\xbf# pets", b"", b"  caf\xc3\xa9   table # outside", b"C# manual", b" "]
        assert ClassList.of(write(newline.join(lines))).names == ("café table", "C# manual")

    def test_name_among_its_synonyms_keeps_their_order(self) -> None:
        assert ClassList.of(["sofa: couch, sofa"]).phrases == (("couch", "sofa"),)

    def test_colons_and_commas_of_a_mapping_belong_to_the_name(self) -> None:
        classes = ClassList.of({"Alien: Covenant, 2017": []})
        assert classes.names == ("Alien: Covenant, 2017",)

    @pytest.mark.parametrize(
        ("content", "line"),
        [
            (b"cat\nfa\xe7ade\n", 2),  # Latin-1
            ("cat\ndog\n".encode("utf-16"), 1),
            ("cat\ndog\n".encode("utf-16-le"), 1),
        ],
    )
    def test_other_encodings_are_named_with_the_line(
        self, write: Callable[[bytes], Path], content: bytes, line: int
    ) -> None:
        with pytest.raises(InputError, match=rf"(?i)line {line} of .*UTF-8"):
            ClassList.of(write(content))

    @pytest.mark.parametrize("wrong", ["dog", "classes.txt", "a\0b", "cat\ndog", "", "x" * 5000])
    def test_a_plain_string_says_what_is_accepted(self, wrong: str) -> None:
        with pytest.raises(InputError, match=r"list of names, a mapping .* text file"):
            ClassList.of(wrong)

    @pytest.mark.parametrize("wrong", [3, None, {"a", "b"}, b"dog", (c for c in "ab"), Path("no")])
    def test_other_things_say_what_is_accepted(self, wrong: object) -> None:
        with pytest.raises(InputError, match="list of names"):
            ClassList.of(wrong)

    def test_a_folder_is_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="not a file"):
            ClassList.of(tmp_path)


class TestErrors:
    @pytest.mark.parametrize(
        ("classes", "message"),
        [
            ([], "no class: the list is empty"),
            ({}, "no class: the mapping is empty"),
            (["cat", " "], r"classes\[1\] has an empty name"),
            (["cat", 3], r"classes\[1\] must be a string, not int"),
            ({3: []}, "key 3 must be a string"),
            ({"sofa": "couch"}, "synonyms of 'sofa' must be a list"),
            ({"sofa": ["couch", None]}, "synonyms of 'sofa' must be a list"),
            (["sofa:"], "empty synonym"),
            (["sofa: couch,, settee"], "empty synonym"),
            ([": couch"], "empty name"),
            (["cat", "dog", "cat"], r"classes\[0\] is 'cat', classes\[2\] is 'cat'"),
            (["Hot  Dog", "hot dog"], r"classes\[0\] is 'Hot Dog', classes\[1\] is 'hot dog'"),
            (["stra\u00dfe", "STRASSE"], "there twice"),
            (["caf\u00e9", "cafe\u0301"], "there twice"),
            (["sofa: couch, Couch"], "twice by the same phrase"),
            (["sofa: couch", "bed: Couch"], r"'Couch' describes two .*'sofa'.*'bed'"),
            (["ca\x00t"], "not text"),
            (["\ud800"], "not text"),
        ],
    )
    def test_before_any_work(self, classes: object, message: str) -> None:
        with pytest.raises(InputError, match=message):
            ClassList.of(classes)

    def test_duplicates_in_a_file_name_both_lines(self, write: Callable[[bytes], Path]) -> None:
        with pytest.raises(InputError, match=r"line 2 of .* is 'Dog', line 5 of .* is 'dog'"):
            ClassList.of(write(b"# pets\nDog\n\ncat\ndog\n"))

    def test_an_empty_file(self, write: Callable[[bytes], Path]) -> None:
        with pytest.raises(InputError, match="no class: the file"):
            ClassList.of(write(b"# nothing yet\n\n"))

    def test_the_constructor_checks_too(self) -> None:
        with pytest.raises(InputError, match="2 for 1 names"):
            ClassList(("cat",), (("cat",), ("dog",)))
        with pytest.raises(InputError, match="there twice"):
            ClassList(("cat", "Cat"), (("cat",), ("feline",)))
        with pytest.raises(InputError, match="no phrase"):
            ClassList(("cat",), ((),))


class TestNearDuplicates:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("dog", "dogs"),
            ("boxes", "box"),
            ("berry", "Berries"),
            ("fire truck", "fire trucks"),
            ("mouse", "mice"),
            ("young person", "young people"),
            ("shelf", "shelves"),
            ("woman", "women"),
            ("t-shirt", "t shirt"),
            ("hotdog", "hot dog"),
            ("sofa: couch", "couches"),
            ("vehicle: car, bus", "bus"),
        ],
    )
    def test_warned_about_by_name(self, one: str, other: str) -> None:
        expected = re.escape(other)
        for classes in ([one, "zebra", other], [other, "zebra", one]):
            with pytest.warns(ClassNameWarning, match=expected) as caught:
                assert len(ClassList.of(classes)) == 3
            assert len(caught) == 1
            text = str(caught[0].message)
            assert "classes[0]" in text
            assert "classes[2]" in text
            assert "zebra" not in text

    def test_no_false_alarm_on_common_names(self) -> None:
        names = ["cap", "cape", "plane", "plan", "man", "woman", "dog", "hot dog", "mouse", "house"]
        names += ["bus", "car", "cat", "tie", "orange", "remote", "TV", "sofa: couch, settee"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ClassList.of(names)

    def test_many_pairs_make_one_warning(self) -> None:
        names = [f"thing{i}{end}" for i in range(100) for end in ("", "s")]
        with pytest.warns(ClassNameWarning, match="and 90 more") as caught:
            ClassList.of(names)
        assert len(caught) == 1


class TestUse:
    def test_index(self) -> None:
        classes = ClassList.of(["cat", "dining table"])
        assert [classes.index(name) for name in classes.names] == [0, 1]
        with pytest.raises(UnknownNameError, match="Did you mean 'dining table'"):
            classes.index("dinning table")

    def test_prompts(self) -> None:
        classes = ClassList.of({"{x}": [], "sofa": ["couch"]})
        assert classes.prompts("{} {0}!") == [["{x} {0}!"], ["sofa {0}!", "couch {0}!"]]
        assert classes.prompts()[1] == ["a photo of a sofa", "a photo of a couch"]

    @pytest.mark.parametrize("template", ["a photo", "{} and {}", "{0}", "", 5])
    def test_template_needs_one_place(self, template: str) -> None:
        with pytest.raises(InputError, match="exactly once"):
            ClassList.of(["cat"]).prompts(template)

    @given(st.lists(st.text("abcdefgh", min_size=4), min_size=1, unique=True))
    @pytest.mark.filterwarnings("ignore::piaa.classes.class_list.ClassNameWarning")
    def test_json_round_trip(self, names: list[str]) -> None:
        classes = ClassList.of(names)
        assert classes.names == tuple(names)
        assert ClassList.from_dict(json.loads(json.dumps(classes.to_dict()))) == classes

    @pytest.mark.parametrize(
        "values", [{}, {"names": "ab", "phrases": []}, {"names": ["a"], "phrases": ["a"]}]
    )
    def test_broken_json(self, values: dict[str, object]) -> None:
        with pytest.raises(InputError, match="saved class list"):
            ClassList.from_dict(values)


class WordVectors:
    """An encoder of texts that gives the vectors it was given, and counts calls."""

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self.vectors, self.calls = vectors, 0

    def encode_text(self, texts: Sequence[str]) -> torch.Tensor:
        self.calls += 1
        return torch.tensor([self.vectors[text] for text in texts])


class TestEncoding:
    def test_mean_of_unit_vectors(self) -> None:
        encoder = WordVectors({"a cat": [0, 2, 0], "a sofa": [3, 0, 0], "a couch": [0, 0, 5]})
        text = encode_classes(encoder, ["cat", "sofa: couch"], "a {}")
        half = 0.5**0.5
        torch.testing.assert_close(text, torch.tensor([[0, 1.0, 0], [half, 0, half]]))
        assert encoder.calls == 1

    @pytest.mark.parametrize("opposite", [[0, -3.0], [float("nan"), 1.0]])
    def test_no_direction_names_the_class(self, opposite: list[float]) -> None:
        encoder = WordVectors({"cat": [1, 0.0], "up": [0, 1.0], "down": opposite})
        with pytest.raises(InputError, match="class 'up' has no direction"):
            encode_classes(encoder, ["cat", "up: down"], "{}")

    def test_against_a_loop_with_a_real_text_tower(self, load: Callable[..., ClipEncoder]) -> None:
        encoder = load("clip")
        classes = ClassList.of(["cat", "sofa: couch, settee", "bus: coach"])
        text = encode_classes(encoder, classes)
        for row, prompts in zip(text, classes.prompts(), strict=True):
            mean = encoder.encode_text(prompts).double().mean(0)
            torch.testing.assert_close(row.double(), mean / mean.norm(), atol=1e-6, rtol=0)
