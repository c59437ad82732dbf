"""Forms, however their bytes are cut into chunks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piaa.client import _form
from piaa.serve.forms import FormReader
from piaa.serve.limits import Limits
from piaa.serve.problems import ProblemError

NAMES = st.text(
    st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters='"\\%;'), max_size=20
)


@settings(max_examples=60, deadline=None)
@given(
    files=st.lists(st.tuples(NAMES, st.binary(max_size=200)), max_size=5),
    fields=st.lists(st.text(st.characters(blacklist_categories=["Cs"]), max_size=50), max_size=3),
    cuts=st.lists(st.integers(1, 60), min_size=1, max_size=10),
)
def test_what_is_sent_arrives(
    files: list[tuple[str, bytes]], fields: list[str], cuts: list[int]
) -> None:
    kind, body = _form("images", files, [("note", text) for text in fields])
    reader = FormReader(kind.partition("boundary=")[2].encode(), Limits())
    at = number = 0
    while at < len(body):
        size = cuts[number % len(cuts)]
        reader.feed(body[at : at + size])
        at, number = at + size, number + 1
    form = reader.finish()
    assert [(file.name.strip(), file.data) for file in form.files] == [
        (name.strip(), data) for name, data in files
    ]
    assert [field.text for field in form.fields] == fields
    assert {field.field for field in form.fields} <= {"note"}


def test_a_limit_ends_it_at_the_part_that_passes_it() -> None:
    kind, body = _form("images", [("a", b"x")] * 4, [])
    reader = FormReader(kind.partition("boundary=")[2].encode(), Limits(images=3))
    with pytest.raises(ProblemError, match="more than 3 files"):
        reader.feed(body)
    assert len(reader._form.files) == 3
