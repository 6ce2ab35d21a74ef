"""Rules that route messages, evolved with GEPA, candidates chosen by gradlex: each message is a case.

GEPA evolves texts, usually prompts that a language model rewrites. Here Python rewrites a list of rules, offline.

    pip install 'gradlex[integrations]'
    python examples/gepa_rules.py
"""

import random
from types import SimpleNamespace

import gepa
from gradlex.integrations.gepa import LexicaseCandidateSelector

TEAMS = {
    "billing": ["my card was charged twice", "refund my last invoice", "the invoice has a wrong address"],
    "shipping": ["the parcel never arrived", "change the address of my parcel", "the box arrived wet"],
    "account": ["i forgot my password", "delete my account", "change the mail of my account"],
}
EXAMPLES = [(message, team) for team, messages in TEAMS.items() for message in messages]
draw = random.Random(0)


def route(rules, message):
    found = (rule.split(" -> ") for rule in rules.splitlines())
    return next((team for word, team in found if word in message.split()), None)


class Router:
    """The adapter GEPA needs: score a text on a batch, report what went wrong, and propose a new text."""

    def evaluate(self, batch, candidate, capture_traces=False):
        found = [route(candidate["rules"], message) for message, _ in batch]
        scores = [float(team == right) for team, (_, right) in zip(found, batch, strict=True)]
        return gepa.EvaluationBatch(outputs=found, scores=scores, trajectories=batch)

    def make_reflective_dataset(self, candidate, evaluated, components):
        pairs = zip(evaluated.trajectories, evaluated.scores, strict=True)
        return {"rules": [{"message": m, "team": team} for (m, team), score in pairs if score == 0]}

    def propose_new_texts(self, candidate, failed, components):
        rules = candidate["rules"].splitlines()
        for wrong in failed["rules"][:1]:
            word = draw.choice(wrong["message"].split())
            rules.insert(draw.randint(0, len(rules)), f"{word} -> {wrong['team']}")
        return {"rules": "\n".join(rules)}


result = gepa.optimize(
    seed_candidate={"rules": "invoice -> billing"},
    trainset=EXAMPLES,
    valset=EXAMPLES,
    adapter=Router(),
    candidate_selection_strategy=LexicaseCandidateSelector(rng=0),
    max_metric_calls=600,
    seed=0,
    logger=SimpleNamespace(log=lambda message: None),  # it logs every step otherwise
)
print(f"the best rules route {max(result.val_aggregate_scores):.0%} of the messages:")
print(result.best_candidate["rules"])
