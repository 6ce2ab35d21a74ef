"""The method in anyone's training loop: `Population`, and the pieces that it is made of."""

from gradlex.population.population import Candidate, Population

__all__ = ["Candidate", "Population"]
