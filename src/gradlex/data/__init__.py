"""From what a user has to the samples of a run: arrays, archives, folders, tables and Datasets."""

from gradlex.data.augment import Augmentation as Augmentation
from gradlex.data.augment import crop as crop
from gradlex.data.augment import crop_flip as crop_flip
from gradlex.data.augment import flip as flip
from gradlex.data.augment import parse_augment as parse_augment
from gradlex.data.datasets import DATASETS as DATASETS
from gradlex.data.datasets import OWN as OWN
from gradlex.data.datasets import DatasetInfo as DatasetInfo
from gradlex.data.inputs import Inputs as Inputs
from gradlex.data.inputs import call as call
from gradlex.data.inputs import checked_inputs as checked_inputs
from gradlex.data.inputs import leaves as leaves
from gradlex.data.inputs import map_inputs as map_inputs
from gradlex.data.load import read_inputs as read_inputs
from gradlex.data.load import read_samples as read_samples
from gradlex.data.normalization import Normalization as Normalization
from gradlex.data.normalization import Normalize as Normalize
from gradlex.data.normalization import normalized as normalized
from gradlex.data.prepare import Parts as Parts
from gradlex.data.prepare import prepare as prepare
from gradlex.data.samples import ArraySamples as ArraySamples
from gradlex.data.samples import DatasetSamples as DatasetSamples
from gradlex.data.samples import Samples as Samples
