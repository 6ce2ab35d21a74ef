"""All claims of the paper that runs say something to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from gradlex.report._accuracy_claims import accuracy_claims
from gradlex.report._claim import Claim
from gradlex.report._evidence import Evidence
from gradlex.report._representation_claims import representation_claims


def claims(evidences: Iterable[Evidence]) -> list[Claim]:
    """Every claim that has runs on both sides, once, in the order of the plans."""
    found: dict[tuple[str, frozenset[Path]], Claim] = {}  # tables share runs
    for evidence in evidences:
        accuracies = [
            claim
            for setting in evidence.settings
            for claim in accuracy_claims(list(evidence.on(setting).values()))
        ]
        for claim in (*accuracies, *representation_claims(evidence)):
            before = found.get((claim.text, claim.runs), claim)
            found[claim.text, claim.runs] = replace(before, tables=(*before.tables, evidence.plan.name))
    return list(found.values())
