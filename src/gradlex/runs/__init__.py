"""One run: train, resume, load, and what is in its folder."""

from gradlex.runs.evaluate import Evaluation as Evaluation
from gradlex.runs.run import Run as Run
from gradlex.runs.run import load as load
from gradlex.runs.train import resume as resume
from gradlex.runs.train import train as train
