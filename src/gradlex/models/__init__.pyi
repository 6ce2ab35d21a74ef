from ._build import build as build
from ._count import count as count
from ._efficientnet import efficientnetb0 as efficientnetb0
from ._external import without_weights as without_weights
from ._registry import MODELS as MODELS
from ._registry import ModelInfo as ModelInfo
