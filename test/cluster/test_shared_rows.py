"""Each row of the tables of training saves, over machines that share its ranks out, the bytes that one machine saves."""

import cases
import jobs
import pipelines
import pytest
import sampling
import tools
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
