from ._checkpoints import Checkpoint as Checkpoint
from ._checkpoints import open_checkpoint as open_checkpoint
from ._from_files import soup_files as soup_files
from ._methods import METHODS as METHODS
from ._plot import plot_cases as plot_cases
from ._soup import Mixture as Mixture
from ._soup import Soup as Soup
from ._soup import soup as soup
