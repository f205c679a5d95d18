"""A device and a communicator that work in the background, in any order that events allow, compute the same bits.

`runtime-queued-run` is polyrank-run with such parts (test/runtime/queued): each task waits on its queue, after its events, for
a drawn time.
"""

import pytest
import torch

import pipelines
import sampling
import tools
from cases import CASES, STAGES


@pytest.fixture
def seeds(request):
    """Of the delays: two, with --all five."""
    return range(1, 6 if request.config.getoption("--all") else 3)


def valuesOf(case):
    return {("zero", case.zero, case.microbatches > 1), *(axis.split("=")[0] for axis in case.mesh.split(",")),
            ("sequence", "-sequence" in str(case))}


@pytest.fixture
def queued(tmp_path, monkeypatch):
    """Lets the tools run on such a device, with delays of this seed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("compile", "inspect"):
        (folder / f"polyrank-{tool}").symlink_to(tools.bin() / f"polyrank-{tool}")
    (folder / "polyrank-run").symlink_to(tools.bin() / "runtime-queued-run")

    def use(seed):
        monkeypatch.setenv("POLYRANK_BIN", str(folder))
        monkeypatch.setenv("POLYRANK_QUEUE_SEED", str(seed))

    return use


def expectEqual(expected, run, seed):
    assert run.losses == expected.losses, seed
    for name, tensor in expected.tensors.items():
        assert torch.equal(tensor, run.tensors[name]), (seed, name)


@pytest.mark.parametrize("case", sampling.rows(CASES + STAGES, valuesOf))
def test_every_row_has_the_bits_of_the_cpu(case, exported, dataset, tmp_path, queued, seeds):
    case.notes(exported(case.model), tmp_path / "plan", "adamw(lr=1e-2,weight_decay=0.1)")
    data = dataset(case.model, case.microbatches)
    expected = tools.train(tmp_path / "plan", data, 2, tmp_path / "cpu")
    for seed in seeds:
        queued(seed)
        expectEqual(expected, tools.train(tmp_path / "plan", data, 2, tmp_path / "queued"), seed)


@pytest.mark.parametrize("case", sampling.rows(pipelines.PIPELINES, lambda case: {case.schedule, case.size("pipe")}))
def test_every_pipeline_has_the_bits_of_the_cpu(case, exported, dataset, tmp_path, queued, seeds):
    plan = case.compile(exported(case.model), tmp_path / "plan", "adamw(lr=1e-3)")
    data = dataset(case.model, case.microbatches)
    expected = tools.train(plan, data, 2, tmp_path / "cpu")
    for seed in seeds:
        queued(seed)
        expectEqual(expected, tools.train(plan, data, 2, tmp_path / "queued"), seed)


def test_what_follows_a_step_waits_for_it(exported, dataset, tmp_path, queued, seeds):
    """A checkpoint and an evaluation after each step, whose weights come back; and a run that goes on from the checkpoint."""
    case = next(case for case in STAGES if case.model == "gpt2" and case.zero == 3)
    case.notes(exported(case.model), tmp_path / "plan", "adamw(lr=1e-2,weight_decay=0.1)")
    data = dataset(case.model, case.microbatches)

    def train(out, steps):
        more = ("--checkpoint", tmp_path / out, "--every", 1, "--eval-every", 1, "--eval-data", data)
        tools.tool("run", tmp_path / "plan", "--data", data, "--steps", steps, "--order", "sequential", "--resume", "auto",
                   "--log", tmp_path / f"{out}.jsonl", "--save", tmp_path / f"{out}.safetensors", *more)
        log = tools.recordsOf(tmp_path / f"{out}.jsonl")
        values = [each[key] for each in log for key in ("loss", "eval_loss") if key in each]
        return tools.Run(tools.stepsOf(tmp_path / f"{out}.jsonl"), tmp_path / f"{out}.safetensors"), values

    expected, values = train("cpu", 3)
    for seed in seeds:
        queued(seed)
        train(f"queued{seed}", 2)
        run, again = train(f"queued{seed}", 3)
        assert again == values, seed
        for name, tensor in expected.tensors.items():
            assert torch.equal(tensor, run.tensors[name]), (seed, name)
