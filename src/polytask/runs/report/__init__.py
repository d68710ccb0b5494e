"""`polytask report`: turn the logs of runs into tables, figures and a page. All plotting of runs is here."""

from __future__ import annotations

from polytask.runs.report.command import Known, report

__all__ = ["Known", "report"]
