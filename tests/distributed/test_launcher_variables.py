"""A launcher's variables that make no sense are refused at once, rather than waited on."""

from __future__ import annotations

import pytest

from gradlex.cli import main

WORDS = ("train", "--model", "mlp", "--width", "0.1", "--train-size", "60", "--generations", "1", "--out")


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"RANK": "5", "WORLD_SIZE": "2"}, "RANK 5 and WORLD_SIZE 2; a rank goes from 0 to WORLD_SIZE - 1"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK 2 and WORLD_SIZE 2"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "RANK -1 and WORLD_SIZE 2"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "RANK 0 and WORLD_SIZE 0"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK is 'x', not a number"),
        ({"RANK": "0", "WORLD_SIZE": ""}, "WORLD_SIZE is '', not a number"),
        ({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "x"}, "LOCAL_RANK is 'x', not a number"),
        ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "x"}, "LOCAL_WORLD_SIZE is 'x', not a number"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "RANK and WORLD_SIZE are set, as torchrun sets them, but"),
    ],
)
def test_they_end_with_exit_code_2_and_a_message(variables, told, monkeypatch, capsys, tmp_path):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as caught:
        main([*WORDS, str(tmp_path / "run")])
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert told in err
    assert "start with torchrun, or unset" in err
    assert not (tmp_path / "run").exists()
