"""Rules that route messages, evolved with GEPA, candidates picked by gradlex: each message is a case.

GEPA evolves texts, usually prompts that a language model rewrites. Here the text is a list of rules and a few lines of
Python rewrite it, so that the example runs offline.

pip install 'gradlex[integrations]'
python examples/gepa_rules.py
"""

import random

import gepa

from gradlex.integrations.gepa import LexicaseCandidateSelector

MESSAGES = {
    "billing": ["my card was charged twice", "refund my last invoice", "the invoice has a wrong address"],
    "shipping": ["the parcel never arrived", "change the address of my parcel", "the box arrived wet"],
    "account": ["i forgot my password", "delete my account", "change the mail of my account"],
    "repair": ["the screen is broken", "it was wet and is broken", "the last repair was wrong"],
}
EXAMPLES = [(message, team) for team, messages in MESSAGES.items() for message in messages]
draw = random.Random(0)


def route(rules, message):
    """The team of the first rule whose word is in the message."""
    for rule in rules.splitlines():
        word, team = rule.split(" -> ")
        if word in message.split():
            return team
    return None


class Router:
    """What GEPA asks for: how a text does on a batch, what went wrong, and another text."""

    def evaluate(self, batch, candidate, capture_traces=False):
        """A score for each message of the batch."""
        found = [route(candidate["rules"], message) for message, _ in batch]
        scores = [float(team == right) for team, (_, right) in zip(found, batch, strict=True)]
        return gepa.EvaluationBatch(
            outputs=found, scores=scores, trajectories=batch if capture_traces else None
        )

    def make_reflective_dataset(self, candidate, eval_batch, components_to_update):
        """The messages that went to the wrong team."""
        pairs = zip(eval_batch.trajectories, eval_batch.scores, strict=True)
        return {
            "rules": [{"message": message, "team": team} for (message, team), score in pairs if score == 0]
        }

    def propose_new_texts(self, candidate, reflective_dataset, components_to_update):
        """Perhaps without one rule, and with another for a message that went wrong."""
        rules = candidate["rules"].splitlines()
        if len(rules) > 1 and draw.random() < 0.3:
            rules.pop(draw.randrange(len(rules)))
        if reflective_dataset["rules"]:
            wrong = draw.choice(reflective_dataset["rules"])
            rules.insert(
                draw.randint(0, len(rules)), f"{draw.choice(wrong['message'].split())} -> {wrong['team']}"
            )
        return {"rules": "\n".join(rules)}


class Quiet:
    """Tells nothing; GEPA tells every step otherwise."""

    def log(self, message):
        """Called for every line."""


result = gepa.optimize(
    seed_candidate={"rules": "invoice -> billing"},
    trainset=EXAMPLES,
    valset=EXAMPLES,
    adapter=Router(),
    candidate_selection_strategy=LexicaseCandidateSelector(rng=0),
    max_metric_calls=1500,
    logger=Quiet(),
    seed=0,
)
print(
    f"{len(result.candidates)} texts; the best routes {max(result.val_aggregate_scores):.0%} of the messages:"
)
print(result.best_candidate["rules"])
