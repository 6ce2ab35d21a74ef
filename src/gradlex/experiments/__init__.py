"""Experiments: the methods that are compared, the runs of a comparison, the paper's tables, and where jobs run."""

from gradlex.experiments.activations import features as features
from gradlex.experiments.activations import save_features as save_features
from gradlex.experiments.arm import Arm as Arm
from gradlex.experiments.grids import published as published
from gradlex.experiments.methods import METHODS as METHODS
from gradlex.experiments.methods import Method as Method
