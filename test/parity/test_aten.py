"""Each operator of the table of PyTorch's, through a .pt2 file, against PyTorch: its results and its gradients.

The cases of a family (aten_cases.py) are one module, so that they are compiled and run together.
"""

import json
import pickle
import subprocess
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

import shared
import tools
from aten_case import FEEDS
from aten_cases import FAMILIES
from reference import GRADIENT_RATE


class Family(nn.Module):
    """All cases of a family: their results by name, and the weighted sum of all that have a gradient."""

    def __init__(self, cases):
        super().__init__()
        self.cases, self.feeds = cases, {}
        self.values = nn.ParameterDict()
        for number, (name, case) in enumerate(cases.items()):
            for i, (kind, value) in enumerate(case.operands):
                key = f"c{number}_{i}"
                if kind == "float":
                    self.values[key] = nn.Parameter(value.clone())
                elif kind == "known":
                    self.register_buffer(key, value, persistent=False)
                else:
                    self.feeds[key] = value

    def forward(self, x, feeds):
        results, total = {}, x.sum() * 0
        for number, (name, case) in enumerate(self.cases.items()):
            operands = [
                self.values[key] if kind == "float" else feeds[key] if kind == "fed" else getattr(self, key)
                for i, (kind, _) in enumerate(case.operands)
                for key in (f"c{number}_{i}",)
            ]
            result = case.call(*operands)
            # What is computed is no batch: each sample has all of it.
            results[f"r{number}"] = result.reshape(1, -1).expand(FEEDS, -1)
            if case.gradient:
                weights = torch.arange(result.numel(), dtype=torch.float32).reshape(result.shape).mul(1.7).cos()
                total = total + (result * weights.to(result.dtype)).sum()
        results["loss"] = total
        return results

    def batch(self):
        return {"x": torch.zeros(FEEDS, 1)} | self.feeds


class Export:
    """A family in a file, and what it is fed with."""

    def __init__(self, family, folder):
        self.module = Family(FAMILIES[family])
        self.path, self.arrays = folder / "model.pt2", folder / "in.npz"

    def write(self):
        batch = self.module.batch()
        program = torch.export.export(self.module, (batch["x"], {k: v for k, v in batch.items() if k != "x"}))
        torch.export.save(program, self.path)
        arrays = {}
        for spec, value in zip(self.userInputs(), [batch["x"], *[batch[k] for k in batch if k != "x"]]):
            arrays[spec] = value.numpy()
        np.savez(self.arrays, **arrays)

    def program(self):
        with zipfile.ZipFile(self.path) as file:
            return json.loads(file.read(next(n for n in file.namelist() if "/models/" in n)))

    def userInputs(self):
        return [
            spec["user_input"]["arg"]["as_tensor"]["name"]
            for spec in self.program()["graph_module"]["signature"]["input_specs"]
            if "user_input" in spec
        ]


def exportOf(family):
    """The family, exported once in a run."""
    def write(folder):
        Export(family, folder).write()

    return Export(family, shared.made(f"aten-{family}", write))


class Results:
    """What a family that was compiled and run gave, and PyTorch gives: results and gradients by case."""

    def __init__(self, family, folder):
        export = exportOf(family)
        cases = FAMILIES[family]
        tools.tool("compile", export.path, "-o", folder / "forward.plan", "--mode", "forward", "--threads", 1)
        tools.tool("run", folder / "forward.plan", "--inputs", export.arrays, "--outputs", folder / "out.npz")
        self.ours = dict(np.load(folder / "out.npz"))
        batch = export.module.batch()
        self.theirs = {name: value.detach().numpy()
                       for name, value in export.module(batch["x"], {k: v for k, v in batch.items() if k != "x"}).items()}
        self.gradients = self.gradientsOf(export, family, folder) if any(c.gradient for c in cases.values()) else {}

    @staticmethod
    def gradientsOf(export, family, folder):
        """Ours and PyTorch's in fp64, by parameter."""
        tools.tool(
            "compile",
            export.path,
            "-o",
            folder / "train.plan",
            "--loss",
            "output(loss)",
            "--threads",
            1,
            "--optimizer",
            f"sgd(lr={GRADIENT_RATE:.0f})",
            *(("--batch-norm", "frozen") if family == "stored" else ()),
        )
        run = tools.train(folder / "train.plan", export.arrays, 1, folder / "run")
        exact = Family(FAMILIES[family]).double()
        batch = exact.batch()
        exact(batch["x"].double(), {k: v for k, v in batch.items() if k != "x"})["loss"].backward()
        return {
            name.removeprefix("values."): (
                (export.module.state_dict()[name].double() - run.tensors[name].double()) / GRADIENT_RATE,
                # A copy, since what PyTorch knows to be zero has no elements that could be stored.
                torch.zeros_like(p) if p.grad is None else torch.zeros_like(p).copy_(p.grad),
            )
            for name, p in exact.named_parameters()
        }


