"""Tests run two at a time, so each computes with one thread, and so do the processes that it starts."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported
