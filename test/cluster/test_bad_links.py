"""Machines that share the ranks of a plan over links that lose packets, or are slow.

The oracle of all: the weights have the bits of those that one machine saves, and nobody is taken for lost or for hung meanwhile.
"""

import re

import pytest
from jobs import checkSaved, share


def checkUndisturbed(job, shared, **more):
    checkSaved(job, shared, **more)
    assert not re.search(r"is lost|silent|no rank made progress|start again|refused a connection", job.said()), job.said()


@pytest.mark.parametrize("name, losers, steps", [("data", [0], 24), ("data", [1], 24), ("tensor", [0, 1], 4), ("pipe", [1], 12)],
                         ids=["data-to-0", "data-to-1", "tensor-both-ways", "pipe-to-1"])
def test_losses_change_nothing(name, losers, steps, pair, shared, tmp_path, planOf):
    plan = {**planOf(name), "steps": steps}
    for loser in losers:
        pair[loser].lose(0.05)
    checkUndisturbed(share(pair, shared, tmp_path / "run", **plan), shared, **plan)
    assert all(pair[loser].lost() > 0 for loser in losers)


@pytest.mark.parametrize("name, rate, steps", [("data", "10mbit", 8), ("pipe", "10mbit", 8), ("tensor", "2mbit", 12)],
                         ids=["data", "pipe", "tensor-for-longer-than-a-lost-machine-is-silent"])
def test_slow_links_change_nothing(name, rate, steps, pair, shared, tmp_path, planOf):
    plan = {**planOf(name), "steps": steps}
    for machine in pair:
        machine.limit(rate, burst="4kb")  # what is sent at once is more
    checkUndisturbed(share(pair, shared, tmp_path / "run", **plan), shared, **plan)
    assert all(machine.delayed() > 0 for machine in pair)
