"""A run whose samples come from a program of the user's: the same bits as from a file, and a clear message for what is wrong."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save

import tools
from models import MODELS
from tools import tool

PYTHON = Path(__file__).parents[2] / "python"
SAMPLES, BATCH, STEPS = 96, 8, 12


@pytest.fixture(scope="module", autouse=True)
def module():
    """The commands of feeds find the module polyrank."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(PYTHON), before)))
    yield
    os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = torch.nn.Linear(6, 16), torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """A plan on two ranks, and a file of samples."""
    folder = tmp_path_factory.mktemp("feed")
    program = torch.export.export(Net(), (torch.zeros(BATCH, 6),))
    torch.export.save(program, folder / "net.pt2")
    tool("compile", folder / "net.pt2", "-o", folder / "plan", "--mesh", "data=2", "--loss", "mse(output,target)",
         "--optimizer", "adamw(lr=0.01)")
    random = np.random.default_rng(0)
    np.savez(folder / "data.npz", x=random.normal(size=(SAMPLES, 6)).astype(np.float32),
             target=random.normal(size=(SAMPLES, 4)).astype(np.float32))
    return folder


HEAD = """
import os, sys, time
import numpy as np
import polyrank
data = dict(np.load({path!r}))
def batches(first=0, rows=5):
    while first < len(data["x"]):
        yield {{name: array[first:first + rows] for name, array in data.items()}}
        first += rows
"""


def loader(folder, body, name="loader.py"):
    """The --data of a program with this end."""
    path = folder / name
    path.write_text(HEAD.format(path=str(next(p for p in (folder / "data.npz", folder.parent / "data.npz") if p.exists()))) + body)
    return f"command:{sys.executable} {path}"


@pytest.fixture
def folder(net, tmp_path):
    (tmp_path / "data.npz").symlink_to(net / "data.npz")
    return tmp_path


def run(net, data, *options, code=0):
    return tool("run", net / "plan", "--data", data, *options, code=code)


@pytest.fixture(scope="module")
def expected(net):
    """The weights of a run over the file."""
    run(net, net / "data.npz", "--order", "sequential", "--steps", STEPS, "--save", net / "file.safetensors")
    return load_file(net / "file.safetensors")


def same(path, expected):
    weights = load_file(path)
    return weights.keys() == expected.keys() and all(np.array_equal(weights[name], expected[name]) for name in expected)


def test_a_feed_is_the_file_that_it_reads(net, folder, expected):
    """The blocks have 5 rows and the steps 8; without --steps the run ends with the feed."""
    save_to = ("--save", folder / "w.safetensors")
    _, said = run(net, loader(folder, "polyrank.feed(batches)"), "--steps", STEPS, *save_to)
    assert same(folder / "w.safetensors", expected)
    _, said = run(net, loader(folder, "print('begins'); polyrank.feed(batches())"), *save_to, "--log", folder / "log",
                  "--checkpoint", folder / "c")
    assert same(folder / "w.safetensors", expected) and "feed: begins" in said
    assert f"has ended after {SAMPLES} samples; so does the run" in said
    assert [record["step"] for record in tools.stepsOf(folder / "log")] == list(range(1, STEPS + 1))
    assert [path.name for path in (folder / "c").iterdir() if path.name.startswith("step-")] == [f"step-{STEPS:09}"]


def test_a_data_loader_of_pytorch_with_workers(net, folder, expected):
    body = """
import torch
from torch.utils.data import DataLoader, TensorDataset
data = [torch.from_numpy(data[name]) for name in ("x", "target")]
polyrank.feed(DataLoader(TensorDataset(*data), batch_size=16, num_workers=2), names=("x", "target"))
"""
    run(net, loader(folder, body), "--steps", STEPS, "--save", folder / "w.safetensors")
    assert same(folder / "w.safetensors", expected)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv"])
