"""What is known of some classes by now: their words alone, a fit, or a fit that was saved."""

from __future__ import annotations

from piaa.classes.class_list import ClassList
from piaa.errors import InputError
from piaa.fitting.fit_report import FitReport
from piaa.fitting.fitted import Retained
from piaa.fitting.gathered import Gathered
from piaa.scoring import Scorer


class Learning:
    """The state of a recognizer.

    A fit that was added to is finished when something of it is asked for: many shards cost one finish.

    Args:
        scorer: of words alone, or of a saved fit,
        report, retained: which these are of.

    Attributes:
        gathered: what more images can be added to; None before any fit, and of a saved one.
    """

    def __init__(
        self,
        classes: ClassList,
        scorer: Scorer,
        *,
        report: FitReport | None = None,
        retained: Retained | None = None,
    ) -> None:
        self._classes = classes
        self._scorer, self._report, self._retained = scorer, report, retained
        self._finished = True
        self.gathered: Gathered | None = None

    @property
    def is_there(self) -> bool:
        """Whether anything was learnt."""
        return self.gathered is not None or self._report is not None

    @property
    def scorer(self) -> Scorer:
        self._finish()
        return self._scorer

    @scorer.setter
    def scorer(self, scorer: Scorer) -> None:
        """Until more images are added."""
        self._finish()
        self._scorer = scorer

    @property
    def report(self) -> FitReport:
        self._finish()
        if self._report is None:
            raise InputError("There is no report before fit().")
        return self._report

    @property
    def retained(self) -> Retained:
        self._finish()
        if self._retained is None:
            raise InputError("There are no banks before fit().")
        return self._retained

    def take(self, gathered: Gathered) -> FitReport:
        """In place of what was learnt before, which stays if this cannot be finished."""
        fitted = gathered.finish(n_others=len(gathered.text) - len(self._classes))
        self.gathered, self._finished = gathered, True
        self._scorer, self._retained = fitted.scorer, fitted.retained
        self._report = FitReport.of(fitted, self._classes)
        return self._report

    def take_later(self, gathered: Gathered) -> None:
        """The same, once somebody asks."""
        self.gathered, self._finished = gathered, False

    def _finish(self) -> None:
        if self.gathered is not None and not self._finished:
            self.take(self.gathered)
