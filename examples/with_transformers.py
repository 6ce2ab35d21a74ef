"""Hugging Face transformers: a Trainer trains each candidate on its part.

    pip install transformers accelerate
    python examples/with_transformers.py

The network is tiny and starts from random weights, so nothing is downloaded: it learns whether the first of two numbers
is the larger one. Each Trainer makes a new optimizer, so the Population needs none.
"""

import gradlex
import torch
from transformers import BertConfig, BertForSequenceClassification, PrinterCallback, Trainer, TrainingArguments

torch.manual_seed(0)
numbers = torch.cartesian_prod(torch.arange(24), torch.arange(24))
numbers = numbers[numbers[:, 0] != numbers[:, 1]][torch.randperm(24 * 23)]
labels = (numbers[:, 0] > numbers[:, 1]).long()
samples = [{"input_ids": pair, "labels": label} for pair, label in zip(numbers, labels, strict=True)]
train_size = 400

config = BertConfig(
    vocab_size=24,
    hidden_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=2,
)
model = BertForSequenceClassification(config)
population = gradlex.Population(model, size=2)


def wrong(cases):
    return model(input_ids=numbers[cases].to(model.device)).logits.argmax(dim=1).cpu() != labels[cases]


for epoch in range(10):
    for candidate in population.candidates(train_size):
        arguments = TrainingArguments(
            output_dir="trainer",
            num_train_epochs=1,
            per_device_train_batch_size=10,
            learning_rate=0.005 * (1 - epoch / 10),
            lr_scheduler_type="constant",  # within an epoch; another schedule would begin anew with each candidate
            seed=int(candidate.rng.integers(2**31)),  # the Trainer seeds every generator
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(model, arguments, train_dataset=[samples[index] for index in candidate.indices])
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    choice = population.select(wrong, train_size)
    print(f"epoch {epoch + 1}: candidate {choice.index} after {choice.cases_used} cases")
model.eval()
print(f"test accuracy {1 - wrong(torch.arange(train_size, len(labels))).float().mean().item():.1%}")