@pytest.fixture(scope="module")
def runs():
    made = {}

    def run(family, folder):
        try:
            result = Results(family, folder)
        except (AssertionError, RuntimeError) as error:
            result = RuntimeError(str(error))  # once for all of its tests
        (folder / "results").write_bytes(pickle.dumps(result))

    def get(family):
        if family not in made:
            folder = shared.made(f"aten-results-{family}", lambda folder: run(family, folder))
            made[family] = pickle.loads((folder / "results").read_bytes())
        if isinstance(made[family], Exception):
            raise made[family]
        return made[family]

    return get


# Of TorchScript's numbers, lists and dicts; what draws random numbers (test_dropout.py shows how these are compared); of
# programs that were decomposed; other names of what is compared; of recurrent layers (test_recurrent.py).
ELSEWHERE = set("""
    Bool Float FloatImplicit Int IntImplicit ScalarImplicit __contains__ __getitem__ __is__ __isnot__ __not__ _set_item append clear copy extend
    floordiv get insert is_complex is_contiguous is_floating_point is_nonzero items keys len list numel pop reverse size stride dim tensor values
    warn conj equal sym_numel sym_stride _local_scalar_dense bernoulli bernoulli_ dropout dropout_ feature_dropout feature_dropout_ normal_ rand
    rand_like randn randn_like uniform_ _adaptive_avg_pool2d _adaptive_avg_pool3d _assert_async _conj _convolution_mode _log_softmax
    _reshape_alias _softmax _to_copy _unsafe_view _weight_norm alias_copy detach_copy concatenate cpu cuda pin_memory requires_grad_ resolve_conj
    resolve_neg lift_fresh nll_loss nll_loss2d nonzero_numpy norm reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
    replication_pad2d replication_pad3d row_stack sym_constrain_range sym_constrain_range_for_size tril_indices triu_indices
    _embedding_bag _embedding_bag_forward_only unsafe_split_with_sizes native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit
    _native_batch_norm_legit_no_training _native_batch_norm_legit_functional max_pool2d_with_indices max_pool3d_with_indices
    _pack_padded_sequence _pad_packed_sequence ctc_loss embedding_renorm_ gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell gelu_ relu6_
    """.split())


def test_every_operator_of_the_table_is_in_some_case():
    table = subprocess.run([tools.bin() / "aten-table"], capture_output=True, text=True, check=True).stdout
    operators = {line.split("`")[1] for line in table.splitlines() if line.startswith("| `aten::")}
    used = set()

    def collect(graph):
        for node in graph["nodes"]:
            used.add("aten::" + node["target"].removeprefix("torch.ops.aten.").split(".")[0])
            for argument in node["inputs"]:
                if "as_graph" in argument["arg"]:
                    collect(argument["arg"]["as_graph"]["graph"])

    for family in FAMILIES:
        collect(exportOf(family).program()["graph_module"]["graph"])
    missing = operators - used - {f"aten::{name}" for name in ELSEWHERE}
    assert not missing, sorted(missing)


EACH = [(family, name) for family, cases in FAMILIES.items() for name in cases]


@pytest.mark.parametrize("family, name", EACH, ids=[f"{f}-{n}" for f, n in EACH])
def test_operator_gives_pytorchs_results(runs, family, name):
    run = runs(family)
    number = list(FAMILIES[family]).index(name)
    case = FAMILIES[family][name]
    ours, theirs = run.ours[f"r{number}"][0], run.theirs[f"r{number}"][0]
    assert ours.shape == theirs.shape
    if theirs.dtype.kind == "f":
        assert ours.dtype == np.float32
        np.testing.assert_allclose(
            ours,
            theirs,
            rtol=case.tolerance,
            atol=case.tolerance * max(1e-3, np.abs(theirs[np.isfinite(theirs)]).max(initial=0)),
        )
    else:
        np.testing.assert_array_equal(ours.astype(theirs.dtype), theirs)
        assert ours.dtype.itemsize >= theirs.dtype.itemsize  # narrow integers are held in wider ones


DIFFERENTIABLE = [(family, name) for family, name in EACH if FAMILIES[family][name].gradient]


@pytest.mark.parametrize("family, name", DIFFERENTIABLE, ids=[f"{f}-{n}" for f, n in DIFFERENTIABLE])
def test_operator_gives_pytorchs_gradients(runs, family, name):
    run = runs(family)
    number = list(FAMILIES[family]).index(name)
    for i, (kind, value) in enumerate(FAMILIES[family][name].operands):
        if kind != "float":
            continue
        ours, theirs = run.gradients[f"c{number}_{i}"]
        size = max(theirs.norm().item(), 1e-2)
        assert (ours - theirs).norm().item() <= 1e-4 * size, (i, ours, theirs)
