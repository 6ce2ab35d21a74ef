"""Who computes: a worker alone, or a team of them; lazy case evaluation lives here."""

from gradlex.engine._context import seeded
from gradlex.engine._distributed import DistributedTeam, refuse_uneven
from gradlex.engine._engine import PopulationEngine
from gradlex.engine._recalibration import recalibrated
from gradlex.engine._team import Alone, Team
from gradlex.engine._worker import Evaluation, Worker

__all__ = [
    "Alone",
    "DistributedTeam",
    "Evaluation",
    "PopulationEngine",
    "Team",
    "Worker",
    "recalibrated",
    "refuse_uneven",
    "seeded",
]
