"""Recurrent models from every format that PyTorch exports them to: values, first gradients and five steps are PyTorch's."""

import copy
from typing import Tuple

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.nn import functional

import exporters
import sampling
import tools
import torchscript
from reference import GRADIENT_RATE

BATCH, LENGTH, VOCAB, STEPS = 4, 6, 13, 5


class LanguageModel(nn.Module):
    """Two layers with the head tied to nothing."""

    def __init__(self):
        super().__init__()
        self.table, self.body = nn.Embedding(VOCAB, 5), nn.LSTM(5, 7, 2, batch_first=True)
        self.head = nn.Linear(7, VOCAB)

    def forward(self, ids):
        return self.head(self.body(self.table(ids))[0])


class Both(nn.Module):
    """A GRU in both directions, whose last states count too."""

    def __init__(self):
        super().__init__()
        self.table, self.body, self.head = nn.Embedding(VOCAB, 5), nn.GRU(5, 6, bidirectional=True), nn.Linear(12, VOCAB)

    def begin(self, samples: int):
        return self.head.weight.new_zeros(2, samples, 6)

    def forward(self, ids):
        steps, last = self.body(self.table(ids).transpose(0, 1), self.begin(ids.shape[0]))
        return self.head(steps.transpose(0, 1) + last.transpose(0, 1).flatten(1).unsqueeze(1))


class Started(Both):
    """Which begins with a learnt state."""

    def __init__(self):
        super().__init__()
        self.start = nn.Parameter(torch.randn(2, 1, 6))

    def begin(self, samples: int):
        return self.start.expand(2, samples, 6).contiguous()


class Plain(nn.Module):
    """RNNs of both nonlinearities."""

    def __init__(self):
        super().__init__()
        self.table, self.first = nn.Embedding(VOCAB, 5), nn.RNN(5, 6, batch_first=True)
        self.second, self.head = nn.RNN(6, 7, nonlinearity="relu", bias=False, batch_first=True), nn.Linear(7, VOCAB)

    def forward(self, ids):
        return self.head(self.second(self.first(self.table(ids))[0])[0])


class Projected(nn.Module):
    """An LSTM whose state is narrower than its cell's."""

    def __init__(self):
        super().__init__()
        self.table, self.body = nn.Embedding(VOCAB, 5), nn.LSTM(5, 6, 2, proj_size=3, bidirectional=True, batch_first=True)
        self.head = nn.Linear(6, VOCAB)

    def forward(self, ids):
        steps, (hidden, cell) = self.body(self.table(ids))
        return self.head(steps) + hidden.mean() + cell.mean()


class Unbatched(nn.Module):
    """Each text of its own, without a dim of the batch."""

    def __init__(self):
        super().__init__()
        self.table, self.body, self.head = nn.Embedding(VOCAB, 5), nn.GRU(5, 6, 2), nn.Linear(6, VOCAB)

    def forward(self, ids):
        return self.head(torch.stack([self.body(x)[0] for x in self.table(ids).unbind(0)]))


class Lengths(nn.Module):
    """Texts that end early, in both directions; in any order of their lengths."""

    kind = nn.GRU

    def __init__(self):
        super().__init__()
        self.table, self.body = nn.Embedding(VOCAB, 5), self.kind(5, 6, bidirectional=True, batch_first=True)
        self.head, self.steps = nn.Linear(12, VOCAB), LENGTH

    def weigh(self, last):
        return last.mean(2).transpose(0, 1).sum(1).unsqueeze(1).unsqueeze(2)

    def forward(self, ids, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.table(ids), lengths, batch_first=True, enforce_sorted=False)
        steps, last = self.body(packed)
        steps, _ = nn.utils.rnn.pad_packed_sequence(steps, batch_first=True, total_length=self.steps)
        return self.head(steps) + self.weigh(last)


class LongMemory(Lengths):
    kind = nn.LSTM

    def weigh(self, last: Tuple[torch.Tensor, torch.Tensor]):
        return (last[0] + last[1]).mean(2).transpose(0, 1).sum(1).unsqueeze(1).unsqueeze(2)


class Padded(Lengths):
    """Two layers of RNNs, and what is behind the ends is not 0."""

    def __init__(self):
        super().__init__()
        self.body = nn.RNN(5, 6, 2, bidirectional=True, batch_first=True)

    def forward(self, ids, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.table(ids), lengths, batch_first=True, enforce_sorted=False)
        steps, count = nn.utils.rnn.pad_packed_sequence(self.body(packed)[0], batch_first=True, padding_value=0.5,
                                                        total_length=self.steps)
        return self.head(steps) + count.unsqueeze(1).unsqueeze(2)


