"""From what a user has to the samples of a run: arrays, archives, folders, tables and Datasets."""

from gradlex.data.augment import crop as crop
from gradlex.data.augment import crop_flip as crop_flip
from gradlex.data.augment import flip as flip
from gradlex.data.datasets import DATASETS as DATASETS
from gradlex.data.prepare import Parts as Parts
from gradlex.data.prepare import prepare as prepare
