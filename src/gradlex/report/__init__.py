"""Records -> tables, plots, a page. Everything here is made from the files of runs, and can be made again."""

from gradlex.report._columns import Setting
from gradlex.report._evidence import Arm, Evidence, gather
from gradlex.report._figure2 import draw_figure2
from gradlex.report._files import text_report, write_report
from gradlex.report._page import results_page
from gradlex.report._statistics import Difference, Summary, paired, summarize
from gradlex.report._table import Table
from gradlex.report._verdict import verdict

__all__ = [
    "Arm",
    "Difference",
    "Evidence",
    "Setting",
    "Summary",
    "Table",
    "draw_figure2",
    "gather",
    "paired",
    "results_page",
    "summarize",
    "text_report",
    "verdict",
    "write_report",
]
