"""The module `polyrank`: what it exports, compiles and trains is PyTorch's, and its errors are the tools'."""

import ast
import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import reference
import tools
from models import BATCH, MODELS

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import polyrank  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.setenv("POLYRANK_BIN", str(tools.bin().resolve()))
    monkeypatch.chdir(tmp_path)


def small():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


EXAMPLE = (torch.zeros(8, 4),)
LOSS = {"loss": "mse(output,target)", "threads": 1}


def data():
    generator = torch.Generator().manual_seed(1)
    return {"input": torch.randn(24, 4, generator=generator), "target": torch.randn(24, 2, generator=generator)}


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    os.environ.setdefault("POLYRANK_BIN", str(tools.bin().resolve()))
    return polyrank.compile(small(), tmp_path_factory.mktemp("plan") / "small.plan", example=EXAMPLE, mesh="data=2",
                            optimizer="sgd(lr=0.1)", **LOSS)


def test_training_is_pytorchs(plan):
    run = polyrank.train(plan, data(), steps=6, order="sequential")
    losses = [record["loss"] for record in run if "step" in record]
    model, batches = small(), data()
    update = torch.optim.SGD(model.parameters(), lr=0.1)
    theirs = []
    for step in range(6):
        rows = slice(step % 3 * 8, step % 3 * 8 + 8)
        update.zero_grad()
        loss = torch.nn.functional.mse_loss(model(batches["input"][rows]), batches["target"][rows])
        loss.backward()
        update.step()
        theirs.append(loss.item())
    assert losses == pytest.approx(theirs, rel=1e-5)
    trained = run.state_dict()
    assert list(trained) == sorted(model.state_dict())
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(trained[name], tensor, rtol=1e-5, atol=1e-6)
    model.load_state_dict(trained, strict=True)


def test_a_loader_is_data(plan):
    """A DataLoader in this process, and one that fails."""
    rows = torch.utils.data.TensorDataset(*data().values())
    batches = torch.utils.data.DataLoader(rows, batch_size=6)
    steps = [record["loss"] for record in polyrank.train(plan, ({"input": x, "target": y} for x, y in batches)) if "step" in record]
    expected = [record["loss"] for record in polyrank.train(plan, data(), steps=3, order="sequential") if "step" in record]
    assert steps == expected
    listed = [{name: value[at:at + 8] for name, value in data().items()} for at in (0, 8, 16)]
    assert [record["loss"] for record in polyrank.train(plan, listed) if "step" in record] == expected
    for wrong, kind in ((3, "int"), ([torch.zeros(8, 4)], "Tensor"), ([listed[0], "data.npz"], "dict")):
        with pytest.raises(polyrank.Error, match=f"data names files, is a dict of arrays, or a loader .* here is a {kind}"):
            polyrank.train(plan, wrong, steps=1)

    def broken(first):
        yield {"input": data()["input"][:8], "target": data()["target"][:8]}
        raise ValueError("no such file")

    with pytest.raises(ValueError, match="no such file"):
        polyrank.train(plan, broken, steps=3).wait()
    with pytest.raises(ZeroDivisionError):  # at once, and not after --data-timeout
        polyrank.train(plan, lambda first: 1 / 0, steps=3).wait()


def test_a_file_of_the_parity_tests_trains_as_by_the_tools(exported, dataset):
    plan = polyrank.compile(exported("mlp"), "mlp.plan", mesh="data=2", optimizer="sgd(lr=0.5)", threads=1,
                            loss="cross_entropy(logits,labels)")
    run = polyrank.train(plan, dataset("mlp", 1), steps=3, order="sequential", save="weights.safetensors")
    losses = [record["loss"] for record in run if "step" in record]
    batches, model = MODELS["mlp"].data(1), MODELS["mlp"].fresh()
    first = MODELS["mlp"].lossOf(model, reference.globalBatch(batches, 0, 1)).item()
    assert losses[0] == pytest.approx(first, rel=1e-5) and len(losses) == 3 and BATCH == 8
    by = tools.train("mlp.plan", dataset("mlp", 1), 3, Path("tool"))
    assert losses == by.losses
    assert run.weights == Path("weights.safetensors") and run.weights.read_bytes() == by.weights.read_bytes()


