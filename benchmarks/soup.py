"""Which mixture of fine-tuned checkpoints is best? `gradlex.soup` on real networks, in two settings.

Each repeat trains one parent and fine-tunes eight copies of it, on CIFAR-10:

- alike: on the same images, with different seeds, learning rates, weight decays and augmentations;
- specialists: each on its own class-skewed part, four fifths of it from three classes.

2,000 images that nobody trained on choose; all test images report. The networks are kept in `--networks`, so that a
rerun trains only what is missing; the result goes to `--out` as JSON and as a table.

    python benchmarks/soup.py --dataset cifar10.npz --networks networks --out results/soup
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import nn

import gradlex
from gradlex.data import Normalization

PARENT, TUNED, VALIDATION = 20_000, 4_000, 2_000
PARENT_EPOCHS, TUNED_EPOCHS, REPEATS = 4, 2, 3
RECALIBRATE = 20  # batches of 128
LRS, DECAYS = (0.01, 0.02, 0.03, 0.05), (1e-4, 5e-4, 1e-3)
SETTINGS = ("alike", "specialists")
AUGMENTS = ("none", "flip", "crop4,flip", "crop4,flip,cutout8")


class Network(nn.Sequential):
    """A patch layer and two convolutions with batch norm: 58,000 weights, quick on one core."""

    def __init__(self, classes: int = 10) -> None:
        layers: list[nn.Module] = []
        for inputs, outputs, size, stride, padding in (
            (3, 32, 4, 4, 0),
            (32, 64, 3, 1, 1),
            (64, 64, 3, 2, 1),
        ):
            conv = nn.Conv2d(inputs, outputs, size, stride=stride, padding=padding, bias=False)
            layers += [conv, nn.BatchNorm2d(outputs), nn.ReLU()]
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


@dataclass(frozen=True)
class Parts:
    """One repeat's images, as the network sees them: what trains the parent, what tunes, what chooses."""

    x: torch.Tensor
    y: torch.Tensor
    parent: np.ndarray
    tuning: np.ndarray
    validation: np.ndarray

    def some(self, indices: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Images and labels of these numbers."""
        return self.x[torch.from_numpy(indices)], self.y[torch.from_numpy(indices)]


def parts(x: torch.Tensor, y: torch.Tensor, repeat: int) -> Parts:
    order = np.random.default_rng(repeat).permutation(len(y))
    validation, parent, tuning = np.split(order, [VALIDATION, VALIDATION + PARENT])
    return Parts(x, y, parent, tuning, validation)


def trained(
    path: Path, start: nn.Module, data: tuple[torch.Tensor, torch.Tensor], epochs: int, **fields: Any
) -> nn.Module:
    """The network that training `start` gives: from the file, or trained now and kept there."""
    network = Network()
    if not path.exists():
        recipe = gradlex.Recipe(
            selection="sgd", generations=epochs, batch_size=64, threads=1, precision="float32", **fields
        )
        run = gradlex.train(start, data, recipe, progress=False)
        safetensors.torch.save_file(
            {name: t.contiguous() for name, t in run.model.state_dict().items()}, path
        )
        print(f"{path.name}: training loss {run.generations[-1].losses[0]:.3f}", flush=True)
    network.load_state_dict(safetensors.torch.load_file(path))
    return network


def networks(folder: Path, of: Parts, repeat: int) -> dict[str, list[Path]]:
    """The checkpoints of both settings."""
    torch.manual_seed(repeat)
    parent = trained(
        folder / f"{repeat}-parent.safetensors",
        Network(),
        of.some(of.parent),
        PARENT_EPOCHS,
        seed=repeat,
        lr=0.1,
        weight_decay=5e-4,
        augment="crop4,flip",
    )
    rng = np.random.default_rng(1000 + repeat)
    settings: dict[str, list[Path]] = {"alike": [], "specialists": []}
    same = of.tuning[:TUNED]
    for number in range(8):
        path = folder / f"{repeat}-alike-{number}.safetensors"
        chosen = {
            "lr": float(rng.choice(LRS)),
            "weight_decay": float(rng.choice(DECAYS)),
            "augment": str(rng.choice(AUGMENTS)),
        }
        trained(path, parent, of.some(same), TUNED_EPOCHS, seed=100 * repeat + number, **chosen)
        settings["alike"].append(path)
    for number in range(8):
        path = folder / f"{repeat}-specialist-{number}.safetensors"
        favored = np.isin(of.y[torch.from_numpy(of.tuning)].numpy(), [(number + i) % 10 for i in range(3)])
        own, other = rng.permutation(of.tuning[favored]), rng.permutation(of.tuning[~favored])
        mine = np.concatenate([own[: TUNED * 4 // 5], other[: TUNED // 5]])
        trained(
            path,
            parent,
            of.some(mine),
            TUNED_EPOCHS,
            seed=100 * repeat + number,
            lr=0.02,
            weight_decay=5e-4,
            augment="crop4,flip",
        )
        settings["specialists"].append(path)
    return settings


def tasted(of: Parts, test: tuple[torch.Tensor, torch.Tensor], paths: list[Path]) -> dict[str, Any]:
    """The result of one soup, with the share of validation cases that divide its checkpoints."""
    made = gradlex.soup(
        paths,
        of.some(of.validation),
        model=Network(),
        test=test,
        train=of.some(of.parent),
        recalibrate=RECALIBRATE,
        device="cpu",
    )
    solved = (made.errors == 0).sum(axis=0)
    found = made.to_dict()
    return {
        "chosen": found["chosen"],
        "mixtures": found["mixtures"],
        "divided_cases": float(((solved > 0) & (solved < len(made.errors))).mean()),
        "solved_by_somebody": float((solved > 0).mean()),
    }


def table(results: list[dict[str, Any]]) -> str:
    """Means over the repeats, in per cent, with the smallest and largest accuracy."""
    lines = [
        "Made by `python benchmarks/soup.py --dataset cifar10.npz --networks networks --out results/soup`: one "
        "parent, eight copies of it fine-tuned. Alike: on the same images, with different seeds and settings. "
        "Specialists: each on its own part, most of it from three classes.",
        "",
        f"Mixtures are chosen on {VALIDATION:,} validation images and reported on all test images, in per cent; "
        f"means of {len(results)} repeats.",
        "",
    ]
    for setting in SETTINGS:
        lines += [
            f"### {setting}",
            "",
            "| method | test accuracy | lowest to highest | worst class | calibration error | validation | networks |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for method in results[0][setting]["mixtures"]:
            mixed = [result[setting]["mixtures"][method] for result in results]
            tests = [each["test"]["accuracy"] for each in mixed]
            sizes = "/".join(str(len(each["weights"])) for each in mixed)
            lines.append(
                f"| {method} | {100 * np.mean(tests):.2f} | {100 * min(tests):.2f} to {100 * max(tests):.2f} | "
                f"{100 * np.mean([each['test']['worst_class_accuracy'] for each in mixed]):.2f} | "
                f"{100 * np.mean([each['test']['calibration_error'] for each in mixed]):.2f} | "
                f"{100 * np.mean([each['validation']['accuracy'] for each in mixed]):.2f} | {sizes} |"
            )
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", type=Path, required=True, help="CIFAR-10 as a .npz archive")
    parser.add_argument("--networks", type=Path, required=True, help="where the checkpoints are kept")
    parser.add_argument("--out", type=Path, required=True, help="a folder for soup.json and soup.md")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for folder in (given.networks, given.out):
        folder.mkdir(parents=True, exist_ok=True)
    with np.load(given.dataset) as archive:
        arrays = {name: archive[name] for name in ("x_train", "y_train", "x_test", "y_test")}
    scale = Normalization.of(arrays["x_train"])
    (x, y), test = (
        (
            scale.apply(torch.from_numpy(arrays[f"x_{part}"]).permute(0, 3, 1, 2)),
            torch.from_numpy(arrays[f"y_{part}"]).long(),
        )
        for part in ("train", "test")
    )
    results = []
    for repeat in range(given.repeats):
        of = parts(x, y, repeat)
        made = networks(given.networks, of, repeat)
        results.append({setting: tasted(of, test, paths) for setting, paths in made.items()})
        said = {"gradlex": gradlex.__version__, "torch": torch.__version__, "repeats": results}
        (given.out / "soup.json").write_text(json.dumps(said, indent=1) + "\n")
        (given.out / "soup.md").write_text(table(results))
        print(table(results), flush=True)


if __name__ == "__main__":
    main()
