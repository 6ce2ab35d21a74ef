"""Who becomes the parent: strategies over lazily evaluated case errors. NumPy only."""

from gradlex.selection.batch_lexicase import BatchLexicase
from gradlex.selection.cases import Cases
from gradlex.selection.dalex import Dalex
from gradlex.selection.downsampled_lexicase import DownsampledLexicase
from gradlex.selection.epsilon_lexicase import EpsilonLexicase
from gradlex.selection.informed_lexicase import InformedLexicase
from gradlex.selection.lexicase import Lexicase
from gradlex.selection.plexicase import Plexicase
from gradlex.selection.promotion import promoting
from gradlex.selection.protocol import CaseErrors, Choice, ErrorTable, Indices, Selection
from gradlex.selection.random_choice import Random
from gradlex.selection.registry import SELECTIONS, SelectionInfo, make_selection
from gradlex.selection.table import (
    Chances,
    TableErrors,
    select_parents,
    selection_chances,
    selection_probabilities,
)
from gradlex.selection.tournament import Tournament

__all__ = [
    "SELECTIONS",
    "BatchLexicase",
    "CaseErrors",
    "Cases",
    "Chances",
    "Choice",
    "Dalex",
    "DownsampledLexicase",
    "EpsilonLexicase",
    "ErrorTable",
    "Indices",
    "InformedLexicase",
    "Lexicase",
    "Plexicase",
    "Random",
    "Selection",
    "SelectionInfo",
    "TableErrors",
    "Tournament",
    "make_selection",
    "promoting",
    "select_parents",
    "selection_chances",
    "selection_probabilities",
]
