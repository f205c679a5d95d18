"""Each row of the tables of training saves, over machines that share its ranks out, the bytes that one machine saves; and what crosses
machines is what the compiler says."""

import json

import cases
import jobs
import pipelines
import pytest
import sampling
import tools
import torch
from cases import CASES, STAGES
from jobs import DONE
from models import MODELS
from test_shared import share

STEPS = 2


def rowsOver(count, table, values):
    return sampling.rows([case for case in table if case.ranks % count == 0], values)


def valuesOf(case):
    return {("zero", case.zero, case.microbatches > 1), *(axis.split("=")[0] for axis in case.mesh.split(",")),
            ("sequence", "-sequence" in str(case))}


ROWS = rowsOver(2, CASES + STAGES, valuesOf)
PIPELINES = rowsOver(2, pipelines.PIPELINES, lambda case: {case.schedule})
FOUR = rowsOver(4, CASES + STAGES + pipelines.PIPELINES, lambda case: {"four machines"})


@pytest.fixture(scope="session")
def filesOf(shared):
    """Case -> the plan and the data, in a folder that all machines see."""
    def get(case):
        folder = shared / "rows" / case.model
        onnx, data = folder / "model.onnx", folder / f"{case.microbatches}.npz"
        plan = folder / f"{case}.plan"
        folder.mkdir(parents=True, exist_ok=True)
        if not onnx.exists():
            MODELS[case.model].export(onnx)
        if not data.exists():
            tools.saveData(data, MODELS[case.model].data(case.microbatches))
        if not plan.exists():
            case.notes(onnx, plan, "adamw(lr=1e-3,weight_decay=0.01)")
        return {"plan": str(plan.relative_to(shared)), "data": str(data.relative_to(shared)), "steps": STEPS}

    return get


def check(cluster, shared, folder, files):
    job = share(cluster, shared, folder / "run", **files)
    codes = job.end()
    assert codes == [DONE] * len(codes), job.said()
    one = jobs.Node(cluster[0], shared, folder, name="one", **files)
    assert one.end() == DONE, one.said()
    assert job[0].weights.read_bytes() == one.weights.read_bytes()


@pytest.mark.parametrize("case", ROWS + PIPELINES)
def test_two_machines_save_the_bytes_of_one(case, pair, shared, tmp_path, filesOf):
    check(pair, shared, tmp_path, filesOf(case))


@pytest.mark.parametrize("case", FOUR)
def test_four_machines_save_the_bytes_of_one(case, make, shared, tmp_path, filesOf):
    check(make(count=4), shared, tmp_path, filesOf(case))


def sentBy(machine):
    """The bytes that have left a machine."""
    line = next(line for line in machine.run("cat", "/proc/net/dev").splitlines() if line.strip().startswith("eth0:"))
    return int(line.split(":")[1].split()[8])


@pytest.mark.parametrize("name, options", [("sums", ("--zero", 0)), ("parts", ("--zero", 3)), ("sums of bf16", ("--zero", 0, "--precision", "bf16"))])
def test_what_crosses_machines_is_what_the_plan_says(name, options, make, shared, tmp_path):
    """More steps send as many more bytes, but for headers, and for what is said of ranks every half a second."""
    cluster = make()
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 8))
    torch.onnx.export(model, (torch.zeros(8, 64),), tmp_path / "model.onnx", input_names=["x"], output_names=["y"], dynamo=True, verbose=False)
    data, plan = tmp_path / "data.npz", tmp_path / "wide.plan"
    tools.saveData(data, {"x": torch.randn(64, 64), "labels": torch.randint(8, (64,))})
    tools.tool("compile", tmp_path / "model.onnx", "-o", plan, "--mesh", "data=2", *options, "--loss", "cross_entropy(y,labels)",
               "--optimizer", "sgd(lr=0.001)")
    planned = json.loads(tools.tool("inspect", plan, "--machines", 2, "--json")[0])["machines"]["bytes_out_of_machine"]
    sent = []
    for steps in (4, 24):
        before = [sentBy(machine) for machine in cluster]
        job = share(cluster, shared, tmp_path / f"{steps}", plan=str(plan.relative_to(shared)), data=str(data.relative_to(shared)), steps=steps)
        assert job.end() == [DONE, DONE], job.said()
        sent.append([sentBy(machine) - earlier for machine, earlier in zip(cluster, before)])
    for machine, bytes in enumerate(planned):
        measured = (sent[1][machine] - sent[0][machine]) / 20
        assert bytes < measured < 1.1 * bytes, (name, machine, planned, sent)
