"""A plugin of pytest for suites.py: writes which mutants each test executes, its fixtures included, to $MUTANTS_TESTS."""

import json
import mmap
import os
import time

import pytest

from lists import numbersIn

REACHED = open(os.environ["MUTANTS_REACHED"], "r+b")
BYTES = mmap.mmap(REACHED.fileno(), 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    BYTES[:] = bytes(len(BYTES))
    start = time.monotonic()
    result = yield
    seconds = time.monotonic() - start
    path, _, test = item.nodeid.partition("::")
    with open(os.environ["MUTANTS_TESTS"], "a") as out:
        print(json.dumps({"name": f"{item.path}::{test}", "seconds": seconds, "reached": numbersIn(BYTES[:])}), file=out)
    return result
