"""The method in anyone's training loop: `Population`, and the candidates that it yields."""

from gradlex.population.population import Candidate, Population

__all__ = ["Candidate", "Population"]
