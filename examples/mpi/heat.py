"""
Heat in a rod, whose ends have 0 and 100 degrees. Every rank computes a section and exchanges its borders with its neighbours. Rank 0
compares the result with that of a single process, and the job fails if they differ.

  apt-get install -y python3-mpi4py
  keelson mpi run -n 2 -- /usr/bin/python3 examples/mpi/heat.py [CELLS] [STEPS]

Debian's mpi4py is for Open MPI.
"""

import sys

from mpi4py import MPI


def step(cells, left, right):
    """The next temperatures of a section between two borders."""
    padded = [left, *cells, right]
    return [(padded[i - 1] + padded[i] + padded[i + 1]) / 3 for i in range(1, len(padded) - 1)]


def main():
    world = MPI.COMM_WORLD
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    first = cells * world.rank // world.size
    last = cells * (world.rank + 1) // world.size
    section = [0.0] * (last - first)
    before = world.rank - 1 if world.rank > 0 else MPI.PROC_NULL
    after = world.rank + 1 if world.rank + 1 < world.size else MPI.PROC_NULL
    for _ in range(steps):
        left = world.sendrecv(section[-1], dest=after, source=before)
        right = world.sendrecv(section[0], dest=before, source=after)
        section = step(section, 0.0 if left is None else left, 100.0 if right is None else right)
    sections = world.gather(section, root=0)
    if sections is None:
        return
    result = [cell for each in sections for cell in each]
    expected = [0.0] * cells
    for _ in range(steps):
        expected = step(expected, 0.0, 100.0)
    if result != expected:
        print("the ranks' result differs from that of one process", file=sys.stderr)
        world.Abort(1)
    print(f"{cells} cells, {steps} steps, {world.size} ranks: {sum(result):.6f} degrees in total", flush=True)


main()
