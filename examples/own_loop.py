"""Own the loop: watch which candidate wins, and stop when a selection has used up all cases."""

import torch

import gradlex
from gradlex.engine import PopulationEngine, Worker
from gradlex.tasks import Classification

recipe = gradlex.Recipe(population=4, momentum="reset", generations=12, batch_size=32, threads=1)
arrays = gradlex.data.load(recipe)  # digits
samples = gradlex.data.ArraySamples(
    torch.from_numpy(arrays.x_train).permute(0, 3, 1, 2),
    torch.from_numpy(arrays.y_train),
    normalization=gradlex.data.Normalization.of(arrays.x_train),
)
network = gradlex.models.build("small-cnn", num_classes=10, in_channels=1)
worker = Worker(network, samples, Classification(), recipe, torch.device("cpu"))

engine = PopulationEngine(worker)
for generation in gradlex.evolve(worker.first_parent(), engine, gradlex.selection.lexicase, recipe):
    choice = generation.choice
    print(f"{generation.generation}: candidate {choice.index}, {choice.cases_used} cases ({choice.reason})")
    if choice.reason == "exhausted":
        break
