"""Fits the numbers of a machine file to measured steps.

A number is moved by its logarithm, within what such a machine can have, and is held near a published or assumed value by
a weak spring, so that one that no row says anything about stays there. What is minimised is nearly the mean absolute
error: an error counts by its size, and only below `knee` by its square. Levenberg and Marquardt's method, with weights
that follow the errors; the knee shrinks from round to round.
"""

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Constant:
    section: str
    key: str
    prior: float
    low: float
    high: float
    digits: int = 4

    @property
    def name(self):
        return f"{self.section}.{self.key}"


# What a node of eight A100 can have: an upper limit of a rate is that of the data sheet.
NODE = [
    Constant("device", "f16", 250e3, 100e3, 312e3),
    Constant("device", "bandwidth", 1300, 300, 2039),
    Constant("device", "launch", 5, 0.5, 60),
    Constant("device", "host", 20, 1, 150),
    Constant("product", "half_tiles", 20, 0.5, 1000),
    Constant("product", "half_depth", 100, 1, 2000),
    Constant("node", "latency", 8, 0.5, 60),
    Constant("node", "bandwidth", 230, 40, 400),
]
NETWORK = [
    Constant("network", "latency", 20, 1, 400),
    Constant("network", "bandwidth", 18, 2, 50),
]


class Model:
    """Asks polyrank-bench-cost for the steps of rows."""

    def __init__(self, tool, rowsPath, template, constants):
        self.template, self.constants = template, constants
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "machine.toml"
        self.process = subprocess.Popen([tool, str(rowsPath)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
        self.folder.cleanup()

    def seconds(self, values):
        self.path.write_text(self.template.render(dict(zip((c.name for c in self.constants), values))))
        self.process.stdin.write(f"{self.path}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("polyrank-bench-cost ended: see its message")
        return np.array([float(text) for text in line.strip()[1:-1].split(",")])


def errors(model, values, measured):
    return model.seconds(values) / measured - 1


SPRING = 0.003
KNEES = (0.05, 0.02, 0.005, 0.002)


def fit(model, measured, chosen, start=None, rounds=25):
    """The values for the rows `chosen`, from the priors or from `start`."""
    constants = model.constants
    low, high, prior = (np.log([getattr(c, key) for c in constants]) for key in ("low", "high", "prior"))
    place = np.clip(np.log(start) if start is not None else prior, low, high)
    spring = SPRING * np.sqrt(len(chosen))

    def residuals(at):
        return errors(model, np.exp(at), measured)[chosen]

    def total(error, at, knee):
        return np.sum(2 * knee**2 * (np.sqrt(1 + (error / knee)**2) - 1)) + np.sum((spring * (at - prior))**2) * knee

    for knee in KNEES if start is None else KNEES[1:]:
        damping, error = 1e-2, residuals(place)
        for _ in range(rounds):
            step = 1e-3
            slopes = np.stack([(residuals(place + step * unit) - error) / step for unit in np.eye(len(constants))], axis=1)
            weights = 1 / np.sqrt(1 + (error / knee)**2)
            scaled = slopes * weights[:, None]
            normal = scaled.T @ slopes + np.eye(len(constants)) * spring**2 * knee
            slope = scaled.T @ error + spring**2 * knee * (place - prior)
            before, isBetter = total(error, place, knee), False
            while damping < 1e6 and not isBetter:
                move = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), -slope)
                next_ = np.clip(place + np.clip(move, -0.5, 0.5), low, high)
                after = residuals(next_)
                isBetter = total(after, next_, knee) < before * (1 - 1e-7)
                damping *= 0.3 if isBetter else 4
            if not isBetter:
                break
            isNear = np.abs(next_ - place).max() < 2e-4
            place, error = next_, after
            if isNear:
                break
    return np.exp(place)


def crossValidate(model, measured, folds, start):
    """The error of each row by the values that were fitted without its fold: every fifth row of the table."""
    found = np.zeros(len(measured))
    rows = np.arange(len(measured))
    for fold in range(folds):
        own = rows % folds == fold
        values = fit(model, measured, rows[~own], start)
        found[own] = errors(model, values, measured)[own]
    return found
