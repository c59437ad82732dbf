"""How far a long command is, on standard error: results own standard output."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

SECONDS_BETWEEN_LINES = 30.0


class Progress:
    """A bar with images/s and the time left; a plain line every half minute where there is no terminal.

    Args:
        label: What is going on, such as "Predicting".
        total: Of how many; None if that is not known.
        unit: What is counted.
        show: False for no bar and no lines, where results on the same terminal show progress.

    Example:
        with Progress("Predicting", total=len(files)) as progress:
            for prediction in stream:
                progress.advance()
        progress.rate  # images/s
    """

    def __init__(
        self, label: str, *, total: int | None, unit: str = "images", show: bool = True
    ) -> None:
        self.label, self.total, self.unit, self.show = label, total, unit, show
        self.done = 0
        self.remark = ""
        self._earlier = 0
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None
        self._start = self._said = time.monotonic()
        self._stop: float | None = None

    def __enter__(self) -> Self:
        self._start = self._said = time.monotonic()
        if self.show and sys.stderr.isatty():
            self._bar = _make_bar()
            self._task = self._bar.add_task(self.label, total=self.total, rate="")
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop = time.monotonic()
        if self._bar is not None:
            self._bar.stop()

    def resume(self, count: int) -> None:
        """So many were done before this run began; they do not count as its speed."""
        self._earlier += count
        self.advance(count)

    def advance(self, count: int = 1) -> None:
        """Some more are done. `remark`, if set, is shown behind the speed."""
        self.done += count
        if self._bar is not None and self._task is not None:
            rate = f"{self.rate:.1f} {self.unit}/s{self._remark}"
            self._bar.update(self._task, completed=self.done, rate=rate)
        elif self.show and time.monotonic() - self._said > SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            typer.echo(self._line(), err=True)

    def skip(self, count: int = 1) -> None:
        """Some of the total will not come."""
        if self.total is not None:
            self.total -= count
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, total=self.total)

    def note(self, text: str) -> None:
        """A line above the bar, on standard error."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            typer.echo(text, err=True)

    @property
    def seconds(self) -> float:
        """Since the start; until the end once that is reached."""
        return max((self._stop or time.monotonic()) - self._start, 1e-9)

    @property
    def rate(self) -> float:
        """Per second, on average."""
        return (self.done - self._earlier) / self.seconds

    @property
    def _remark(self) -> str:
        return f", {self.remark}" if self.remark else ""

    def _line(self) -> str:
        of = f" of {self.total:,}" if self.total is not None else ""
        line = f"{self.label}: {self.done:,}{of} {self.unit}, {self.rate:.1f} {self.unit}/s{self._remark}"
        if self.total is None or not self.rate:
            return line
        return f"{line}, {spell_seconds((self.total - self.done) / self.rate)} left"


def spell_seconds(seconds: float) -> str:
    """A time as people say it.

    >>> spell_seconds(42), spell_seconds(90), spell_seconds(7300)
    ('42 s', '1 min 30 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _make_bar() -> RichProgress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as RichProgress

    return RichProgress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
        expand=True,
        # Redirected, results would come out on standard error wherever that is a terminal.
        redirect_stdout=False,
        redirect_stderr=False,
    )
