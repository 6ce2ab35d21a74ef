"""A character language model: a case is a sentence, and its error the mean loss of its letters.

Such errors differ between candidates on nearly every case, so that plain lexicase would always decide on the first one;
epsilon-lexicase keeps all candidates that are about as good as the best.
"""

import gradlex
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEXTS = [f"{a} and {b} make {c}." for a in NUMBERS for b in NUMBERS for c in NUMBERS[:4]]
LETTERS = sorted(set("".join(TEXTS)))

rows = [torch.tensor([LETTERS.index(letter) for letter in text]) for text in TEXTS]
tokens = pad_sequence([row[:-1] for row in rows], batch_first=True)
targets = pad_sequence([row[1:] for row in rows], batch_first=True, padding_value=-100)  # ignored by the loss


class Letters(nn.Module):
    """A small GRU."""

    def __init__(self):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(len(LETTERS), 16), nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(32, len(LETTERS))

    def forward(self, tokens):
        """(samples, length) -> (samples, letters, length)"""
        return self.head(self.gru(self.embedding(tokens))[0]).transpose(1, 2)


torch.manual_seed(0)
order = torch.randperm(len(TEXTS))
train, test = order[:260], order[260:]
model = Letters()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
population = gradlex.Population(model, optimizer, size=2, selection="epsilon-lexicase")


def losses(samples):
    """The mean loss of each sentence."""
    letters = nn.functional.cross_entropy(model(tokens[samples]), targets[samples], reduction="none")
    return letters.sum(dim=1) / (targets[samples] >= 0).sum(dim=1)


for epoch in range(5):
    for candidate in population.candidates(len(train)):
        for batch in train[candidate.indices].split(16):
            optimizer.zero_grad()
            losses(batch).mean().backward()
            optimizer.step()
    choice = population.select(lambda cases: losses(train[cases]), len(train))
    perplexity = losses(test).mean().exp().item()
    print(f"epoch {epoch + 1}: {choice.cases_used} cases used, perplexity {perplexity:.2f}")
