"""Who becomes the parent: strategies over lazily evaluated case errors. NumPy only."""

from gradlex.selection.batch_lexicase import BatchLexicase as BatchLexicase
from gradlex.selection.dalex import Dalex as Dalex
from gradlex.selection.downsampled_lexicase import DownsampledLexicase as DownsampledLexicase
from gradlex.selection.epsilon_lexicase import EpsilonLexicase as EpsilonLexicase
from gradlex.selection.groups import by_group as by_group
from gradlex.selection.groups import group_means as group_means
from gradlex.selection.informed_lexicase import InformedLexicase as InformedLexicase
from gradlex.selection.lexicase import Lexicase as Lexicase
from gradlex.selection.plexicase import Plexicase as Plexicase
from gradlex.selection.protocol import CaseErrors as CaseErrors
from gradlex.selection.protocol import Choice as Choice
from gradlex.selection.protocol import Selection as Selection
from gradlex.selection.random_choice import Random as Random
from gradlex.selection.registry import SELECTIONS as SELECTIONS
from gradlex.selection.registry import make_selection as make_selection
from gradlex.selection.table import Chances as Chances
from gradlex.selection.table import TableErrors as TableErrors
from gradlex.selection.table import select_parents as select_parents
from gradlex.selection.table import selection_chances as selection_chances
from gradlex.selection.table import selection_probabilities as selection_probabilities
from gradlex.selection.tournament import Tournament as Tournament
