"""Train a Hugging Face sequence classifier: a dict of tensors in, `.logits` out.

The reviews need word order: "not" turns a praise into a complaint. The network is built from a config, so nothing is
downloaded; with `AutoModelForSequenceClassification.from_pretrained(...)` and its tokenizer the rest stays the same.

    pip install 'gradlex[huggingface]'
    python examples/transformers_text_classifier.py
"""

import sys

import numpy as np
import torch

import gradlex

try:
    from transformers import BertConfig, BertForSequenceClassification
except ImportError:
    print("skipped: this example needs transformers: pip install 'gradlex[huggingface]'")
    sys.exit(0)

PRAISE, COMPLAINT = ["good", "great", "lovely", "fresh"], ["bad", "awful", "dull", "stale"]
THINGS, NEGATIONS = ["soup", "bread", "service", "music", "room"], ["", "not ", "never ", "hardly "]


def reviews(count: int, rng: np.random.Generator) -> tuple[list[str], list[int]]:
    texts, labels = [], []
    for _ in range(count):
        praised, negation = bool(rng.integers(2)), rng.choice(NEGATIONS)
        texts.append(f"the {rng.choice(THINGS)} was {negation}{rng.choice(PRAISE if praised else COMPLAINT)}")
        labels.append(int(praised != bool(negation)))
    return texts, labels


def encoded(texts: list[str]) -> dict[str, torch.Tensor]:
    """What a tokenizer returns: 0 is padding, 1 stands before every text."""
    rows = [torch.tensor([1, *(WORDS.index(word) + 2 for word in text.split())]) for text in texts]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


WORDS = ["the", "was", *THINGS, *PRAISE, *COMPLAINT, *(word.strip() for word in NEGATIONS if word)]
rng = np.random.default_rng(0)
(train_texts, train_labels), (test_texts, test_labels) = reviews(400, rng), reviews(100, rng)

torch.manual_seed(0)
config = BertConfig(
    vocab_size=len(WORDS) + 2,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=16,
    num_labels=2,
)
network = BertForSequenceClassification(config)

recipe = gradlex.Recipe(
    population=2,
    generations=16,
    batch_size=16,
    threads=1,
    precision="float32",
    optimizer="adamw",
    lr=3e-3,
    parameter_groups="no-decay",
)
run = gradlex.train(
    network, (encoded(train_texts), train_labels), recipe, test=(encoded(test_texts), test_labels)
)
print(f"test accuracy {run.test['accuracy']:.1%}")

with torch.inference_mode():
    for text in ("the soup was good", "the soup was not good", "the music was hardly awful"):
        inputs = {name: tensor.to(run.model.device) for name, tensor in encoded([text]).items()}
        print(f"{text}: {('complaint', 'praise')[int(run.model(**inputs).logits.argmax())]}")