def test_columns_of_tables(net, folder, expected, kind):
    pyarrow = pytest.importorskip("pyarrow")
    data = dict(np.load(net / "data.npz"))
    table = pyarrow.table({name: list(array) for name, array in data.items()})
    path = folder / f"rows.{kind}"
    if kind == "parquet":
        from pyarrow import parquet

        parquet.write_table(table, path, row_group_size=20)
    elif kind == "arrow":
        with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as writer:  # as datasets writes
            writer.write_table(table, max_chunksize=20)
    else:
        path.write_text("x,y\n1,2\n")
        error = run(net, f"command:{sys.executable} -m polyrank.columns {path}", "--steps", 1, code=1)[1]
        assert "array 'x' of a block has shape [1], but input 'x' takes [SAMPLES,6]" in error
        return
    run(net, f"command:{sys.executable} -m polyrank.columns {path}", "--steps", STEPS, "--save", folder / "w.safetensors")
    assert same(folder / "w.safetensors", expected)


def test_blocks_of_long_rows_are_small(folder, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.syspath_prepend(PYTHON)
    from polyrank import columns

    monkeypatch.setattr(columns, "_BLOCK", 800)
    parquet.write_table(pyarrow.table({"x": [[0.0] * 25] * 10}), folder / "t.parquet")
    parts = list(columns.read([str(folder / "t.parquet")]))
    assert max(len(part["x"]) for part in parts) in (3, 4) and sum(len(part["x"]) for part in parts) == 10


def test_columns_that_are_no_numbers(folder):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"text": ["a", "b"], "nested": [{"a": 1}, {"a": 2}], "some": [1, None], "ragged": [[1], [1, 2]],
                           "holes": [[1, None], [1, 2]], "gone": [None, [1]]})
    parquet.write_table(table, folder / "t.parquet")
    for column, message in (("text", "holds text: polyrank tokenize"), ("nested", "which is no number"),
                            ("some", "has 1 values that are missing (null)"), ("ragged", "has lists of 1 to 2 elements"),
                            ("holes", "has 1 values that are missing (null)"), ("gone", "has 1 rows without a value (null)"),
                            ("none", "has no column 'none'; it has: text, nested, some, ragged")):
        done = subprocess.run([sys.executable, "-m", "polyrank.columns", folder / "t.parquet", "--columns", column],
                              env={**os.environ, "POLYRANK_FEED": "/dev/null"}, capture_output=True, text=True)
        assert done.returncode == 1 and message in done.stderr, done.stderr


def test_columns_are_chosen_by_their_types(folder, monkeypatch):
    """Without --columns those of numbers, also if the file has them as a dictionary."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.syspath_prepend(PYTHON)
    from polyrank import columns

    table = pyarrow.table({"x": pyarrow.array([1, 2, 1]).dictionary_encode(), "text": ["a", "b", "c"], "y": [[True], [False], [True]]})
    with pyarrow.OSFile(str(folder / "t.arrow"), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    (part,) = columns.read([str(folder / "t.arrow")])
    assert part.keys() == {"x", "y"} and part["x"].tolist() == [1, 2, 1] and part["y"].tolist() == [[True], [False], [True]]
    parquet.write_table(pyarrow.table({"text": ["a"], "at": pyarrow.array([0], pyarrow.timestamp("ms"))}), folder / "t.parquet")
    with pytest.raises(columns.Error, match=r"has no column of numbers; it has: text \(string\), at \(timestamp\[ms\]\)"):
        list(columns.read([str(folder / "t.parquet")]))


def test_columns_of_a_damaged_file(folder):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = folder / "t.parquet"
    parquet.write_table(pyarrow.table({"x": list(range(100))}), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(60) + whole[64:])  # the footer is whole, the first page is not
    done = subprocess.run([sys.executable, "-m", "polyrank.columns", path], env={**os.environ, "POLYRANK_FEED": "/dev/null"},
                          capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith(f"polyrank.columns: {path}: "), done.stderr


def test_a_run_goes_on_at_its_sample_or_says_that_it_does_not(net, folder, expected):
    exact, anew = loader(folder, "polyrank.feed(batches)"), loader(folder, "polyrank.feed(batches())", "anew.py")
    skips = loader(folder, "polyrank.feed(batches(), skip=True)", "skips.py")
    steps, checkpoint = ("--steps", 5), ("--checkpoint", folder / "c", "--every", 5)
    run(net, exact, *steps, *checkpoint)
    for data in (exact, skips):
        run(net, data, "--steps", STEPS, "--resume", folder / "c/step-000000005", "--save", folder / "w.safetensors")
        assert same(folder / "w.safetensors", expected)
    _, said = run(net, anew, "--steps", 9, "--resume", folder / "c", "--checkpoint", folder / "c")
    assert "does not go on exactly where it was, and its checkpoints say 'not exact'" in said
    assert json.loads((folder / "c/step-000000009/manifest.json").read_text())["manifest"]["data"]["order"] == "feed, not exact"
    error = run(net, net / "data.npz", "--steps", STEPS, "--resume", folder / "c/step-000000005", code=1)[1]
    assert "it was written with samples of a feed, and this run has them of files" in error


def test_a_rank_that_dies_gets_the_samples_again(net, folder, expected, monkeypatch):
    monkeypatch.setenv("POLYRANK_FAIL", "step.before:rank=1:hit=8:action=kill")
    run(net, loader(folder, "polyrank.feed(batches)"), "--steps", STEPS, "--save", folder / "w.safetensors", "--restarts", 1,
        "--checkpoint", folder / "c", "--every", 3)
    assert same(folder / "w.safetensors", expected)


def test_a_feed_that_dies_is_started_again(net, folder, expected):
    """It ends in the middle of a block at its first start, by a signal."""
    body = """
