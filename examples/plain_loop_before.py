"""A training script with mixed precision, clipped gradients, a cosine schedule and TensorBoard.

plain_loop_before.py is the script without gradlex, plain_loop.py the script with it: six changed lines.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Subset, TensorDataset
from torch.utils.tensorboard import SummaryWriter

EPOCHS = 10
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)

x, y = load_digits(return_X_y=True)
dataset = TensorDataset(torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y))
train_set, test_set = Subset(dataset, range(1400)), Subset(dataset, range(1400, len(dataset)))

model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
scaler = torch.amp.GradScaler(device)
writer = SummaryWriter()


def train(samples):
    model.train()
    for images, labels in DataLoader(samples, batch_size=20, shuffle=True):
        optimizer.zero_grad()
        with torch.autocast(device, torch.float16):
            loss = F.cross_entropy(model(images.to(device)), labels.to(device))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


@torch.no_grad()
def wrong(samples):
    model.eval()
    batches = DataLoader(samples, batch_size=200)
    return torch.cat([model(images.to(device)).argmax(1).cpu() != labels for images, labels in batches])


for epoch in range(EPOCHS):
    train(train_set)
    scheduler.step()
    accuracy = 1 - wrong(test_set).double().mean().item()
    writer.add_scalar("test/accuracy", accuracy, epoch)
writer.close()
print(f"test accuracy {accuracy:.1%}")
