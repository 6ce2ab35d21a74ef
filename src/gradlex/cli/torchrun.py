"""Several processes: the same command again under torchrun."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence


def under_torchrun() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def leads() -> bool:
    """Whether this process prints: the only one, or rank 0."""
    return os.environ.get("RANK", "0") == "0"


def run_processes(number: int, words: Sequence[str]) -> None:
    """Run `gradlex WORDS` in this many processes, and end with their exit code."""
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # torchrun's own default, which it warns about
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # the processes print their errors
    try:
        torchrun.main(["--standalone", "--nproc-per-node", str(number), "-m", "gradlex", *words])
    except ChildFailedError as error:
        code = error.get_first_failure()[1].exitcode
        sys.exit(code if code >= 0 else 128 - code)
    except SignalException as error:
        sys.exit(128 + error.sigval)
