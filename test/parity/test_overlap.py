"""When collectives start changes no bit."""

import pytest
import torch

import tools
from cases import GPT2_SEQUENCE, LLAMA_TENSOR
from tools import Case

ADAMW = "adamw(lr=1e-2,weight_decay=0.1)"
CASES = [
    Case("gpt2", "data=2"), Case("gpt2", "data=2", microbatches=4, zero=2), Case("gpt2", "data=2", microbatches=4, zero=3),
    Case("gpt2", "data=2,tensor=2", GPT2_SEQUENCE, microbatches=2, zero=3),
    Case("llama", "data=2,tensor=2", LLAMA_TENSOR, microbatches=4),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_overlap_and_prefetch_change_no_bit(case, exported, dataset, tmp_path):
    data, runs, started = dataset(case.model, case.microbatches), [], []
    for options in (("--overlap", "off"), (), ("--prefetch", 0), ("--prefetch", 5)):
        case.notes(exported(case.model), tmp_path / "plan", ADAMW, *options)
        started.append(sum(entry["started"] for entry in tools.inspect(tmp_path / "plan")["communication"]))
        runs.append(tools.train(tmp_path / "plan", data, 3, tmp_path / "run"))
        if started[-1]:  # by threads of their own, too
            runs.append(tools.train(tmp_path / "plan", data, 3, tmp_path / "run", "--comm-threads", 2))
    assert started[0] == 0 < started[1]
    for run in runs[1:]:
        assert run.losses == runs[0].losses
        for name, tensor in runs[0].tensors.items():
            assert torch.equal(tensor, run.tensors[name]), name


def test_a_plan_does_not_grow_with_its_microbatches(exported, tmp_path):
    """docs/time.md: of 64 it has at most 1.1 times the size of that of four."""
    sizes = []
    for microbatches in (4, 64):
        Case("gpt2", "data=2", microbatches=microbatches, zero=1).notes(exported("gpt2"), tmp_path / "plan", ADAMW)
        sizes.append((tmp_path / "plan").stat().st_size)
    assert sizes[1] <= 1.1 * sizes[0]


@pytest.mark.parametrize("options, says", [
    (("--overlap", "off", "--prefetch", 2), "needs --overlap on"),
    (("--rates", "fast"), "--rates: 'fast' is not compute=GFLOPS,memory=GB_PER_S, as in compute=120,memory=16"),
    (("--rates", "compute=120"), "is not compute=GFLOPS,memory=GB_PER_S"),
    (("--rates", "compute=120,compute=16"), "is not compute=GFLOPS,memory=GB_PER_S"),
    (("--rates", "compute=120,reads=16"), "is not compute=GFLOPS,memory=GB_PER_S"),
    (("--rates", "compute=120,memory=16", "--rates", "1:1"), "--rates"),
    (("--rates", "compute=1e9,memory=16"), "from 1e-3 to 1e7 GFLOP/s"),
    (("--rates", "0:16"), "from 1e-3 to 1e7 GFLOP/s"),
])
def test_what_cannot_be_meant_is_refused(options, says, exported, tmp_path):
    case = Case("mlp", "data=2")
    _, error = tools.tool("compile", exported("mlp"), "-o", tmp_path / "plan", "--mesh", case.mesh, "--loss",
                          case.spec.lossOption, *options, code=1)
    assert says in error
    assert not (tmp_path / "plan").exists()
