"""Hugging Face accelerate: the usual four lines of accelerate, and gradlex around them.

    pip install accelerate
    python examples/with_accelerate.py

The model is prepared before the Population is made. Each candidate gets a loader of its own part, which puts batches on
the device. With several processes accelerate wraps the model for data parallelism, so all of them train each candidate
together.
"""

import gradlex
import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
accelerator = Accelerator()
x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y)
x_test, y_test = x[1400:].to(accelerator.device), y[1400:].to(accelerator.device)
x, y = x[:1400], y[:1400]

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
model, optimizer = accelerator.prepare(model, optimizer)
population = gradlex.Population(model, optimizer, size=4)


def errors(cases):
    images, labels = x[cases].to(accelerator.device), y[cases].to(accelerator.device)
    return model(images).argmax(dim=1) != labels


for _ in range(12):
    for candidate in population.candidates(len(x)):
        part = TensorDataset(x[candidate.indices], y[candidate.indices])
        model.train()
        for images, labels in accelerator.prepare_data_loader(DataLoader(part, batch_size=20, shuffle=True)):
            optimizer.zero_grad()
            accelerator.backward(F.cross_entropy(model(images), labels))
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    population.select(errors, len(x))

model.eval()
accuracy = (model(x_test).argmax(dim=1) == y_test).float().mean().item()
accelerator.print(f"test accuracy {accuracy:.1%}")
