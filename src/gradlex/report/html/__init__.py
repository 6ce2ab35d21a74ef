"""report.html: one page of a run or of an experiment, with all it needs inside."""

from gradlex.report.html._experiment_page import write_experiment_page
from gradlex.report.html._run_page import write_run_page

__all__ = ["write_experiment_page", "write_run_page"]
