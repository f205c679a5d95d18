"""A hundred steps of the GPT-2 that tools/quickstart.sh trains: in bf16 and fp16 the loss falls as it does in fp32.

The steps go on from weights that 300 steps in fp32 have made. Of new weights the loss stays at 3.2 (the entropy of single
bytes) for about a hundred steps, and a difference in the last digit decides when it leaves: there bf16 and fp32 are up to 7 %
apart in PyTorch as well.
"""

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import tools

MODELS = Path(__file__).parents[1] / "models"
TEXTS = Path("/usr/share/common-licenses")  # of Debian
BEFORE, STEPS, LAST, BATCH, LENGTH, RATE = 300, 100, 20, 4, 128, 1e-3


def rows(seed, steps):
    """Rows of the texts that the quickstart trains on, in an order of their own for each seed."""
    held = {"Apache-2.0", "CC0-1.0"}
    text = b"".join(file.read_bytes() for file in sorted(TEXTS.iterdir()) if not file.is_symlink() and file.name not in held)
    text = np.frombuffer(text, np.uint8).astype(np.int64)
    starts = np.random.default_rng(seed).permutation((len(text) - 1) // LENGTH)[:steps * BATCH, None] * LENGTH + np.arange(LENGTH)
    return {"input_ids": torch.from_numpy(text[starts]), "labels": torch.from_numpy(text[starts + 1])}


class Training:
    def __init__(self, folder):
        self.folder, self.known = folder, {}
        for precision in ("fp32", "bf16", "fp16"):
            tools.tool("compile", MODELS / "gpt2-bytes.onnx", "-o", folder / precision, "--input",
                       f"input_ids=int64[{BATCH},{LENGTH}]", "--loss", "cross_entropy(logits,labels)", "--optimizer",
                       f"adamw(lr={RATE},weight_decay=0)", "--threads", 1, "--precision", precision)
        self.begun = self.train("fp32", rows(0, BEFORE), BEFORE).weights.rename(folder / "begun.safetensors")

    def train(self, precision, data, steps, *more):
        tools.saveData(self.folder / "data.npz", data)
        return tools.train(self.folder / precision, self.folder / "data.npz", steps, self.folder / "run", *more)

    def ours(self, precision, seed):
        """The losses of the last steps."""
        if (precision, seed) not in self.known:
            losses = self.train(precision, rows(seed, STEPS), STEPS, "--init", self.begun).losses
            self.known[precision, seed] = torch.tensor(losses[-LAST:], dtype=torch.float64)
        return self.known[precision, seed]

    def theirs(self, precision, seed):
        """The same of PyTorch, whose model is the one that the file was exported from."""
        model = runpy.run_path(str(MODELS / "export_gpt2.py"))["build"]()
        model.load_state_dict(load_file(self.begun), strict=True)
        update, losses, data = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0), [], rows(seed, STEPS)
        for ids, labels in zip(data["input_ids"].split(BATCH), data["labels"].split(BATCH)):
            update.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                scores = model(input_ids=ids).logits
            loss = F.cross_entropy(scores.float().flatten(0, 1), labels.flatten())
            loss.backward()
            update.step()
            losses.append(loss.item())
        return torch.tensor(losses[-LAST:], dtype=torch.float64)


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    return Training(tmp_path_factory.mktemp("training"))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_the_mean_loss_is_that_of_fp32(precision, seed, training):
    exact = training.ours("fp32", seed).mean()
    assert exact < 2.9  # the model has learned more than how often a byte occurs
    assert abs(training.ours(precision, seed).mean() - exact) <= 0.01 * exact


def distance(left, right):
    return (left - right).square().mean().sqrt().item()


# PyTorch takes most of the time of this, so a usual run leaves it out (sampling.py).
@pytest.mark.rest
def test_losses_are_as_near_to_fp32_as_three_times_those_of_autocast(training):
    ours = distance(training.ours("bf16", 1), training.ours("fp32", 1))
    theirs = distance(training.theirs("bf16", 1), training.theirs("fp32", 1))
    assert ours <= 3 * theirs, (ours, theirs)