# An LSTM's projection has no ONNX form, and of a state that it spread out itself an optimized file has nothing else.
CASES = [(build, name) for build in (LanguageModel, Both, Plain) for name in exporters.FORMATS] + [
    (Started, "onnx"), (Started, "onnx-old"), (Started, "script"), (Projected, "pt2"), (Projected, "script"), (Unbatched, "pt2"),
    (Unbatched, "trace")]
# torch.export has no packed sequences.
PACKED = ("trace", "onnx-old", "onnx-old-folded")
CASES += [(build, name) for build in (Lengths, LongMemory) for name in PACKED] + [(Padded, "trace")]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("recurrent"), {}

    def get(build, name):
        if (build, name) not in made:
            torch.manual_seed(0)
            model = build()
            random = torch.Generator().manual_seed(1)
            inputs = {"ids": torch.randint(VOCAB, (BATCH, LENGTH), generator=random)}
            if issubclass(build, Lengths):
                inputs["lengths"] = torch.tensor([3, 6, 1, 4])
            labels = torch.randint(VOCAB, (BATCH, LENGTH), generator=random)
            path = exporters.FORMATS[name](model if name == "onnx-old" else model.eval(), inputs, folder / f"{build.__name__}-{name}")
            made[build, name] = model.eval(), {**inputs, "labels": labels}, path
        return made[build, name]

    return get


def inputsOf(batch):
    return {key: t for key, t in batch.items() if key != "labels"}


def lossOf(model, batch):
    return functional.cross_entropy(model(*inputsOf(batch).values()).flatten(0, -2), batch["labels"].flatten())


def compareForward(model, batch, path, folder, *options):
    tools.tool("compile", path, "-o", folder / "forward", "--mode", "forward", "--threads", 1, *options)
    tools.saveData(folder / "in.npz", inputsOf(batch))
    tools.tool("run", folder / "forward", "--inputs", folder / "in.npz", "--outputs", folder / "out.npz")
    with torch.no_grad():
        theirs = model(*inputsOf(batch).values()).numpy()
    ours = np.load(folder / "out.npz")["output"]
    assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()


def compareTraining(model, batch, path, folder, mesh, *options):
    plan = folder / "plan"
    tools.tool("compile", path, "-o", plan, "--loss", "cross_entropy(output,labels,axis=2)", "--optimizer", "sgd(lr=0.5)",
               "--mesh", mesh, "--threads", 1, "--zero-threshold", 1, *options)
    tools.saveData(folder / "data.npz", {key: torch.cat([t] * STEPS) for key, t in batch.items()})
    run = tools.train(plan, folder / "data.npz", 1, folder / "run1", "--lr", f"{GRADIENT_RATE:.0f}")
    assert set(run.tensors) == set(dict(model.named_parameters()))
    exact = copy.deepcopy(model).double()
    lossOf(exact, batch).backward()
    least = 1e-3 * max(p.grad.norm().item() for p in exact.parameters())
    for key, parameter in exact.named_parameters():
        ours = (model.state_dict()[key].double() - run.tensors[key].double()) / GRADIENT_RATE
        assert (ours - parameter.grad).norm() <= 1e-4 * max(parameter.grad.norm().item(), least), key
    run = tools.train(plan, folder / "data.npz", STEPS, folder / "run")
    theirs, losses = copy.deepcopy(model), []
    update = torch.optim.SGD(theirs.parameters(), lr=0.5)
    for _ in range(STEPS):
        update.zero_grad()
        loss = lossOf(theirs, batch)
        loss.backward()
        update.step()
        losses.append(loss.item())
    assert run.losses == pytest.approx(losses, rel=1e-5)
    for key, parameter in theirs.named_parameters():
        assert torch.allclose(run.tensors[key], parameter.detach(), rtol=1e-4, atol=1e-5), key


def valuesOf(row):
    """In a sample each model is in each format on one rank, and on two in one format, which take turns."""
    build, name, mesh = row
    formats = [format for each, format in CASES if each is build]
    turn = formats[list(dict(CASES)).index(build) % len(formats)]
    return {(build, name)} if mesh == "data=1" else {build} if name == turn else ()


@pytest.mark.parametrize("build, name, mesh", sampling.rows(
    [(build, name, mesh) for mesh in ("data=1", "data=2") for build, name in CASES], valuesOf,
    name=lambda row: f"{row[0].__name__}-{row[1]}-{row[2]}"))
