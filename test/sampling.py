"""The sample of a large table that a run takes (docs/testing.md, "The sample").

Of a table of combinations `rows` keeps as few rows as have every value that some row has, and those that are named; the
others are run with --all (or POLYRANK_ALL=1), and wherever tests are named: by -k, by -m, or by the id of a test. Which rows
these are depends on the table alone.
"""

import os

import pytest


def cover(table, values, always=(), name=str):
    """The names of the sample: rows named in `always`, then greedily the row with the most values that none has yet."""
    byName = {name(row): set(values(row)) for row in table}
    assert len(byName) == len(table), "two rows of one name"
    assert not set(always) - set(byName), f"no row's name: {set(always) - set(byName)}"
    chosen = set(always)
    missing = set().union(*byName.values()) - set().union(*(byName[each] for each in chosen))
    while missing:
        best = max(byName, key=lambda each: len(byName[each] & missing))  # of equals the first in the table
        chosen.add(best)
        missing -= byName[best]
    return chosen


def rows(table, values, always=(), name=str):
    """The table for parametrize. `values` gives what a row has, as a set; `name` its id; a tuple is several parameters."""
    sample = cover(table, values, always, name)
    return [pytest.param(*(row if isinstance(row, tuple) else (row,)), id=name(row),
                         marks=() if name(row) in sample else pytest.mark.rest) for row in table]


# ===-- what pytest does with it ------------------------------------------------===#


def addOption(parser):
    parser.addoption("--all", action="store_true", default=os.environ.get("POLYRANK_ALL", "") not in ("", "0"),
                     help="every row of every table, not a sample of the large ones")


def isNamed(item, arguments):
    """Whether one of the command line's ids of tests is this one's, or of a function or class that it belongs to."""
    path = os.path.realpath(item.path)
    for argument in arguments:
        file, _, test = argument.partition("::")
        if test and os.path.realpath(file) == path:
            own = item.nodeid.partition("::")[2]
            if own == test or own.startswith((f"{test}[", f"{test}::")):
                return True
    return False


def takeSample(config, items):
    """Deselects what is not in the sample, and returns how many tests there were and how many are left."""
    before = len(items)
    if not (config.option.all or config.option.keyword or config.option.markexpr):
        left = [item for item in items if item.get_closest_marker("rest") and not isNamed(item, config.args)]
        if left:
            dropped = set(left)
            items[:] = [item for item in items if item not in dropped]
            config.hook.pytest_deselected(items=left)
    return before, len(items)