def test_a_plan_knows_its_memory_and_time(plan):
    report = tools.inspect(plan.path)
    assert plan.report == report and plan.ranks == 2
    assert plan.memory == report["memory_per_rank"]["total"] > 0
    assert plan.seconds == report["seconds_per_step"] > 0
    assert f"'{plan.path}': 2 ranks (data=2), " in repr(plan) and "ms a step as planned" in repr(plan)
    assert "splits the batch" in plan.messages
    assert polyrank.Plan(plan.path).report == report


def test_files_of_a_plan_without_a_path_live_as_long_as_it():
    plan = polyrank.compile(small(), example=EXAMPLE, mode="forward", threads=1)
    folder = plan.path.parent
    assert sorted(path.name for path in folder.iterdir()) == ["model.plan", "model.pt2"]
    del plan
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize("name", ["m.pt2", "m.onnx", "m.pt"])
def test_export_writes_what_compiles(name):
    assert polyrank.export(small(), EXAMPLE, name) == Path(name)
    assert "0.weight" in tools.tool("compile", name, "--describe")[0]


def test_the_batch_is_open_unless_it_is_fixed():
    polyrank.export(small(), {"input": EXAMPLE[0]}, "open.pt2")
    polyrank.export(small(), EXAMPLE[0], "fixed.pt2", batch="fixed")
    dims = [json.loads(tools.tool("compile", name, "--describe", "--json")[0])["inputs"][0]["dims"] for name in ("open.pt2", "fixed.pt2")]
    assert isinstance(dims[0][0], str) and dims[1] == [8, 4]
    plan = polyrank.compile("open.pt2", "p", dim={dims[0][0]: 16}, mode="forward", threads=1)
    assert plan.report["samples_per_step"] == 16


