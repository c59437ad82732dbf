"""What long commands say of how far they are, and outputs that cannot be written."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from piaa.cli import progress as progress_module
from piaa.cli.outputs import check_new_file, check_new_folder, written_whole
from piaa.cli.progress import Progress
from piaa.errors import InputError


class Clock:
    """Stands in for the module `time`: each look at it is `step` seconds after the last."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def monotonic(self) -> float:
        self.now += self.step
        return self.now


class TestProgress:
    def test_a_plain_line_now_and_then_without_a_terminal(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(progress_module, "time", Clock(10))
        with Progress("Predicting", total=1200) as progress:
            for _ in range(12):
                progress.advance(100)
        out, err = capsys.readouterr()
        lines = err.splitlines()
        assert out == ""
        assert 1 < len(lines) < 12
        assert lines[0].startswith("Predicting: ")
        assert " of 1,200 images, " in lines[0]
        assert lines[0].endswith(" left")

    def test_quick_work_and_hidden_work_say_nothing(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with Progress("Predicting", total=3) as progress:
            progress.advance(3)
        monkeypatch.setattr(progress_module, "SECONDS_BETWEEN_LINES", -1.0)
        with Progress("Predicting", total=3, show=False) as progress:
            progress.advance(3)
        assert capsys.readouterr().err == ""

    def test_a_bar_on_a_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        terminal = io.StringIO()
        terminal.isatty = lambda: True  # type: ignore[method-assign]
        results = io.StringIO()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(sys, "stdout", results)
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("COLUMNS", "80")
        with Progress("Predicting", total=5) as progress:
            progress.advance(3)
            progress.skip()
            sys.stdout.write("a result\n")
            progress.note("a remark")
        shown = terminal.getvalue()
        assert "3/4" in shown
        assert "images/s" in shown
        assert "a remark" in shown
        assert results.getvalue() == "a result\n", "results must not go where the bar is"

    def test_the_rate_stands_still_at_the_end(self) -> None:
        with Progress("Predicting", total=None) as progress:
            progress.advance(40)
        assert progress.rate == pytest.approx(40 / progress.seconds)
        assert progress.seconds == progress.seconds


class TestOutputs:
    def test_a_folder_that_may_not_be_written(
        self, own_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        with pytest.raises(InputError, match="no folder that this user may write"):
            check_new_file(Path("new/a.csv"), force=False)
        with pytest.raises(InputError, match="no folder that this user may write"):
            check_new_folder(Path("new"), force=False)

    def test_a_dangling_link_counts_as_there(self, own_folder: Path) -> None:
        Path("a.csv").symlink_to("nowhere")
        with pytest.raises(InputError, match="exists"):
            check_new_file(Path("a.csv"), force=False)

    def test_folders_in_between_are_made(self, own_folder: Path) -> None:
        check_new_file(Path("one/two/a.csv"), force=False)
        assert not Path("one").exists()
        with written_whole(Path("one/two/a.csv")) as file:
            file.write("é\n")
        assert Path("one/two/a.csv").read_bytes() == b"\xc3\xa9\n"

    def test_a_full_disk(self, own_folder: Path) -> None:
        Path("a.csv").write_text("before")

        def fill_the_disk() -> None:
            with written_whole(Path("a.csv")) as file:
                file.write("half")
                raise OSError(28, "No space left on device")

        with pytest.raises(InputError, match=r"'a\.csv' cannot be written: No space left"):
            fill_the_disk()
        assert Path("a.csv").read_text() == "before"
        assert [path.name for path in Path().iterdir()] == ["a.csv"]
