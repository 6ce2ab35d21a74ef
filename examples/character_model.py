"""A character language model on sentences of several lengths, padded by the DataLoader's own collate function."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

import gradlex

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEXTS = [f"{a} and {b} make {c}." for a in NUMBERS for b in NUMBERS for c in NUMBERS[:4]]
LETTERS = sorted(set("".join(TEXTS)))


def collate(texts):
    """Tokens with a mask, and the next letter of each as its target; -100 counts for nothing."""
    rows = [torch.tensor([LETTERS.index(letter) for letter in text]) for text in texts]
    tokens = pad_sequence([row[:-1] for row in rows], batch_first=True)
    targets = pad_sequence([row[1:] for row in rows], batch_first=True, padding_value=-100)
    return {"tokens": tokens, "mask": targets >= 0}, targets


class Letters(nn.Module):
    """A small GRU."""

    def __init__(self):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(len(LETTERS), 16), nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(32, len(LETTERS))

    def forward(self, tokens, mask):
        """(samples, length) -> (samples, length, letters)"""
        return self.head(self.gru(self.embedding(tokens) * mask[..., None])[0])


torch.manual_seed(0)
order = torch.randperm(len(TEXTS)).tolist()
train, test = ([TEXTS[place] for place in part] for part in (order[:260], order[260:]))
recipe = gradlex.Recipe(generations=5, batch_size=16, population=2, optimizer="adam", lr=0.02)
run = gradlex.train(
    Letters(),
    DataLoader(train, collate_fn=collate),
    recipe,
    test=DataLoader(test, collate_fn=collate),
    task="tokens",
)
print(
    f"perplexity {run.test['perplexity']:.2f} of {len(LETTERS)} letters, right {run.test['token_accuracy']:.1%}"
)
