"""The paper's question on all of CIFAR-10, in your own loop: does lexicase selection beat SGD, and a random choice?

    python examples/cifar10.py --smoke                                     # a minute: shows that it works
    python examples/cifar10.py --data cifar10.npz --out results/cifar10    # the runs of results/plan.md
    python examples/cifar10.py --data data --out paper --model resnet18 --epochs 200 --device cuda   # the paper's size

--data names an archive with x_train, y_train, x_test, y_test (bytes, N x 32 x 32 x 3), or a folder that torchvision
downloads CIFAR-10 to. Run it again to continue where it stopped.
"""

import argparse
import functools
import os
from collections import OrderedDict

import gradlex
import numpy as np
import torch
from gradlex.data import crop_flip
from gradlex.experiments import features, save_features
from torch import Tensor, nn
from torch.nn import functional as F

BATCH, CHUNK = 125, 1000  # 125 divides every part into whole batches
PAIRS = [("lexicase", "sgd"), ("lexicase", "sgd-matched"), ("lexicase", "random")]  # the first is the paper's question


def fast_network(width: float) -> nn.Module:
    """Six 3 x 3 convolutions after a 2 x 2 stem: small and fast, in the manner of the CIFAR-10 speed records."""

    def conv(before: int, after: int, *pool: nn.Module) -> list[nn.Module]:
        return [nn.Conv2d(before, after, 3, padding=1, bias=False), *pool, nn.BatchNorm2d(after), nn.ReLU()]

    a, b = round(64 * width), round(256 * width)
    parts = {"stem": [nn.Conv2d(3, 24, 2), nn.ReLU()]}
    for number, (first, last) in enumerate([(24, a), (a, b), (b, b)], start=1):
        parts[f"stage{number}"] = conv(first, last, nn.MaxPool2d(2)) + conv(last, last)
    parts["head"] = [nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(b, 10)]
    return nn.Sequential(OrderedDict({name: nn.Sequential(*layers) for name, layers in parts.items()}))


def load(options: argparse.Namespace) -> list[Tensor]:
    """Normalized training images and labels, test images and labels."""
    if options.smoke:
        rng = np.random.default_rng(0)
        x, x_test = (rng.integers(256, size=(n, 32, 32, 3), dtype=np.uint8) for n in (500, 100))
        y, y_test = np.arange(500) % 10, np.arange(100) % 10
    elif options.data.endswith(".npz"):
        with np.load(options.data) as archive:
            x, y, x_test, y_test = (archive[name] for name in ("x_train", "y_train", "x_test", "y_test"))
    else:
        from torchvision.datasets import CIFAR10

        parts = [CIFAR10(options.data, train=train, download=True) for train in (True, False)]
        (x, y), (x_test, y_test) = ((part.data, np.array(part.targets)) for part in parts)
    if options.validation:  # for pilots: the test images stay unseen
        x, y, x_test, y_test = x[:-5000], y[:-5000], x[-5000:], y[-5000:]
    mean, std = (torch.from_numpy(found).float() for found in (x.mean(axis=(0, 1, 2)), x.std(axis=(0, 1, 2))))
    images = [((torch.from_numpy(each) - mean) / std).permute(0, 3, 1, 2) for each in (x, x_test)]
    labels = [torch.from_numpy(each).long() for each in (y, y_test)]
    return [each.to(options.device) for each in (images[0], labels[0], images[1], labels[1])]


def experiment(method, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """One run: train by this method with this seed, and return the final metrics."""
    x, y, x_test, y_test = load(options)
    torch.manual_seed(seed)
    name, fast = options.model, options.model == "fast"
    model = fast_network(options.width) if fast else gradlex.models.build(name, sample=(3, 32, 32), outputs=10)
    model = model.to(options.device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=method.epochs)
    population = method.population(model, optimizer)  # registers the network, and records every generation
    augment, checkpoint = crop_flip(4), method.folder / "checkpoint.pt"

    def wrong(images: Tensor, labels: Tensor) -> Tensor:
        return torch.cat([model(part).argmax(1) for part in images.split(CHUNK)]) != labels

    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        population.load_state_dict(state["population"])
        scheduler.load_state_dict(state["scheduler"])
    while population.generation < method.epochs:
        for candidate in population.candidates(len(x)):
            model.train()
            for part in torch.from_numpy(candidate.indices).split(BATCH):
                images = augment(x[part], candidate.rng)
                optimizer.zero_grad()
                F.cross_entropy(model(images), y[part]).backward()
                optimizer.step()
        population.select(lambda cases: wrong(x[cases], y[cases]), len(x))
        scheduler.step()
        torch.save({"population": population.state_dict(), "scheduler": scheduler.state_dict()}, f"{checkpoint}.new")
        os.replace(f"{checkpoint}.new", checkpoint)
    save_features(method.folder, features(model, x_test[:100]))  # for the paper's figure 2
    model.eval()
    with torch.no_grad():
        accuracy, train_accuracy = (1 - wrong(*part).double().mean().item() for part in ((x_test, y_test), (x, y)))
    return {"accuracy": accuracy, "train_accuracy": train_accuracy}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="data")
    parser.add_argument("--out", default=None)
    parser.add_argument("--model", default="fast", help="fast, or a name from `gradlex list models`")
    parser.add_argument("--width", type=float, default=0.375)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--methods", nargs="+", default=["sgd", "lexicase", "sgd-matched", "random"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--validation", action="store_true", help="measure on 5,000 training images (pilots)")
    parser.add_argument("--smoke", action="store_true", help="one epoch on noise: shows that it works")
    options = parser.parse_args()
    if options.smoke:
        options.width, options.epochs, options.seeds, options.jobs = 0.125, 1, [0], 1
    plan = {name: getattr(options, name) for name in ("methods", "seeds", "epochs", "jobs", "out")}
    pairs, backend = [p for p in PAIRS if {*p} <= {*options.methods}], "serial" if options.smoke else "processes"
    print(gradlex.compare(functools.partial(experiment, options=options), pairs=pairs, backend=backend, **plan))
