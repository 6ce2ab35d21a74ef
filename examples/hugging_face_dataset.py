"""Train on a Hugging Face `datasets.Dataset`: a DataLoader's collate function makes batches of its rows.

The messages are made here, so nothing is downloaded; `datasets.load_dataset(...)` gives such a Dataset too.

    pip install 'gradlex[huggingface]'
    python examples/hugging_face_dataset.py
"""

import sys

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

import gradlex

try:
    from datasets import Dataset, disable_progress_bars
except ImportError:
    print("skipped: this example needs datasets: pip install 'gradlex[huggingface]'")
    sys.exit(0)

TOPICS = {
    "weather": ["rain", "sun", "storm", "cloud", "wind"],
    "sport": ["goal", "match", "coach", "team", "race"],
    "kitchen": ["salt", "oven", "soup", "knife", "bread"],
}
FILLERS = ["the", "and", "today", "again", "was", "some", "very", "there"]
WORDS = [*FILLERS, *(word for words in TOPICS.values() for word in words)]


def message(topic: str, rng: np.random.Generator) -> str:
    """A few words on the topic, one on another, and fillers: 6 to 14 in all."""
    other = rng.choice([word for name, words in TOPICS.items() if name != topic for word in words])
    words = [*rng.choice(TOPICS[topic], rng.integers(3, 5)), other, *rng.choice(FILLERS, rng.integers(2, 10))]
    return " ".join(rng.permutation(words))


def encode(row: dict) -> dict:
    return {"ids": [WORDS.index(word) + 1 for word in row["text"].split()]}  # 0 is padding


def collate(rows: list[dict]) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """The pair (inputs, targets) of a batch; the inputs' names are the arguments of the network."""
    ids = pad_sequence([row["ids"] for row in rows], batch_first=True)
    return {"ids": ids, "mask": ids != 0}, torch.stack([row["label"] for row in rows])


class MeanOfWords(nn.Module):
    """The mean of the words' embeddings, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(len(WORDS) + 1, 16)
        self.topic = nn.Linear(16, len(TOPICS))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(N, words) -> (N, topics)."""
        weights = mask.unsqueeze(-1).float()
        return self.topic((self.words(ids) * weights).sum(dim=1) / weights.sum(dim=1))


rng = np.random.default_rng(0)
labels = rng.integers(0, len(TOPICS), 160).tolist()
texts = [message(list(TOPICS)[label], rng) for label in labels]
disable_progress_bars()
messages = Dataset.from_dict({"text": texts, "label": labels}).map(encode, remove_columns="text")
parts = messages.with_format("torch").train_test_split(test_size=0.25, seed=0)
train, test = (DataLoader(parts[part], collate_fn=collate) for part in ("train", "test"))

torch.manual_seed(0)
recipe = gradlex.Recipe(population=2, generations=6, batch_size=8, lr=1.0, threads=1)
run = gradlex.train(MeanOfWords(), train, recipe, test=test)
print(f"test accuracy {run.test['accuracy']:.1%}")
