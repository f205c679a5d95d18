"""Any exported graph is cut into stages: values go to later ones only, each has ops, and what differs is said."""

import re
import warnings

import pytest
import torch

import shared
import tools
from models import MODELS

OP = re.compile(r"^\s*(%[\w:, %]+?) = (?:graph\.)?[\w.]+ (.*)$")
VALUE = re.compile(r"%\w+")
STAGE = re.compile(r"graph\.stage = (\d+)")
KEPT = re.compile(r"(%\w+): tensor<[^>]*> \{graph\.role = #graph\.(?:parameter|state)<")


class EncoderDecoder(torch.nn.Module):
    """Each layer of the decoder takes what the encoder made; both use one table."""

    def __init__(self, width=16, words=32, layers=3):
        super().__init__()
        self.table = torch.nn.Embedding(words, width)
        options = dict(d_model=width, nhead=2, dim_feedforward=32, dropout=0.0, batch_first=True)
        self.encoder = torch.nn.ModuleList(torch.nn.TransformerEncoderLayer(**options) for _ in range(layers))
        self.decoder = torch.nn.ModuleList(torch.nn.TransformerDecoderLayer(**options) for _ in range(layers))
        self.head = torch.nn.Linear(width, words)

    def forward(self, source, target):
        memory, y = self.table(source), self.table(target)
        for layer in self.encoder:
            memory = layer(memory)
        for layer in self.decoder:
            y = layer(y, memory)
        return self.head(y)


class UNet(torch.nn.Module):
    """Skips from each level on the way down to the same level on the way up."""

    def __init__(self, width=4, levels=3):
        super().__init__()
        conv = lambda a, b: torch.nn.Sequential(torch.nn.Conv2d(a, b, 3, padding=1), torch.nn.ReLU())
        self.begin = conv(1, width)
        self.down = torch.nn.ModuleList(conv(width, width) for _ in range(levels))
        self.up = torch.nn.ModuleList(conv(2 * width, width) for _ in range(levels))
        self.end = torch.nn.Conv2d(width, 1, 1)

    def forward(self, x):
        x, skips = self.begin(x), []
        for layer in self.down:
            x = layer(x)
            skips.append(x)
        for layer in self.up:
            x = layer(torch.cat((x, skips.pop()), 1))
        return self.end(x)


class Towers(torch.nn.Module):
    """Two towers whose layers take turns in the program, and a product that joins them."""

    def __init__(self, width=16, layers=6):
        super().__init__()
        tower = lambda: torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(layers))
        self.left, self.right = tower(), tower()

    def forward(self, x, y):
        for left, right in zip(self.left, self.right):
            x, y = torch.tanh(left(x)), torch.tanh(right(y))
        return x * y


WORDS = torch.zeros(4, 8, dtype=torch.int64)
OWN = {"encoder-decoder": (EncoderDecoder, (WORDS, WORDS), "cross_entropy(logits,labels,axis=2)"),
       "u-net": (UNet, (torch.zeros(4, 1, 8, 8),), "mse(logits,target)"),
       "towers": (Towers, (torch.zeros(4, 16), torch.zeros(4, 16)), "mse(logits,target)")}


@pytest.fixture(scope="module")
def file(exported):
    """Name of a model -> its ONNX file and the loss."""
    def get(name):
        if name in MODELS:
            return exported(name), MODELS[name].lossOption, MODELS[name].inputOptions
        build, inputs, loss = OWN[name]

        def export(folder):
            torch.manual_seed(1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(build(), inputs, folder / "model.onnx", dynamo=True, output_names=["logits"], verbose=False)

        return shared.made(f"cutting-{name}", export) / "model.onnx", loss, ()
    return get


def stagesOf(text):
    """Of @forward: a list of (op, stage or None, stages of its operands, whether it depends on a parameter)."""
    body = text[text.index("func.func @forward"):]
    kept = set(KEPT.findall(body[:body.index("\n")]))
    stages, ops = {}, []
    for line in body.splitlines()[1:]:
        if line.startswith("  }"):
            break
        match = OP.match(line)
        if not match:
            continue
        results, rest = match.groups()
        operands = set(VALUE.findall(rest))
        found = STAGE.search(rest)
        stage = int(found[1]) if found else None
        ops.append((line.strip(), stage, [stages[o] for o in operands if o in stages], bool(operands & kept)))
        if stage is not None:
            for result in VALUE.findall(results):
                stages[result] = stage
    return ops


def cut(file, folder, mesh, *more):
    model, loss, inputs = file
    _, notes = tools.tool("compile", model, *inputs, "--loss", loss, "--mesh", mesh, "--stop-after", "training", "--dump-passes",
                          folder / "passes", *more)
    dump, = (folder / "passes").rglob("*assign-stages.mlir")
    return stagesOf(dump.read_text()), notes


@pytest.mark.parametrize("stages", [2, 4, 7])
@pytest.mark.parametrize("name", ["gpt2", "llama-tied", "bert", "vit", "resnet50", *OWN])
def test_values_go_to_later_stages_only(name, stages, file, tmp_path):
    batchNorm = ("--batch-norm", "batch") if name == "resnet50" else ()
    ops, notes = cut(file(name), tmp_path, f"pipe={stages}", *batchNorm)
    assert {stage for _, stage, _, _ in ops if stage is not None} == set(range(stages))
    for line, stage, operands, usesParameter in ops:
        assert (stage is not None) == (usesParameter or bool(operands)), line
        assert stage is None or stage >= max(operands, default=0), line
    assert re.search(rf"the slowest of {stages} on pipe \(1f1b\) takes .* are needed without any \(gap [\d.]+%\)"
                     "|nothing less is possible", notes)
    assert len(re.findall(r"stage \d+ at pipe=\d+: ", notes)) == stages


def test_one_value_crosses_between_towers(file, tmp_path):
    ops, notes = cut(file("towers"), tmp_path, "pipe=2", "--link", "pipe=0:1")
    assert re.search(r"stage 0 at pipe=0: .*, sends 256 bytes a microbatch", notes)


def test_an_encoder_is_on_the_stages_that_are_asked_for(file, tmp_path):
    _, notes = cut(file("encoder-decoder"), tmp_path, "pipe=4", "--stage", "encoder.*=0", "--stage", "decoder.0=1")
    assert re.search(r"stage 0 at .*'encoder\.2", notes)
    assert re.search(r"stage 1 at pipe=1: .*'decoder\.0", notes)
