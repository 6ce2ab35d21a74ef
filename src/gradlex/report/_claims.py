"""All claims of the paper that runs say something to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gradlex.report._accuracy_claims import accuracy_claims
from gradlex.report._claim import Claim
from gradlex.report._evidence import Evidence
from gradlex.report._representation_claims import representation_claims


def claims(evidences: Iterable[Evidence]) -> list[Claim]:
    """Every claim that has runs on both sides, once, in the order of the plans."""
    found: list[Claim] = []
    for evidence in evidences:
        accuracies = [
            claim
            for setting in evidence.settings
            for claim in accuracy_claims(list(evidence.on(setting).values()))
        ]
        for claim in (*accuracies, *representation_claims(evidence)):
            _add(found, replace(claim, tables=(evidence.plan.name,)))
    return found


def _add(found: list[Claim], claim: Claim) -> None:
    """Tables share runs: what rests on a part of another's runs is no evidence of its own."""
    for place, other in enumerate(found):
        if other.text == claim.text and (claim.runs <= other.runs or claim.runs > other.runs):
            wider = other if claim.runs <= other.runs else claim
            found[place] = replace(wider, tables=(*other.tables, *claim.tables))
            return
    found.append(claim)
