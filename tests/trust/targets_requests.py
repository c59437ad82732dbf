"""Fuzz targets: what clients send to the service."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from random import Random

from mutations import mutate, mutate_tree
from target import Target

from piaa.serve.bodies import _from_form, _from_json
from piaa.serve.forms import FormReader
from piaa.serve.limits import Limits
from piaa.serve.problems import ProblemError
from piaa.serve.service import CLASSES, HEATMAP, TAGS

_BOUNDARY = b"frontier"


def request_forms(_: Path) -> Target:
    def part(head: bytes, body: bytes) -> bytes:
        return (
            b"--"
            + _BOUNDARY
            + b"\r\nContent-Disposition: form-data; "
            + head
            + b"\r\n\r\n"
            + body
            + b"\r\n"
        )

    file = part(
        b'name="images"; filename="a.jpg"\r\nContent-Type: image/jpeg', b"\xff\xd8\xff" * 20
    )
    fields = part(b'name="threshold"', b"0.5") + part(b'name="top_k"', b"3")
    end = b"--" + _BOUNDARY + b"--\r\n"
    seeds = [
        file + fields + end,
        fields + file * 3 + end,
        part(b'name="classes"', b"cat\ndog") + file + end,
    ]

    def accepts(data: bytes, place: Path) -> bool:
        accepted = False
        for expected in (TAGS, CLASSES, HEATMAP):
            try:
                reader = FormReader(_BOUNDARY, Limits())
                for start in range(0, len(data), 97):
                    reader.feed(data[start : start + 97])
                body = _from_form(reader.finish(), expected)
            except ProblemError:
                continue
            assert all(isinstance(image.data, bytes) for image in body.pictures)
            accepted = True
        return accepted

    return Target(seeds, accepts)


def request_bodies(_: Path) -> Target:
    picture = base64.b64encode(b"\xff\xd8\xff" * 20).decode()
    trees = [
        {
            "images": [{"name": "a", "data": picture}, {"name": "b", "sha256": "0" * 64}],
            "threshold": 0.5,
        },
        {"images": [{"data": picture}], "classes": ["cat", "dog"], "top_k": 2},
        {"image": {"data": picture}, "class": "cat", "kind": "fused"},
    ]
    seeds = [json.dumps(tree).encode() for tree in trees]

    def accepts(data: bytes, place: Path) -> bool:
        accepted = False
        for expected in (TAGS, CLASSES, HEATMAP):
            try:
                body = _from_json(bytearray(data), expected, Limits())
            except ProblemError:
                continue
            assert all(image.data is not None or image.sha256 for image in body.pictures)
            accepted = True
        return accepted

    def change(data: bytes, rng: Random) -> bytes:
        if rng.random() < 0.5:
            return mutate(data, rng, seeds)
        return json.dumps(mutate_tree(json.loads(data), rng)).encode()

    return Target(seeds, accepts, change)
