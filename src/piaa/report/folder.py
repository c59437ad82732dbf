"""The folder of a report: whole or not there, and never in the place of somebody's own files."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from piaa.claims import claimed
from piaa.errors import InputError

MARKER = "piaa-report.json"
FORMAT = "piaa-report"

# Everything a report consists of. A folder that holds anything else is not only a report.
_OURS = re.compile(
    r"index\.html|piaa-report\.json"
    r"|(assets|data|thumbs|photos|patches)"
    r"|assets/[a-z]+\.(css|js|svg)|data/[a-z]+(-\d+)?\.js"
    r"|(thumbs|photos)/\d+\.jpg|patches/\d+(-\d+){2}\.jpg"
)


def check_target(out: Path, *, force: bool) -> None:
    """Refuse what a report may not replace: a file, or a folder that is not an earlier report."""
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise InputError(f"{str(out)!r} is a file or a link. Give a new folder for the report.")
    if not out.exists() or not any(out.iterdir()):
        return
    if not force:
        raise InputError(
            f"The folder {str(out)!r} exists already. Give a new one for the report; if it is an "
            "earlier report, --force (force=True) replaces it."
        )
    if not _is_report(out):
        raise InputError(
            f"The folder {str(out)!r} was not made by piaa report (it has no {MARKER} of one), so "
            "it is not replaced. Give a new folder for the report."
        )
    if (other := _foreign(out)) is not None:
        raise InputError(
            f"The report {str(out)!r} also holds {other!r}, which piaa did not write, so it is not "
            "replaced. Move that elsewhere, or give a new folder for the report."
        )


@contextmanager
def report_folder(out: Path, *, force: bool) -> Iterator[Path]:
    """A folder to write a report into; it becomes `out` if the block ends without an error.

    Until then it has another name beside `out`, and is removed if anything goes wrong. An InputError
    if another process is at it.
    """
    check_target(out, force=force)
    work = out.with_name(f".{out.name}.{secrets.token_hex(4)}.part")
    try:
        work.mkdir(parents=True)
        with claimed(out):
            yield work
            content = {"format": FORMAT, "version": 1}
            (work / MARKER).write_text(json.dumps(content) + "\n", encoding="utf-8")
            check_target(out, force=force)  # again: writing took a while
            _put_in_place(work, out)
    except OSError as error:
        raise InputError(
            f"The report {str(out)!r} cannot be written ({error.strerror or error}). Give a folder "
            "where this user may write and there is room."
        ) from error
    finally:
        if work.exists():
            shutil.rmtree(work)


def outside_reports(paths: Sequence[Path]) -> list[Path]:
    """The photographs that are no copies in a report; an InputError if all are."""
    folders = {path.parent for path in paths}
    copies = {folder for folder in folders if _is_report(folder.parent)}
    kept = [path for path in paths if path.parent not in copies]
    if paths and not kept:
        raise InputError(
            f"All {len(paths)} photographs are copies in a report, such as {str(paths[0])!r}. Give the "
            "photographs that it was made of."
        )
    return kept


def _put_in_place(work: Path, out: Path) -> None:
    if not out.exists():
        work.rename(out)
        return
    old = out.with_name(f".{out.name}.{secrets.token_hex(4)}.old")
    out.rename(old)
    try:
        work.rename(out)
    except OSError:
        old.rename(out)
        raise
    shutil.rmtree(old)


def _is_report(folder: Path) -> bool:
    try:
        content = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT


def _foreign(folder: Path) -> str | None:
    """The first thing in a report that is not part of one."""
    for current, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(current, name)
            inside = path.relative_to(folder).as_posix()
            if path.is_symlink() or not _OURS.fullmatch(inside):
                return inside
    return None
