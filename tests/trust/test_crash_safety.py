"""Files are whole or not there: when the process is killed, the disk is full, or two write at once."""

from __future__ import annotations

import ast
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import piaa
from fake_encoder import CLASSES, ColorEncoder
from piaa import Recognizer
from piaa.artifact import Artifact, load_artifact, save_artifact
from piaa.atomic import write_whole
from piaa.errors import ArtifactError, InputError
from piaa.scale.job import open_job

ROOT = Path(piaa.__file__).parent
# Where a file is written otherwise than by `piaa.atomic`, and why that is sound.
ELSEWHERE = {
    "features/shard_writing.py": "to what whole_file gives, which stays open",
    "report/patches.py": "into a folder that gets its name when the report is whole",
    "report/page.py": "into that folder",
    "report/copies.py": "into that folder",
    "report/folder.py": "into that folder",
    "demo/cards.py": "into memory",
    "cli/weights.py": "into memory, then write_whole",
    "client.py": "into memory",
    "serve/tagging.py": "into memory",
    "scale/fit.py": "Recognizer.save",
    "cli/fit.py": "Recognizer.save",
    "scale/job.py": "the lock, which is empty",
    "claims.py": "the lock, which is empty",
    "cli/smoke.py": "into a temporary folder",
    "cli/health.py": "into a temporary folder",
}
WRITES = (
    "write_text",
    "write_bytes",
    "save",
    "savefig",
    "save_file",
    "savez",
    "touch",
    "copyfile",
    "copy2",
)


def _writes(tree: ast.AST) -> Iterator[str]:
    """Calls that write a file, other than below `with whole_file(...)`."""
    safe: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.With) and any("whole_file(" in ast.unparse(i) for i in node.items):
            safe.update(ast.walk(node))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or node in safe:
            continue
        name = ast.unparse(node.func)
        modes = [
            a.value
            for a in (*node.args, *(k.value for k in node.keywords))
            if isinstance(a, ast.Constant)
        ]
        opened = name.rpartition(".")[2] == "open" and any(
            isinstance(mode, str) and len(mode) < 4 and mode[:1] in "wxa" and mode for mode in modes
        )
        if opened or name.rpartition(".")[2] in WRITES:
            yield name


def test_every_file_is_written_whole() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if list(_writes(ast.parse(path.read_text(encoding="utf-8"))))
    }
    # package_index unpacks into a temporary folder; what it keeps goes through whole_file.
    assert found - ELSEWHERE.keys() == {"encoders/package_index.py"}


def test_what_the_search_would_find() -> None:
    for source in (
        "path.write_text('a')",
        "open(path, 'w')",
        "path.open(mode='xb')",
        "figure.savefig(path)",
    ):
        assert list(_writes(ast.parse(source))), source
    sound = "with whole_file(p) as t:\n    t.write_text('a')\npath.open('rb')\npath.open()"
    assert not list(_writes(ast.parse(sound)))


def test_killed_at_any_moment(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_whole(target, b"0" * 300_000)
    script = (
        "import sys, itertools\nfrom pathlib import Path\nfrom piaa.atomic import write_whole\n"
        "print('ready', flush=True)\n"
        "for i in itertools.count():\n    write_whole(Path(sys.argv[1]), str(i % 10).encode() * 300_000)\n"
    )
    rng = random.Random(0)
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", script, target], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(rng.uniform(0, 0.05))
            process.kill()
        content = target.read_bytes()
        assert len(content) == 300_000
        assert len(set(content)) == 1
    assert all(path.name.endswith(".part") for path in tmp_path.iterdir() if path != target)


def test_two_processes_never_mix(tmp_path: Path) -> None:
    """Files of a cache, which both may write: each is whole, and the last one stays."""
    target = tmp_path / "file"
    script = (
        "import sys\nfrom pathlib import Path\nfrom piaa.atomic import write_whole\n"
        "for _ in range(20):\n    write_whole(Path(sys.argv[1]), sys.argv[2].encode() * 100_000)\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, target, letter]) for letter in "ab"]
    while any(writer.poll() is None for writer in writers):
        content = target.read_bytes() if target.exists() else b""
        assert content in (b"", b"a" * 100_000, b"b" * 100_000)
    assert [writer.returncode for writer in writers] == [0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_second_run_of_the_same_job_is_told(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    recognizer = Recognizer(ColorEncoder(), CLASSES)
    with (
        open_job(tmp_path / "job", [], {}, recognizer),
        pytest.raises(InputError, match="Another process"),
        open_job(tmp_path / "job", [], {}, recognizer),
    ):
        pass


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    try:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place],
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if mounted.returncode:
        pytest.skip(f"mounting needs a permission: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    path = small_disk / "model"
    save_artifact(path, Artifact({"a": torch.zeros(100)}, {"name": "first"}))
    for _ in range(3):
        with pytest.raises(ArtifactError, match="No space left"):
            save_artifact(path, Artifact({"a": torch.zeros(100_000)}, {"name": "second"}))
    assert load_artifact(path).header["name"] == "first"
    assert [file.name for file in small_disk.iterdir()] == ["model"]


def test_a_write_that_fails_half_way(tmp_path: Path) -> None:
    """The same without a small disk: the system refuses more than so many bytes of a file."""
    resource = pytest.importorskip("resource")
    script = (
        "import resource, signal, sys\nfrom pathlib import Path\nfrom piaa.atomic import write_whole\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))\n"
        "write_whole(Path(sys.argv[1]), b'new' * 100_000)\n"
    )
    assert resource.RLIMIT_FSIZE is not None
    target = tmp_path / "file"
    write_whole(target, b"old")
    run = subprocess.run(
        [sys.executable, "-c", script, target], capture_output=True, text=True, check=False
    )
    assert "File too large" in run.stderr
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
