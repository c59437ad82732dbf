"""Build the sdist and the wheel twice, and keep them only if both builds gave the same bytes.

    python scripts/build_dist.py [folder]

Takes the files that git knows or would take, as they are now, and needs setuptools. The two builds
differ in everything that must not matter: folder, dates of files, umask, time zone, locale and order of
hashes. SOURCE_DATE_EPOCH is the time of the last commit unless it is set.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_BUILD = """
import os, sys
from setuptools import build_meta
_, folder, umask = sys.argv  # which setuptools changes
os.umask(int(umask, 8))
build_meta.build_sdist(folder)
build_meta.build_wheel(folder)
"""
_SURROUNDINGS = (
    ("022", 1_000_000_000, {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "1"}),
    ("077", 1_600_000_000, {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2"}),
)


def build_twice(folder: Path) -> list[Path]:
    """The sdist and the wheel in `folder`; a SystemExit if a second build gives other bytes."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct").strip()
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        builds = [
            _build(Path(place) / name, int(epoch), *surroundings)
            for place, name, surroundings in zip(
                (first, second), ("a", "another-place"), _SURROUNDINGS, strict=True
            )
        ]
        if [file.name for file in builds[0]] != [file.name for file in builds[1]]:
            raise SystemExit("The two builds gave files of different names.")
        for one, other in zip(*builds, strict=True):
            if one.read_bytes() != other.read_bytes():
                raise SystemExit(f"{one.name} is not reproducible: two builds differ.")
        folder.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(file, folder / file.name)) for file in builds[0]]


def _build(
    place: Path, epoch: int, umask: str, date: int, environment: dict[str, str]
) -> list[Path]:
    source, out = place / "source", place / "out"
    out.mkdir(parents=True)
    for name in _git("ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
            os.utime(source / name, (date, date))
    run = subprocess.run(
        [sys.executable, "-c", _BUILD, out, umask],
        cwd=source,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise SystemExit(f"The build failed:\n{run.stderr}")
    made = sorted(out.iterdir())
    for file in made:
        clean = _clean_wheel if file.suffix == ".whl" else _clean_sdist
        file.write_bytes(clean(file.read_bytes(), epoch))
    return made


def _clean_sdist(sdist: bytes, epoch: int) -> bytes:
    """Without what setuptools leaves in it of the machine: owners, modes, dates, order."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(sdist)) as old,
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=epoch) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            clean = tarfile.TarInfo(member.name)
            clean.type, clean.size, clean.mtime = member.type, member.size, epoch
            clean.mode = 0o755 if member.isdir() else 0o644
            new.addfile(clean, old.extractfile(member) if member.isfile() else None)
    return packed.getvalue()


def _clean_wheel(wheel: bytes, epoch: int) -> bytes:
    """The same for modes, dates and order of a wheel; its RECORD is of contents alone."""
    packed = io.BytesIO()
    date = time.gmtime(max(epoch, 315532800))[:6]  # a zip begins in 1980
    with zipfile.ZipFile(io.BytesIO(wheel)) as old, zipfile.ZipFile(packed, "w") as new:
        for name in sorted(old.namelist()):
            clean = zipfile.ZipInfo(name, date)
            clean.compress_type = zipfile.ZIP_DEFLATED
            clean.external_attr = (stat.S_IFREG | 0o644) << 16
            new.writestr(clean, old.read(name))
    return packed.getvalue()


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


if __name__ == "__main__":
    for made in build_twice(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist")):
        digest = hashlib.sha256(made.read_bytes()).hexdigest()
        sys.stdout.write(f"{digest}  {made.name}  {made.stat().st_size:,} bytes\n")