mark = sys.argv[0] + ".died"
def once(first):
    for number, batch in enumerate(batches(first)):
        if number == 8 and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), 9)
        yield batch
polyrank.feed(once)
"""
    _, said = run(net, loader(folder, body), "--steps", STEPS, "--save", folder / "w.safetensors", "--restarts", 1,
                  "--checkpoint", folder / "c", "--every", 2)
    assert re.search("the command (was killed by signal 9|ended with status 137)", said)  # as the shell has it
    assert same(folder / "w.safetensors", expected)


def test_a_fifo(net, folder, expected):
    os.mkfifo(folder / "fifo")
    program = loader(folder, "polyrank.feed(batches)").removeprefix("command:")
    writer = subprocess.Popen(program, shell=True, env={**os.environ, "POLYRANK_FEED": str(folder / "fifo")})
    run(net, folder / "fifo", "--save", folder / "w.safetensors")
    assert writer.wait() == 0 and same(folder / "w.safetensors", expected)
    error = run(net, folder / "fifo", "--steps", 1, "--data-timeout", 0.5, code=2)[1]
    assert f"the feed '{folder}/fifo': for 0.5 seconds nobody writes to it" in error and "(--data-timeout)" in error
    # A loader that fails at once does not keep the run waiting.
    program = loader(folder, "polyrank.feed(lambda first: 1 / 0)", "fails.py").removeprefix("command:")
    writer = subprocess.Popen(program, shell=True, env={**os.environ, "POLYRANK_FEED": str(folder / "fifo")}, stderr=subprocess.DEVNULL)
    assert "it was closed before the block that ends a feed" in run(net, folder / "fifo", "--steps", 1, code=2)[1]
    assert writer.wait() == 1


MIXED = """
first, last = map(int, sys.argv[1:3])
data = {name: array[first:last] for name, array in data.items()}
"""


def mixture(folder, *bodies):
    """The options of two loaders, of the first and second half of the samples, with weights 3 and 1."""
    options = []
    for number, (body, weight) in enumerate(zip(bodies, (3, 1))):
        command = loader(folder, MIXED + body, f"half{number}.py")
        options += ["--data", f"{command} {number * SAMPLES // 2} {(number + 1) * SAMPLES // 2}:{weight}"]
    return options


def test_feeds_are_mixed_as_files_are(net, folder, expected):
    """The same samples as from two files in order with these weights; a run of another attempt begins each at its own."""
    for number in range(2):
        np.savez(folder / f"half{number}.npz", **{name: array[number * SAMPLES // 2:(number + 1) * SAMPLES // 2]
                                                 for name, array in np.load(net / "data.npz").items()})
    steps = ("--steps", 8)  # the first half is taken once then
    tool("run", net / "plan", "--data", f"{folder}/half0.npz:3", "--data", f"{folder}/half1.npz:1", "--order", "sequential", *steps,
         "--save", folder / "files.safetensors")
    theirs = load_file(folder / "files.safetensors")
    exact = mixture(folder, "polyrank.feed(batches)", "print('the second begins with', polyrank.firstSample())\npolyrank.feed(batches)")
    said = tool("run", net / "plan", *exact, *steps, "--save", folder / "w.safetensors", "--checkpoint", folder / "c", "--every", 3)[1]
    assert same(folder / "w.safetensors", theirs) and "feed 2: the second begins with 0" in said
    said = tool("run", net / "plan", *exact, *steps, "--save", folder / "w.safetensors", "--resume", folder / "c/step-000000003")[1]
    assert same(folder / "w.safetensors", theirs) and "feed 2: the second begins with 6" in said
    # Without --steps the run ends with the first of them that ends.
    said = tool("run", net / "plan", *exact, "--save", folder / "w.safetensors")[1]
    assert same(folder / "w.safetensors", theirs)
    assert "0 48' has ended after 48 samples; so does the run, after the last batch that the feeds have filled" in said
    manifest = json.loads((folder / "c/step-000000003/manifest.json").read_text())["manifest"]["data"]
    assert manifest["order"] == "feed" and manifest["description"].count(" %)") == 2


def test_a_mixture_says_which_feed_is_wrong_and_cannot_go_on(net, folder):
    good, run = "polyrank.feed(batches)", ("run", net / "plan")
    tool(*run, *mixture(folder, good, good), "--steps", 3, "--checkpoint", folder / "c")
    resume = ("--steps", 5, "--resume", folder / "c", "--checkpoint", folder / "c")
    options = mixture(folder, good, good)
    for other in ([*options[:3], options[3].replace(":1", ":2")], [*options[2:], *options[:2]], options[:1] + [options[1][:-2]]):
        assert re.search(r"it was written with samples of the feeds '.*' \(75 %\), '.*' \(25 %\), and this run has them of the feed.*: "
                         "give feeds in the same order, with the same weights", tool(*run, *other, *resume, code=1)[1])
    said = tool(*run, *mixture(folder, good, "polyrank.feed(batches())"), *resume)[1]
    assert re.search(r"the feed '.*half1.py 48 96' does not say with which sample it begins, so the run does not go on exactly", said)
    raises = "def broken(first):\n    yield from [next(batches(first))]\n    raise ValueError('no such image')\npolyrank.feed(broken)"
    error = tool(*run, *mixture(folder, good, raises), "--steps", 8, code=2)[1]
    assert re.search(r"(?s)the feed '[^']*half1.py 48 96': the command ended with status 1; the last lines .*ValueError: no such image", error)
    # What can be mixed has weights, and is a feed.
    for args, message in ((("--data", "command:a:1", "--data", "command:b"), "--data command:b: of several feeds each has a weight after"),
                          (("--data", "command:a:1", "--data", f"{net}/data.npz:1"), "data.npz:1 is not: samples are taken from feeds alone"),
                          (("--data", "command:a:-1", "--data", "command:b:1"), "the weight -1 is not a number above 0")):
        assert message in tool(*run, *args, "--steps", 1, code=1)[1]


class Scaled(Net):
    def forward(self, scale, x):
        return super().forward(x) * scale.sum()


def test_an_input_without_a_batch_has_no_rows(net, folder):
    """Its array comes first, and the blocks have 5 rows."""
    program = torch.export.export(Scaled(), (torch.ones(3), torch.zeros(BATCH, 6)))
    torch.export.save(program, folder / "net.pt2")
    tool("compile", folder / "net.pt2", "-o", folder / "plan", "--mesh", "data=2", "--loss", "mse(output,target)",
         "--optimizer", "adamw(lr=0.01)")
    data = dict(np.load(net / "data.npz"))
    np.savez(folder / "scaled.npz", scale=np.full(3, 0.5, np.float32), **data)
    run(folder, folder / "scaled.npz", "--order", "sequential", "--steps", STEPS, "--save", folder / "file.safetensors")
    body = "def scaled(first):\n    return ({'scale': np.full(3, 0.5), **batch} for batch in batches(first))\n"
    run(folder, loader(folder, body + "polyrank.feed(scaled)"), "--save", folder / "w.safetensors")
    assert same(folder / "w.safetensors", load_file(folder / "file.safetensors"))
    error = run(folder, loader(folder, body + "polyrank.feed(scaled(0), skip=True)"), "--steps", 1, code=2)[1]
    assert "skip=True counts rows, and a batch has {'scale': 3, 'x': 5, 'target': 5}" in error


def test_the_run_ends_and_so_does_the_command(net, folder):
    """A feed without an end, that says how far it has come: not much farther than the run."""
    body = """
