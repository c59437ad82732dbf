"""A report to look at: a folder of plain files that any browser opens, without server or network."""

from __future__ import annotations

from piaa.report.writing import ReportSummary, write_report

__all__ = ["ReportSummary", "write_report"]
