"""Slices of a case order that start small and grow.

Most selections end within a few cases, so asking for many at once would waste evaluations; those that go
on are asked in larger and larger slices, which a processor computes more efficiently. The sizes are fixed
numbers: a network's last bits depend on its batch, so they must not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradlex.selection._protocol import Indices

FIRST_SLICE = 32
LARGEST_SLICE = 1024


def slices(cases: Indices, first: int = FIRST_SLICE, largest: int = LARGEST_SLICE) -> Iterator[Indices]:
    """Cut `cases` into consecutive slices of `first`, twice `first`, ... up to `largest` cases."""
    start, size = 0, first
    while start < len(cases):
        yield cases[start : start + size]
        start += size
        size = min(2 * size, largest)
