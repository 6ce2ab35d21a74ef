from .compare import compare as compare
from .decisions import decide as decide
from .frames import results as results
from .page import write_experiment_page as write_experiment_page
from .page import write_run_page as write_run_page
from .paper import figure2 as figure2
from .paper import paper as paper
from .summary import summary as summary
