"""Several labels a sample: which of three shapes a small image shows, any number of them at once."""

import gradlex
import torch
from torch import nn

torch.manual_seed(0)
y = torch.randint(0, 2, (1000, 3))
x = 0.5 * torch.randn(1000, 1, 8, 8)
x[:, 0, 1, :] += 2.0 * y[:, :1]  # a row
x[:, 0, :, 6] += 2.0 * y[:, 1:2]  # a column
x[:, 0, range(8), range(8)] += 2.0 * y[:, 2:]  # a diagonal

net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3))
run = gradlex.train(net, (x[:800], y[:800]), test=(x[800:], y[800:]), epochs=8, batch_size=20)
found = run.metrics["test"]
print(f"F1 {found['f1']:.1%}, mAP {found['map']:.1%}, all three right {found['exact']:.1%}")
