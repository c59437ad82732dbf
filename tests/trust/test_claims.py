"""Two processes that write the same output: the second one is told, and the first one's file is whole."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from fake_encoder import CLASSES, ColorEncoder
from piaa import Recognizer
from piaa.claims import claimed
from piaa.cli import app
from piaa.cli.outputs import check_new_file, written_whole
from piaa.errors import InputError
from piaa.report.folder import report_folder

pytest.importorskip("fcntl", reason="this system has no locks of files")


@contextmanager
def another_process(target: Path, *, killed: bool = False) -> Iterator[None]:
    """One that holds `target` until the block ends, or was killed while it did."""
    script = (
        "import sys\nfrom pathlib import Path\nfrom piaa.claims import claimed\n"
        "with claimed(Path(sys.argv[1])):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, target], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"held\n"
        if killed:
            process.kill()
            process.wait()
        yield
        if not killed:
            process.stdin.close()


def test_models_tables_and_reports(tmp_path: Path) -> None:
    recognizer = Recognizer(ColorEncoder(), CLASSES)
    target = tmp_path / "out"
    told = pytest.raises(InputError, match=r"Another process is writing '.*out'\. Wait until")
    with another_process(target):
        with told:
            recognizer.save(target)
        with told, written_whole(target) as file:
            file.write("mixture")
        with told, report_folder(target, force=False):
            pass
        with told:
            Recognizer(ColorEncoder(), CLASSES).save(str(target))
    assert list(tmp_path.iterdir()) == []
    recognizer.save(target)  # and once it is free
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_commands_are_told_before_they_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    common = ["photos", "--classes", "photos", "--encoder", "lite", "--out"]
    for command in ("fit", "predict", "report"):
        with another_process(tmp_path / "out.csv"):
            run = CliRunner().invoke(app, [command, *common, "out.csv"])
        assert run.exit_code == 2, run.output
        assert "Another process is writing" in run.output
        assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_a_killed_process_is_in_nobodys_way(tmp_path: Path) -> None:
    with another_process(tmp_path / "out", killed=True):
        assert [path.name for path in tmp_path.iterdir()] == [".out.lock"]
        with written_whole(tmp_path / "out") as file:
            file.write("mine")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_one_process_may_claim_again(tmp_path: Path) -> None:
    lock = tmp_path / ".out.lock"
    with claimed(tmp_path / "out"):
        with claimed(tmp_path / "here" / ".." / "out"), claimed(tmp_path / "other"):
            assert lock.exists()
        assert lock.exists()
        with pytest.raises(ZeroDivisionError), claimed(tmp_path / "out"):
            _ = 1 / 0
        assert lock.exists()
    assert list(tmp_path.iterdir()) == []
    check_new_file(tmp_path / "out", force=False)  # no command is under way: nothing is held
    assert list(tmp_path.iterdir()) == []


def test_many_at_once(tmp_path: Path) -> None:
    """Of several processes in a tight race one at a time gets through; no lock is left behind."""
    script = (
        "import sys\nfrom pathlib import Path\nfrom piaa.claims import claimed\n"
        "from piaa.errors import InputError\n"
        "inside = Path(sys.argv[1]).with_name('inside')\n"
        "for _ in range(400):\n"
        "    try:\n"
        "        with claimed(Path(sys.argv[1])):\n"
        "            inside.mkdir()\n"  # fails if another process is in here too
        "            inside.rmdir()\n"
        "    except InputError:\n"
        "        pass\n"
    )
    racers = [subprocess.Popen([sys.executable, "-c", script, tmp_path / "out"]) for _ in range(3)]
    assert [racer.wait() for racer in racers] == [0, 0, 0]
    assert list(tmp_path.iterdir()) == []


def test_threads_of_one_process(tmp_path: Path) -> None:
    def work() -> None:
        for _ in range(50):
            with claimed(tmp_path / "out"):
                pass

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(tmp_path.iterdir()) == []
