"""For all suites of pytest: --all, and what a run without it says of the rows that it left out (sampling.py)."""

import gc
import os

import pytest
import sampling
from _pytest.junitxml import xml_key

# Read when PyTorch loads libgomp, which the suites do later. Its threads would spin while they wait, on cores that other tests
# need: small models took 20 times as long. Ranks do not inherit it (runtime/launch).
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

COUNTS = pytest.StashKey()


def pytest_addoption(parser):
    sampling.addOption(parser)


def pytest_configure(config):
    config.addinivalue_line("markers", "rest: a row of a table that is not in its sample (sampling.py)")


def pytest_collection_modifyitems(config, items):
    config.stash[COUNTS] = sampling.takeSample(config, items)
    # PyTorch's exporters make millions of small objects that live. To look through them for cycles every 700 took a tenth of
    # the interpreter's time. What is imported by now stays to the end.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def keptKernels(tmp_path_factory):
    """Most plans of the tests have kernels that others have too: they are compiled once in a run. It keeps nothing for the next."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kernels"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYRANK_KERNEL_CACHE", str(folder))
        yield


# A worker of xdist counts for the process that started it; all of them collect the same.


@pytest.hookimpl(tryfirst=True)  # before the report is written
def pytest_sessionfinish(session):
    counts = session.config.stash.get(COUNTS, (0, 0))
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["sampled"] = counts
    elif report := session.config.stash.get(xml_key, None):  # for tools/count.py
        report.add_global_property("left out", counts[0] - counts[1])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    node.config.stash[COUNTS] = tuple(getattr(node, "workeroutput", {}).get("sampled", (0, 0)))


def pytest_terminal_summary(terminalreporter, config):
    before, after = config.stash.get(COUNTS, (0, 0))
    if after < before:
        terminalreporter.write_line(f"{after} of {before} tests, for of large tables a sample was run; --all runs the other "
                                    f"{before - after}")
