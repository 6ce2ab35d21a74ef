"""Who becomes the parent: strategies over lazily evaluated case errors. NumPy only."""

from gradlex.selection._batch_lexicase import batch_lexicase
from gradlex.selection._cases import Cases, OnCases, ResolvedCases, check_cases
from gradlex.selection._dalex import dalex
from gradlex.selection._downsampled_lexicase import downsampled_lexicase
from gradlex.selection._epsilon_lexicase import EpsilonMode, epsilon_lexicase
from gradlex.selection._informed_lexicase import informed_lexicase
from gradlex.selection._lexicase import OnAllFail, lexicase
from gradlex.selection._plexicase import plexicase
from gradlex.selection._protocol import CaseErrors, Choice, ErrorTable, Indices, Selection
from gradlex.selection._random import random
from gradlex.selection._registry import SELECTIONS, SelectionInfo, bind, find
from gradlex.selection._table import (
    Chances,
    TableErrors,
    select_parents,
    selection_chances,
    selection_probabilities,
)
from gradlex.selection._tournament import tournament
from gradlex.selection._weights import promoting

__all__ = [
    "SELECTIONS",
    "CaseErrors",
    "Cases",
    "Chances",
    "Choice",
    "EpsilonMode",
    "ErrorTable",
    "Indices",
    "OnAllFail",
    "OnCases",
    "ResolvedCases",
    "Selection",
    "SelectionInfo",
    "TableErrors",
    "batch_lexicase",
    "bind",
    "check_cases",
    "dalex",
    "downsampled_lexicase",
    "epsilon_lexicase",
    "find",
    "informed_lexicase",
    "lexicase",
    "plexicase",
    "promoting",
    "random",
    "select_parents",
    "selection_chances",
    "selection_probabilities",
    "tournament",
]
