"""The method in anyone's training loop: `Population`, and the pieces that it is made of."""

from gradlex.population.population import Candidate, Population
from gradlex.population.split import batches, split
from gradlex.population.team import Team
from gradlex.seeding import reseed, seeded

__all__ = ["Candidate", "Population", "Team", "batches", "reseed", "seeded", "split"]