class Undecided(torch.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize("arguments, options, message", [
    ((small(), EXAMPLE, "m.h5"), {}, "'m.h5' ends with '.h5', which is no format: use .onnx, .pt2, .pt"),
    ((small(), EXAMPLE, "m.pt2"), {"batch": "free"}, "batch is 'open' or 'fixed', not 'free'"),
    ((small(), EXAMPLE, "m.onnx"), {"decompose": True}, "decompose is for .pt2 files, not for 'm.onnx'"),
    ((small(), 3, "m.pt2"), {}, "the example is a int, not a tensor"),
    ((small(), (3,), "m.pt2"), {}, "the example inputs are not all tensors: one is a int"),
    ((small(), (torch.zeros(8, 4), torch.zeros(4)), "m.pt2"), {}, "differ in their first dim, which is no batch then; give batch='fixed'"),
    ((Undecided(), EXAMPLE, "m.pt2"), {}, "PyTorch cannot export the model as pt2"),
])
def test_export_refuses(arguments, options, message):
    with pytest.raises(polyrank.Error) as caught:
        polyrank.export(*arguments, **options)
    assert message in str(caught.value) and caught.value.code is None and not Path(arguments[2]).exists()


def refused(*args):
    """The tool's own text."""
    return tools.tool(*args, code=1)[1].strip()


def test_errors_of_the_compiler_are_exceptions():
    polyrank.export(small(), EXAMPLE, "m.pt2", batch="fixed")
    with pytest.raises(polyrank.Error) as caught:
        polyrank.compile("m.pt2", "p", loss="mse(outptu,target)")
    assert str(caught.value) == refused("compile", "m.pt2", "-o", "p", "--loss", "mse(outptu,target)")
    assert "nearest: 'output'" in str(caught.value) and caught.value.code == 1
    with pytest.raises(polyrank.Error, match="there is no option '--optimiser'; nearest: '--optimizer'"):
        polyrank.compile("m.pt2", "p", optimiser="sgd(lr=1)")
    with pytest.raises(polyrank.Error, match="a module .Sequential. is exported with example inputs: give example="):
        polyrank.compile(small(), "p")
    with pytest.raises(polyrank.Error, match="example= is for a module, and 'm.pt2' is a file"):
        polyrank.compile("m.pt2", "p", example=EXAMPLE)
    Path("text").write_text("no plan")
    with pytest.raises(polyrank.Error, match="text"):
        polyrank.Plan("text")


def test_errors_of_a_run_are_exceptions(plan):
    run = polyrank.train(plan, "no.npz", steps=1)
    with pytest.raises(polyrank.Error) as caught:
        list(run)
    assert str(caught.value) == refused("run", plan.path, "--data", "no.npz", "--steps", 1, "--save", "w") and caught.value.code == 1
    with pytest.raises(polyrank.Error, match="no.npz"):  # and again, from each that needs the end
        run.state_dict()
    with pytest.raises(polyrank.Error, match="value nan|NaN") as caught:
        polyrank.train(plan, {"input": torch.full((8, 4), torch.nan), "target": torch.zeros(8, 2)}, steps=1).wait()
    assert caught.value.code == 6
    for name in ("log", "json"):
        with pytest.raises(polyrank.Error, match=f"{name}= is not for train"):
            polyrank.train(plan, data(), steps=1, **{name: "a"})


def test_what_is_not_there_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("POLYRANK_BIN", str(tmp_path))
    with pytest.raises(polyrank.Error, match=f"cannot start {tmp_path}/polyrank-inspect: No such file or directory"):
        polyrank.Plan("p")
    monkeypatch.delenv("POLYRANK_BIN")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(polyrank.Error, match="there is no polyrank-inspect: .* POLYRANK_BIN names its folder"):
        polyrank.Plan("p")
    monkeypatch.setenv("PATH", str(tools.bin().resolve()))
    with pytest.raises(polyrank.Error, match="'?p'?"):
        polyrank.Plan("p")


def endless(plan):
    """A run of which two steps are done, and many are not."""
    run = polyrank.train(plan, data(), steps=10**9)
    records = iter(run)
    while next(records).get("step") != 2:
        pass
    return run, records


def test_the_log_comes_while_the_run_goes_on(plan):
    run, records = endless(plan)
    assert run.report is None and next(records)["step"] == 3
    run.stop()
    with pytest.raises(polyrank.Error) as caught:
        run.wait()
    assert caught.value.code == 2 and "interrupted by signal 15" in str(caught.value)
    assert [record["step"] for record in run.records if "step" in record][:3] == [1, 2, 3]
    assert run.report["status"] == "error"


@pytest.fixture
def interruptible():
    """Interrupts are heard, also where the tests run in the background of a shell, which ignores them there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_the_run(plan, monkeypatch, interruptible):
    run, records = endless(plan)
    # The signal reaches this process alone, as in a notebook, while it waits for a record.
    monkeypatch.setattr(run._streams, "has", lambda number: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        next(records)
    with pytest.raises(polyrank.Error, match="interrupted by signal 2 "):
        run.wait()


def test_a_run_that_nothing_holds_is_ended(plan, capfd):
    run, records = endless(plan)
    process = run._streams.process
    del run, records
    gc.collect()
    assert process.poll() is not None
    assert "the run is ended, since nothing holds what train() returned" in capfd.readouterr().err


def test_options_are_those_of_the_tools():
    from polyrank._tools import arguments

    assert arguments({"lr_schedule": "constant", "quiet": True, "no_tie": False, "seed": None, "steps": 3,
                      "data": ["a", Path("b")], "shard": {"*.w": "[-,tensor]", "x": "[data]"}}) == [
        "--lr-schedule=constant", "--quiet", "--steps=3", "--data=a", "--data=b", "--shard=*.w=[-,tensor]", "--shard=x=[data]"]


def test_the_version_is_that_of_the_tools():
    assert f"polyrank-run {polyrank.__version__} " in tools.tool("run", "--version")[0]


def test_the_module_alone_needs_no_pytorch():
    code = "import sys; sys.modules['torch'] = None; import polyrank; print(polyrank.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert done.stdout.strip() == polyrank.__version__, done


def test_the_cells_of_the_notebook_run(capsys):
    """As a notebook runs them: one namespace, and the last expression of a cell is shown."""
    shown, names = [], {"__name__": "__main__"}
    for cell in json.loads((ROOT / "docs/first-run.ipynb").read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "first-run.ipynb", "exec"), names)
        if last and (value := eval(compile(last, "first-run.ipynb", "eval"), names)) is not None:
            shown.append(value)
    assert repr(shown[0]).startswith("<polyrank plan") and " bytes on each of 2 ranks" in shown[1] and shown[2] > 0.8
    assert names["losses"][-1] < 0.5 * names["losses"][0]
    assert "error: " in (printed := capsys.readouterr().out) and "batch of 32" in printed
