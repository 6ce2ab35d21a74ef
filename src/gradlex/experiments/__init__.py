"""Experiments: the methods that are compared, the runs of a comparison, the paper's tables, and where jobs run."""

from gradlex.experiments.activations import DIVERSITY as DIVERSITY
from gradlex.experiments.activations import common_edges as common_edges
from gradlex.experiments.activations import features as features
from gradlex.experiments.activations import load_features as load_features
from gradlex.experiments.activations import save_features as save_features
from gradlex.experiments.arm import Arm as Arm
from gradlex.experiments.arm import read_metrics as read_metrics
from gradlex.experiments.arm import run_own as run_own
from gradlex.experiments.comparison import commands as commands
from gradlex.experiments.comparison import declare as declare
from gradlex.experiments.comparison import make_arms as make_arms
from gradlex.experiments.comparison import name_of as name_of
from gradlex.experiments.comparison import run_arms as run_arms
from gradlex.experiments.comparison import train_arm as train_arm
from gradlex.experiments.grids import Grid as Grid
from gradlex.experiments.grids import paper_grid as paper_grid
from gradlex.experiments.grids import published as published
from gradlex.experiments.jobs import BACKENDS as BACKENDS
from gradlex.experiments.jobs import Backend as Backend
from gradlex.experiments.jobs import Finished as Finished
from gradlex.experiments.jobs import make_backend as make_backend
from gradlex.experiments.jobs import portable as portable
from gradlex.experiments.methods import METHODS as METHODS
from gradlex.experiments.methods import POPULATION as POPULATION
from gradlex.experiments.methods import Method as Method
from gradlex.experiments.methods import find_method as find_method