def forever():
    for number in range(10**9):
        with open(sys.argv[0] + ".next", "w") as file:
            file.write(str(number))
        os.replace(sys.argv[0] + ".next", sys.argv[0] + ".count")  # it may be ended between any two lines
        yield {name: array[:8] for name, array in data.items()}
polyrank.feed(forever())
open(sys.argv[0] + ".ended", "w").close()
"""
    run(net, loader(folder, body), "--steps", 20)
    # The ring holds four batches, and a pipe of a mebibyte some more.
    count = int((folder / "loader.py.count").read_text())
    assert 20 <= count
    time.sleep(0.3)
    assert int((folder / "loader.py.count").read_text()) == count  # nobody writes any more


BAD = {
    "raises": ("def broken():\n    yield {name: array[:8] for name, array in data.items()}\n    raise ValueError('no such image: 7.jpg')\n"
               "polyrank.feed(broken())", 2,
               r"(?s)the command ended with status 1; the last lines of the command:.*ValueError: no such image: 7.jpg"),
    "half a batch": ("out = open(os.environ['POLYRANK_FEED'], 'wb')\n"
                     "for part in polyrank._feed.block({name: array[:8] for name, array in data.items()})[:2]: out.write(part)", 2,
                     "it ended within a block: after 192 of the 320 bytes of its arrays"),
    "fewer than a batch": ("polyrank.feed([{name: array[:5] for name, array in data.items()}])", 1,
                           "it ended after 5 samples, and a batch has 8; give it more, or compile the plan for a smaller batch"),
    "nothing": ("print('no block')", 1, "it ended after 0 samples, and a batch has 8; a feed writes blocks to the file that POLYRANK_FEED"),
    "another shape": ("polyrank.feed([{'x': data['x'][:8, :5], 'target': data['target'][:8]}])", 1,
                      r"array 'x' of a block has shape \[8,5\], but input 'x' takes \[SAMPLES,6\]"),
    "another type": ("data['x'] = data['x'].astype(np.complex64)\npolyrank.feed(batches())", 2, "'x' holds complex64, which no input takes"),
    "rows of different lengths": ("polyrank.feed([{'x': data['x'][:8], 'target': data['target'][:7]}])", 1,
                                  "a block has 7 rows of 'target', but 8 of 'x'"),
    "NaN": ("data['x'][9, 2] = np.nan\npolyrank.feed(batches())", 1,
            "value nan at element 2 of sample 9 of array 'x', but input 'x' takes no NaN without --allow-nan"),
    "no name": ("polyrank.feed([(data['x'], data['target'])])", 2, "of tuples say the names"),
    "another name": ("polyrank.feed([{'x': data['x'], 'targets': data['target']}])", 1,
                     "has no array 'target' for the input of that name; it has: x, targets; nearest: 'targets'"),
    "text": ("open(os.environ['POLYRANK_FEED'], 'w').write('hello world')", 1, "which are text: what a program prints does not belong"),
    "never": ("time.sleep(100)", 2, r"for 0.5 seconds the command gives nothing \(--data-timeout\)"),
    "stderr without end": ("import threading\nthreading.Thread(target=lambda: [print('noise', file=sys.stderr) for _ in range(10**9)], "
                           "daemon=True).start()\npolyrank.feed([{'x': data['x'][:8], 'target': data['target'][:7]}])", 1, "a block has 7 rows"),
    "not there": (None, 2, r"(?s)the command ended with status 127; the last lines of the command:.*not found"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_wrong_with_a_feed_is_said(net, folder, kind):
    body, code, message = BAD[kind]
    data = "command:no-such-program" if body is None else loader(folder, body)
    timeout = 0.5 if kind == "never" else 60
    error = run(net, data, "--steps", 3, "--data-timeout", timeout, code=code)[1]
    assert re.search(message, error), error[-2000:]
    assert len(error) < 40000


def test_weights_are_saved_as_they_were_before_an_error(net, folder):
    body = "def some():\n    yield {name: array[:24] for name, array in data.items()}\n    raise ValueError\npolyrank.feed(some())"
    error = run(net, loader(folder, body), "--steps", STEPS, "--save", folder / "w.safetensors", code=2)[1]
    assert re.search(r"ValueError\n\(after 3 steps; '.*' has the weights after step 3\)$", error.strip())
    run(net, net / "data.npz", "--order", "sequential", "--steps", 3, "--save", folder / "three.safetensors")
    assert same(folder / "w.safetensors", load_file(folder / "three.safetensors"))


def test_what_a_feed_cannot_be_used_for(net, folder):
    feed = loader(folder, "polyrank.feed(batches)")
    tool("compile", net / "net.pt2", "-o", folder / "forward", "--mode", "forward", "--loss", "mse(output,target)")
    for args, message in (
            (("run", net / "plan", "--data", feed, "--epochs", 2), "excludes --epochs: a feed has no length"),
            (("run", net / "plan", "--data", feed, "--steps", 1, "--holdout", 0.1, "--eval-every", 1), "excludes --holdout"),
            (("run", net / "plan", "--data", feed, "--steps", 1, "--order", "random"), "excludes --order"),
            (("run", net / "plan", "--data", feed, "--steps", 1, "--eos", 0), "excludes options about tokens"),
            (("run", net / "plan", "--data", feed, "--data", net / "data.npz", "--steps", 1), "samples are taken from feeds alone or from files alone"),
            (("run", net / "plan", "--data", feed, "--steps", 1, "--eval-every", 1, "--eval-data", "command:x"),
             "--eval-data command:x: an evaluation takes the same samples each time"),
            (("run", folder / "forward", "--data", feed), "a forward plan takes each sample of files once")):
        assert message in tool(*args, code=1)[1], args
    # Evaluating with samples of a file while a feed trains.
    tool("run", net / "plan", "--data", feed, "--eval-every", 5, "--eval-data", net / "data.npz", "--log", folder / "log")
    records = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    assert [record["eval"]["step"] for record in records if "eval" in record] == [5, 10, 12]


def test_a_killed_launcher_leaves_no_command(net, folder):
    body = "def slow():\n    while True:\n        time.sleep(0.01)\n        yield {name: array[:8] for name, array in data.items()}\n" \
           "open(sys.argv[0] + '.pid', 'w').write(str(os.getpid()))\npolyrank.feed(slow())"
    command = [tools.bin() / "polyrank-run", net / "plan", "--data", loader(folder, body), "--steps", "100000", "-q"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    pid = folder / "loader.py.pid"
    end = time.monotonic() + 60
    while not (pid.exists() and pid.read_text()) and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while Path(f"/proc/{pid.read_text()}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid.read_text()}").exists()


def test_a_feed_that_takes_as_long_as_a_step_costs_nothing(net, folder, monkeypatch):
    """Both take 120 ms, by sleeping: one after the other it would be 240."""
    body = "def slow():\n    while True:\n        time.sleep(0.12)\n        yield {name: array[:8] for name, array in data.items()}\npolyrank.feed(slow())"
    monkeypatch.setenv("POLYRANK_FAIL", "step.after:hit=0:action=delay=120")
    run(net, loader(folder, body), "--steps", 16, "--log", folder / "log")
    steps = tools.stepsOf(folder / "log")[5:]
    # The delay after a step is no part of the next, which waits only for what the feed still needs then.
    assert np.median([record["data_seconds"] for record in steps]) < 0.06


def test_what_a_feed_costs_is_in_every_report(net, folder):
    body = "def slow():\n    while True:\n        time.sleep(0.03)\n        yield {name: array[:8] for name, array in data.items()}\npolyrank.feed(slow())"
    output, said = run(net, loader(folder, body), "--steps", 20, "--log", folder / "log", "--json")
    steps = tools.stepsOf(folder / "log")[5:]
    # Medians, since a busy machine delays single steps.
    assert np.median([record["data_seconds"] for record in steps]) > 0.02
    ranks = [record[name] for record in steps for name in ("slowest", "fastest")]
    parts = [(rank["compute_seconds"] + rank["communication_seconds"] + rank["data_seconds"]) / rank["seconds"] for rank in ranks]
    assert np.median(parts) > 0.95 and max(parts) < 1.001
    # The shares of the progress line are parts of the same step.
    assert np.median([record["communication_share"] + record["data_seconds"] / record["seconds"] for record in steps]) < 1.05
    assert json.loads(output)["data_seconds"] > 0.3 and re.search(r"data [89]\d %", said)