def test_a_recurrent_model_trains_as_pytorch(build, name, mesh, exported, tmp_path):
    model, batch, path = exported(build, name)
    options = exporters.inputOptions(inputsOf(batch), name)
    if mesh == "data=1":
        compareForward(model, batch, path, tmp_path, *options)
    compareTraining(model, batch, path, tmp_path, mesh, *options)


def test_a_recurrent_model_is_split_over_its_gates(exported, tmp_path):
    model, batch, path = exported(LanguageModel, "pt2")
    compareTraining(model, batch, path, tmp_path, "data=2,tensor=2", "--shard", "head.weight=[tensor,-]",
                    "--shard", "body.weight_ih_l*=[tensor,-]")


def test_an_lstm_of_onnx_that_lost_its_projection_is_refused(tmp_path):
    """PyTorch 2.13 writes the first rows of each matrix, and a cell's state that does not fit."""
    path = tmp_path / "model.onnx"
    exporters.quiet(torch.onnx.export, nn.LSTM(5, 6, proj_size=3), (torch.zeros(LENGTH, BATCH, 5),), path, dynamo=True, optimize=False,
          verbose=False)
    _, error = tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", code=1)
    assert ("LSTM: its first state of [1, 4, 6] is not of [1, 4, 3]; ONNX has no LSTM with a projection (proj_size), and PyTorch "
            "writes its weights cut off: export it with torch.export.save") in error


class Mean(Lengths):
    """What is refused of a packed sequence."""

    def __init__(self, what):
        super().__init__()
        self.what = what

    def forward(self, ids, lengths):
        rnn = nn.utils.rnn
        packed = rnn.pack_padded_sequence(self.table(ids), lengths, batch_first=True, enforce_sorted=False)
        if self.what == "elements":
            return packed.data.mean()
        if self.what == "sizes":
            return packed.batch_sizes[1] + ids
        if self.what == "other lengths":
            other = rnn.pack_padded_sequence(self.table(ids), lengths.flip(0), batch_first=True, enforce_sorted=False)
            packed = rnn.PackedSequence(packed.data, other.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
        return rnn.pad_packed_sequence(self.body(packed)[0], total_length=7 if self.what == "more steps" else None)[0]


@pytest.mark.parametrize("what, message", [
    ("elements", "aten::mean: no overload takes an object"),
    ("sizes", "aten::select: the elements of a packed sequence; use it with recurrent layers and pad_packed_sequence alone"),
    ("other lengths", "aten::gru: its `data` and `batch_sizes` are not of one packed sequence"),
    ("more steps", "a total_length of 7, and the sequences had 6 steps when they were packed; give pad_packed_sequence a total_length of 6"),
    ("no length", "aten::size: the sizes of a packed sequence, which data says; give pad_packed_sequence a total_length"),
])
def test_what_a_packed_sequence_is_not_for_is_refused(what, message, tmp_path):
    torch.manual_seed(0)
    inputs = {"ids": torch.zeros(4, LENGTH, dtype=torch.int64), "lengths": torch.tensor([6, 3, 2, 6])}
    path = exporters.traced(Mean(what).eval(), inputs, tmp_path / "model")
    _, error = tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", code=1)
    assert message in error


def test_a_script_with_packed_sequences_is_refused(tmp_path):
    path = torchscript.script(Lengths().eval(), tmp_path / "model.pt")
    _, error = tools.tool("compile", path, "-o", tmp_path / "plan", "--mode", "forward", "--input", f"ids=int64[4,{LENGTH}]",
                          "--input", "lengths=int64[4]", code=1)
    assert "prim::device is not supported of what is no tensor; a model with packed sequences" in error
    assert "is to be traced, not scripted" in error


@pytest.mark.parametrize("name", ["onnx-old", "pt2", "trace"])  # dynamo takes minutes
def test_a_plan_does_not_grow_with_the_sequence(name, tmp_path):
    """400 steps of a layer in both directions are loops, as eight are; the values are PyTorch's."""
    torch.manual_seed(0)
    sizes = {}
    for length in (8, 400):
        folder = tmp_path / str(length)
        folder.mkdir()
        path = exporters.FORMATS[name](Both().eval(), {"ids": torch.randint(0, VOCAB, (BATCH, length))}, folder / "model")
        tools.tool("compile", path, "-o", folder / "plan", "--mode", "forward", "--threads", 1)
        sizes[length] = (folder / "plan").stat().st_size
    assert sizes[400] <= sizes[8] + 2048, sizes
