"""Selection never sees an augmented image.

The network knows every image, and augmentation turns each into one of the other class. Seen clean, all cases are
solved by all candidates and selection runs through them; seen augmented, the first case would end it.
"""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

import gradlex
from gradlex import Recipe

RECIPE = Recipe(
    population=4, generations=3, batch_size=5, lr=1e-6, weight_decay=0, precision="float32", threads=1
)


def through_all_cases(run):
    return [(record.reason, record.cases_used) for record in run.generations] == [("exhausted", 40)] * 3


def test_selection_sees_arrays_as_they_are(signs, sign_net):
    run = gradlex.train(sign_net, signs, RECIPE, augment=lambda batch, rng: -batch)
    assert through_all_cases(run)
    assert all(loss > 5 for record in run.generations for loss in record.losses)  # SubGD saw them negated
    assert run.train["accuracy"] == 1


class Negated(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return -self.x[index], int(self.y[index])


def test_selection_sees_the_clean_view_of_a_dataset(signs, sign_net):
    run = gradlex.train(sign_net, Negated(*signs), RECIPE, clean=TensorDataset(*signs))
    assert through_all_cases(run)
    assert all(loss > 5 for record in run.generations for loss in record.losses)
    assert run.train["accuracy"] == 1


def test_the_batch_augmentation_of_a_dataset_is_not_for_selection_either(signs, sign_net):
    run = gradlex.train(sign_net, TensorDataset(*signs), RECIPE, augment=lambda batch, rng: -batch)
    assert through_all_cases(run)


def test_the_proof_would_notice_an_augmented_case(signs, sign_net):
    run = gradlex.train(sign_net, Negated(*signs), RECIPE)  # no clean view: the cases are the negated ones
    assert [(record.reason, record.cases_used) for record in run.generations] == [("all_failed", 1)] * 3


def test_evaluation_on_test_samples_is_clean_too(signs, sign_net):
    run = gradlex.train(sign_net, signs, RECIPE, test=signs, augment=lambda batch, rng: -batch)
    assert [record.test["accuracy"] for record in run.generations] == [1.0] * 3


def test_a_clean_view_of_another_length_is_refused(signs, sign_net):
    x, y = signs
    with pytest.raises(gradlex.InputError, match="clean view has 39 samples and the data 40"):
        gradlex.train(sign_net, Negated(x, y), RECIPE, clean=TensorDataset(x[:39], y[:39]))


def test_a_clean_view_of_arrays_is_refused(signs, sign_net):
    with pytest.raises(gradlex.InputError, match="arrays are clean already"):
        gradlex.train(sign_net, signs, RECIPE, clean=TensorDataset(*signs))


def test_augmentation_is_drawn_anew_for_every_candidate_and_generation(signs, sign_net):
    draws = []

    def note(batch, rng):
        draws.append(rng.random())
        return batch

    gradlex.train(sign_net, signs, RECIPE, augment=note)
    assert len(draws[1:]) == len(set(draws[1:])) == 3 * 4 * 2  # before the run it is tried out
    again = draws.copy()
    draws.clear()
    gradlex.train(sign_net, signs, RECIPE, augment=note)
    assert draws == again


def test_augmentation_takes_the_data_in_its_own_type(signs, sign_net):
    kinds = set()

    def note(batch, rng):
        kinds.add((batch.dtype, tuple(batch.shape[1:])))
        return batch

    x, y = signs
    gradlex.train(sign_net, ((127 * (x + 1)).to(torch.uint8), y), RECIPE, augment=note)
    assert kinds == {(torch.uint8, (1, 2, 2))}
