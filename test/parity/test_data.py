"""Which samples a run trains on: numpy's reckoning, seen through PyTorch's losses of a model that learns nothing."""

import io
import json
import os
import re
import subprocess
import zipfile

import numpy as np
import pytest
import torch

import tools
from models import BATCH, MODELS
from tools import Case, tool

LENGTH, VOCAB, STEPS = 16, 64, 6
GOLDEN, MASK = 0x9e3779b97f4a7c15, (1 << 64) - 1


def mix(value):
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9 & MASK
    value = (value ^ value >> 27) * 0x94d049bb133111eb & MASK
    return value ^ value >> 31


def permuted(index, size, seed, epoch):
    """The Feistel network of runtime/data/SampleOrder.h."""
    half = (max(1, (size - 1).bit_length()) + 1) // 2
    state = mix(mix(seed + GOLDEN & MASK) ^ (epoch + 1) * GOLDEN & MASK)
    keys = []
    for _ in range(8):
        state = state + GOLDEN & MASK
        keys.append(mix(state))
    while True:
        left, right = index >> half, index & (1 << half) - 1
        for key in keys:
            left, right = right, left ^ mix(right + key & MASK) & (1 << half) - 1
        index = left << half | right
        if index < size:
            return index


def samples(sizes, weights, seed, count):
    """(source, sample) at the first `count` positions."""
    bounds = np.cumsum(weights)[:-1] / sum(weights)
    taken = [0] * len(sizes)
    for position in range(count):
        number = int(f"{position:064b}"[::-1], 2) / 2**64
        source = int(np.searchsorted(bounds, number, side="right"))
        place, taken[source] = taken[source], taken[source] + 1
        size = sizes[source]
        yield source, permuted(place % size, size, seed + source * GOLDEN & MASK, place // size)


@pytest.fixture(scope="module")
def still(tmp_path_factory, exported):
    """A plan on two ranks, and the model's loss of rows."""
    folder = tmp_path_factory.mktemp("still")
    plan = Case("gpt2", "data=2").compile(exported("gpt2"), folder / "plan", "sgd(lr=1e-30)")
    model = MODELS["gpt2"].fresh().eval()

    def loss(inputs, labels):
        with torch.no_grad():
            logits = MODELS["gpt2"].family.call(model, {"input_ids": torch.tensor(np.array(inputs, np.int64))})
            return torch.nn.functional.cross_entropy(logits.flatten(0, -2), torch.tensor(np.array(labels, np.int64)).flatten()).item()

    return plan, loss


def losses(plan, tmp_path, *options):
    log = tmp_path / "log"
    tool("run", plan, *options, "--log", log)
    return [float(x) for x in re.findall(r'"loss":([^,]*),', log.read_text())]


def write(path, seed, samples):
    tokens = np.random.default_rng(seed).integers(VOCAB, size=samples * LENGTH + 1).astype(np.uint16)
    path.write_bytes(tokens.tobytes())
    return tokens


def rowsOf(tokens, number):
    return tokens[number * LENGTH:(number + 1) * LENGTH], tokens[number * LENGTH + 1:(number + 1) * LENGTH + 1]


def expected(loss, rows):
    return [loss(*zip(*rows[step:step + BATCH])) for step in range(0, len(rows), BATCH)]


def test_files_of_a_pattern_are_one_sequence(still, tmp_path):
    plan, loss = still
    files = [write(tmp_path / f"{name}.bin", seed, count) for seed, (name, count) in enumerate((("a", 5), ("b", 3), ("c", 7)))]
    where = [(file, number) for file in range(3) for number in range((5, 3, 7)[file])]
    rows = [rowsOf(files[file], number) for file, number in
            (where[sample] for _, sample in samples([15], [1], 3, BATCH * STEPS))]
    ours = losses(plan, tmp_path, "--data", tmp_path / "*.bin", "--steps", STEPS, "--seed", 3)
    assert ours == pytest.approx(expected(loss, rows), rel=1e-5)
    # As a shell writes it out, and at commas.
    paths = [str(tmp_path / f"{name}.bin") for name in "abc"]
    assert losses(plan, tmp_path, "--data", *paths, "--steps", STEPS, "--seed", 3) == ours
    assert losses(plan, tmp_path, "--data", ",".join(paths), "--steps", STEPS, "--seed", 3) == ours
    # Two epochs are as many steps as take each sample twice.
    assert len(losses(plan, tmp_path, "--data", *paths, "--epochs", 2)) == -(-2 * 15 // BATCH)


def test_weights_say_how_much_comes_from_each_source(still, tmp_path):
    plan, loss = still
    a, b = write(tmp_path / "a.bin", 0, 5), write(tmp_path / "b.bin", 1, 30)
    rows = [rowsOf((a, b)[source], sample) for source, sample in samples([5, 30], [0.7, 0.3], 0, BATCH * STEPS)]
    ours = losses(plan, tmp_path, "--data", f"{tmp_path}/a.bin:0.7", "--data", f"{tmp_path}/b.bin:0.3", "--steps", STEPS)
    assert ours == pytest.approx(expected(loss, rows), rel=1e-5)


WIDTH, FILLED, MANY = 1 << 16, 1 << 10, 17000  # elements of a row, those that are not 0, and rows of more than 4 GiB


class Sparse(io.FileIO):
    """A file in which zeros take no room."""
    ZEROS = bytes(4 * WIDTH)

    def write(self, content):
        size = memoryview(content).nbytes
        if content == self.ZEROS[:size]:
            self.seek(size, os.SEEK_CUR)
            return size
        return super().write(content)


def wideSet(path, x, target):
    """A .npz set as numpy.savez writes it, with rows of `x` that zeros follow up to WIDTH."""
    with Sparse(path, "w+") as file, zipfile.ZipFile(file, "w") as archive:
        with archive.open("x.npy", "w", force_zip64=True) as out:
            np.lib.format.write_array_header_1_0(out, {"descr": "<f4", "fortran_order": False, "shape": (len(x), WIDTH)})
            for row in x:
                out.write(row.tobytes())
                out.write(Sparse.ZEROS[:4 * (WIDTH - len(row))])
        with archive.open("target.npy", "w") as out:
            np.lib.format.write_array(out, target)


class Wide(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(WIDTH, 4)

    def forward(self, x):
        return self.layer(x)


def test_a_set_of_more_than_4_gib_takes_no_more_memory_than_a_small_one(tmp_path):
    random = np.random.default_rng(0)
    x, target = random.normal(size=(MANY, FILLED)).astype(np.float32), random.normal(size=(MANY, 4)).astype(np.float32)
    wideSet(tmp_path / "large.npz", x, target)
    wideSet(tmp_path / "small.npz", x[:64], target[:64])
    assert (tmp_path / "large.npz").stat().st_size > 1 << 32
    torch.export.save(torch.export.export(Wide(), (torch.zeros(BATCH, WIDTH),)), tmp_path / "wide.pt2")
    tool("compile", tmp_path / "wide.pt2", "-o", tmp_path / "plan", "--mesh", "data=2", "--loss", "mse(output,target)",
         "--optimizer", "sgd(lr=0.1)")
    # A seed with which some samples lie beyond 4 GiB.
    orders = ([permuted(place, MANY, seed, 0) for place in range(BATCH * STEPS)] for seed in range(1000))
    seed, order = next((seed, order) for seed, order in enumerate(orders) if sum(row * 4 * WIDTH > 1 << 32 for row in order) > 2)
    most = {}
    for name in ("small", "large"):
        code, said, _, most[name] = tools.spent("run", tmp_path / "plan", "--data", tmp_path / f"{name}.npz", "--steps", STEPS, "--seed",
                                                seed, "--log", tmp_path / "log")
        assert code == 0, said
    model = Wide()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected = []
    for step in range(STEPS):
        rows = order[step * BATCH:(step + 1) * BATCH]
        inputs = torch.zeros(BATCH, WIDTH)
        inputs[:, :FILLED] = torch.tensor(x[rows])
        loss = torch.nn.functional.mse_loss(model(inputs), torch.tensor(target[rows]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    assert [step["loss"] for step in tools.stepsOf(tmp_path / "log")] == pytest.approx(expected, rel=1e-5)
    assert most["large"] < most["small"] + (16 << 20), most


def megatron(path, documents):
    """As megatron/core/datasets/indexed_dataset.py writes it, a sequence to a document."""
    lengths = np.array([len(each) for each in documents], np.int32)
    offsets = (np.concatenate([[0], np.cumsum(lengths[:-1])]) * 2).astype(np.int64)
    path.with_suffix(".bin").write_bytes(b"".join(each.astype(np.uint16).tobytes() for each in documents))
    path.with_suffix(".idx").write_bytes(
        b"MMIDIDX\0\0" + np.uint64(1).tobytes() + np.uint8(8).tobytes() + np.uint64(len(lengths)).tobytes() +
        np.uint64(len(lengths) + 1).tobytes() + lengths.tobytes() + offsets.tobytes() +
        np.arange(len(lengths) + 1, dtype=np.int64).tobytes())


def test_documents_of_a_megatron_pair_are_padded_or_masked(still, tmp_path):
    plan, loss = still
    random = np.random.default_rng(5)
    documents = [random.integers(1, VOCAB, size=size) for size in random.integers(2, 40, size=40)]
    documents = [np.concatenate([each, [0]]) for each in documents]
    megatron(tmp_path / "corpus", documents)
    rows = []
    for each in documents:
        for begin in range(0, len(each) - 1, LENGTH):
            inputs, labels = each[begin:min(begin + LENGTH, len(each) - 1)], each[begin + 1:begin + LENGTH + 1]
            rows.append((np.pad(inputs, (0, LENGTH - len(inputs))), np.pad(labels, (0, LENGTH - len(labels)), constant_values=-100)))
    sequential = ("--steps", STEPS, "--order", "sequential")
    padded = losses(plan, tmp_path, "--data", tmp_path / "corpus", "--documents", "pad", *sequential)
    assert padded == pytest.approx(expected(loss, rows[:BATCH * STEPS]), rel=1e-5)
    # The same tokens with the one that ends each.
    (tmp_path / "plain.bin").write_bytes((tmp_path / "corpus.bin").read_bytes())
    plain = ("--data", tmp_path / "plain.bin", "--eos", 0, *sequential)
    assert losses(plan, tmp_path, *plain, "--documents", "pad") == padded
    tokens = np.concatenate(documents)
    rows = [rowsOf(tokens, number) for number in range(BATCH * STEPS)]
    masked = [(inputs, np.where(inputs == 0, -100, labels)) for inputs, labels in rows]
    ours = losses(plan, tmp_path, *plain, "--mask-eos")
    assert ours == pytest.approx(expected(loss, masked), rel=1e-5)
    assert ours == losses(plan, tmp_path, "--data", tmp_path / "corpus.idx", "--mask-eos", *sequential)
    assert losses(plan, tmp_path, *plain) == pytest.approx(expected(loss, rows), rel=1e-5)


class Shifting(torch.nn.Module):
    """Computes its loss itself, of labels that it shifts, as the models of transformers do."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = torch.nn.Embedding(VOCAB, 8), torch.nn.Linear(8, VOCAB)

    def forward(self, input_ids, labels):
        logits = self.head(self.embedding(input_ids))
        return logits, torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


@pytest.fixture(scope="module")
def shifting(tmp_path_factory):
    """A plan on two ranks, and the model's own loss of rows."""
    folder, model = tmp_path_factory.mktemp("shifting"), Shifting()
    ids = torch.zeros(BATCH, LENGTH, dtype=torch.int64)
    torch.onnx.export(model, (), folder / "model.onnx", kwargs={"input_ids": ids, "labels": ids.clone()}, dynamo=True, optimize=False,
                      input_names=["input_ids", "labels"], output_names=["logits", "loss"])
    tool("compile", folder / "model.onnx", "-o", folder / "plan", "--mesh", "data=2", "--loss", "output(loss)",
         "--optimizer", "sgd(lr=1e-30)")

    def loss(inputs, labels):
        return model(*(torch.tensor(np.array(each, np.int64)) for each in (inputs, labels)))[1].item()

    return folder / "plan", loss


def test_a_model_that_shifts_its_labels_gets_the_tokens_themselves(shifting, tmp_path):
    plan, loss = shifting
    tokens = write(tmp_path / "a.bin", 1, STEPS * BATCH)[:-1]
    (tmp_path / "a.bin").write_bytes(tokens.tobytes())  # a row needs no token beyond it
    run = (plan, tmp_path, "--data", tmp_path / "a.bin", "--order", "sequential", "--epochs", 1)
    rows = [(tokens[at:at + LENGTH],) * 2 for at in range(0, len(tokens), LENGTH)]
    found = losses(*run, "--labels", "same")
    assert len(found) == STEPS and found == pytest.approx(expected(loss, rows), rel=2e-5)
    # The first token of a document is not predicted from the one before.
    masked = [(row, np.where(np.concatenate([[False], row[:-1] == 0]), -100, row.astype(int))) for row, _ in rows]
    assert losses(*run, "--labels", "same", "--eos", 0, "--mask-eos") == pytest.approx(expected(loss, masked), rel=2e-5)
    error = tool("run", plan, "--data", tmp_path / "a.bin", "--steps", 1, code=1)[1]
    assert "--labels same, where the model shifts them itself" in error


@pytest.mark.parametrize("labels", ["next", "same"])
def test_marked_prompts_are_not_learned(still, shifting, tmp_path, labels):
    """As in supervised fine-tuning, where each document begins with a prompt."""
    plan, loss = still if labels == "next" else shifting
    tokens = write(tmp_path / "a.bin", 2, STEPS * BATCH)
    marks = np.random.default_rng(3).integers(2, size=len(tokens)).astype(np.uint8)
    (tmp_path / "a.mask").write_bytes(marks.tobytes())
    learned = np.where(marks == 1, tokens.astype(int), -100)
    shift = int(labels == "next")
    rows = [(tokens[at:at + LENGTH], learned[at + shift:at + shift + LENGTH]) for at in range(0, STEPS * BATCH * LENGTH, LENGTH)]
    run = ("--data", tmp_path / "a.bin", "--order", "sequential", "--labels", labels, "--mask-prompts", "--steps", STEPS)
    assert losses(plan, tmp_path, *run) == pytest.approx(expected(loss, rows), rel=2e-5)
    for content, message in ((marks[:-1].tobytes(), f"has {len(marks) - 1} bytes, but '{tmp_path}/a.bin' has {len(marks)} tokens"),
                             (b"\2" * len(marks), "byte 0 is 2, but a mark is 1" if labels == "same" else "byte 1 is 2, but a mark is 1"),
                             (None, "--mask-prompts needs it beside the tokens: one byte for each token")):
        (tmp_path / "a.mask").unlink()
        if content:
            (tmp_path / "a.mask").write_bytes(content)
        assert message in tool("run", plan, *run, code=1)[1]


OTHER_FORMATS = {
    "a.parquet": "is a Parquet file; text in it becomes tokens by: polyrank tokenize {0} --tokenizer tokenizer.json --text-field text "
                 "-o tokens (then --data tokens.bin); columns of numbers are read by: --data 'command:python3 -m polyrank.columns {0}'",
    "it's $5.parquet": "polyrank tokenize \"{1}/it's \\$5.parquet\" --tokenizer tokenizer.json --text-field text -o tokens (then --data "
                       "tokens.bin); columns of numbers are read by: --data 'command:python3 -m polyrank.columns \"{1}/it'\\''s \\$5.parquet\"'",
    "a.arrow": "--data 'command:python3 -m polyrank.columns {0}'",
    "a.csv": "--data 'command:python3 -m polyrank.columns {0}'",
    "a.jsonl": "polyrank tokenize {0} --tokenizer tokenizer.json -o tokens; then give --data tokens.bin",
    "a.json": "polyrank tokenize {0} --tokenizer",
    "a.tar": "--data 'command:python3 loader.py', with polyrank.feed(loader) in it",
    "a.bin.zst": "unpack it first: zstd -d {0}; then give --data {1}",
    "a.bin.gz": "unpack it first: gzip -dk {0}; then give --data {1}",
    "images/": "is a folder; its files are named by a pattern in quotes (--data '{1}/*.bin'), or a loader of yours reads it",
    "a.dat": "polyrank tokenize, tokens are written as uint16 into a .bin",
}


@pytest.mark.parametrize("name", OTHER_FORMATS)
def test_another_format_is_answered_with_what_to_type(still, tmp_path, name):
    path = tmp_path / name
    if name.endswith("/"):
        path.mkdir()
    else:
        path.write_bytes(b"PAR1 anything")
    error = tool("run", still[0], "--data", path, "--steps", 1, code=1)[1]
    without = path if name.endswith("/") else path.parent if " " in name else path.with_suffix("")
    assert OTHER_FORMATS[name].format(path, without) in error and "name it" not in error


def test_a_token_out_of_range_is_found_before_the_run_or_after_the_weights_are_saved(still, tmp_path):
    plan, _ = still
    tokens = write(tmp_path / "a.bin", 0, BATCH * 4)
    tokens[BATCH * 2 * LENGTH + 3] = VOCAB
    (tmp_path / "a.bin").write_bytes(tokens.tobytes())
    run = (plan, "--data", tmp_path / "a.bin", "--steps", 4, "--order", "sequential", "--save", tmp_path / "w.safetensors")
    value = f"value 64 at element {BATCH * 2 * LENGTH + 3} (sample {BATCH * 2}), but input 'input_ids' takes i64 in [0, 64)"
    _, error = tool("run", *run, code=1)
    assert value in error and "step" not in error.splitlines()[-1] and not (tmp_path / "w.safetensors").exists()
    # One of more than is looked through: sparse, so that it takes no room.
    with open(tmp_path / "a.bin", "r+b") as file:
        file.truncate((1 << 30) + 2)
    _, error = tool("run", *run, code=1)
    assert "step 3: " in error and value in error
    assert f"(after 2 steps; '{tmp_path / 'w.safetensors'}' has the weights after step 2)" in error
    tool("run", plan, "--data", tmp_path / "a.bin", "--steps", 2, "--order", "sequential", "--save", tmp_path / "two.safetensors")
    assert (tmp_path / "two.safetensors").read_bytes() == (tmp_path / "w.safetensors").read_bytes()


def test_weights_that_a_failed_attempt_kept_do_not_take_a_files_place_empty(still, tmp_path):
    plan, _ = still
    tokens = write(tmp_path / "a.bin", 0, BATCH * 4)
    tokens[BATCH * 2 * LENGTH + 3] = VOCAB
    (tmp_path / "a.bin").write_bytes(tokens.tobytes())
    with open(tmp_path / "a.bin", "r+b") as file:
        file.truncate((1 << 30) + 2)  # more than is looked through before the run
    weights = tmp_path / "w.safetensors"
    tool("run", plan, "--data", tmp_path / "a.bin", "--steps", 1, "--order", "sequential", "--save", weights)
    before = weights.read_bytes()
    # The first attempt has saved what it trained when it is killed; the second comes to no step.
    fail = "kept.after:rank=0:action=kill;load.before:rank=0:attempt=2:action=kill"
    done = subprocess.run([tools.bin() / "polyrank-run", plan, "--data", tmp_path / "a.bin", "--steps", "4", "--order", "sequential",
                           "--save", weights, "--restarts", "1"], env={**os.environ, "POLYRANK_FAIL": fail}, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("was killed by signal 9") >= 2, done.stderr
    assert "has the weights after" not in done.stderr and weights.read_bytes() == before


def test_what_the_options_cannot_mean_is_an_error_that_says_so(still, tmp_path):
    plan, _ = still
    write(tmp_path / "a.bin", 0, 20)
    data = ("--data", tmp_path / "a.bin")
    for args, message in (
            ((plan, "--data", tmp_path / "*.u32", "--steps", 1), "no file has such a name"),
            ((plan, *data, *data, "--steps", 1), "is given twice"),
            ((plan, *data), "give the number of steps: --steps N, or of epochs: --epochs N"),
            ((plan, *data, "--steps", 1, "--epochs", 1), "--steps excludes --epochs"),
            ((plan, "--steps", 1, "stray"), "stray"),
            ((plan, *data, "--steps", 1, "--documents", "pad"), "nothing says where its documents end"),
            ((plan, *data, "--steps", 1, "--eos", 0, "--reset-position-ids"), "the plan has no input 'position_ids' to reset")):
        assert message in tool("run", *args, code=1)[1], args


def test_the_next_step_is_read_while_this_one_runs(tmp_path, monkeypatch):
    """Samples that take 0.8 of a step to read: without reading ahead a step would take 1.8 times as long."""
    model = tools.Path(__file__).parents[1] / "models/gpt2-bytes.onnx"
    tool("compile", model, "-o", tmp_path / "plan", "--input", "input_ids=int64[8,128]", "--loss", "cross_entropy(logits,labels)")
    (tmp_path / "text.txt").write_bytes(np.random.default_rng(1).bytes(100_000))

    def secondsOfStep():
        tool("run", tmp_path / "plan", "--data", tmp_path / "text.txt", "--steps", 20, "--log", tmp_path / "log.jsonl")
        return min(record["seconds"] for record in tools.stepsOf(tmp_path / "log.jsonl")[5:])

    alone = secondsOfStep()
    delay = round(0.4e3 * alone)  # milliseconds, for each of the two inputs
    (tmp_path / "log.jsonl").unlink()
    monkeypatch.setenv("POLYRANK_FAIL", f"input.filled:hit=0:action=delay={delay}")
    assert secondsOfStep() < alone + 0.5 * 2e-3 * delay


def test_what_reading_costs_is_in_every_report(still, tmp_path, monkeypatch):
    """Samples that take 60 ms to read, and steps of a few."""
    write(tmp_path / "a.bin", 0, 100)
    monkeypatch.setenv("POLYRANK_FAIL", "input.filled:hit=0:action=delay=30")  # for each of two inputs
    output, said = tool("run", still[0], "--data", tmp_path / "a.bin", "--steps", 8, "--log", tmp_path / "log", "--json",
                        "--trace", tmp_path / "trace", "--profile", tmp_path / "profile")
    steps = tools.stepsOf(tmp_path / "log")
    # The median: a step that a busy machine delays leaves its successor's samples more time.
    assert np.median([step["data_seconds"] for step in steps[1:]]) > 0.02
    assert all(step["data_seconds"] <= step["seconds"] for step in steps[1:])
    ranks = [step[name] for step in steps[1:] for name in ("slowest", "fastest")]
    parts = [(rank["compute_seconds"] + rank["communication_seconds"] + rank["data_seconds"]) / rank["seconds"] for rank in ranks]
    assert np.median(parts) > 0.95 and max(parts) < 1.001
    report = json.loads(output)
    assert report["data_seconds"] == pytest.approx(sum(step["data_seconds"] for step in steps))
    # The last step is shown in any case.
    shown = re.search(r"step 8/8 .* data (\d+) %", said)
    assert shown and int(shown[1]) == pytest.approx(100 * steps[-1]["data_seconds"] / steps[-1]["seconds"], abs=1)
    events = [event for event in json.loads((tmp_path / "trace").read_text())["traceEvents"] if event.get("cat") == "data"]
    shares = []
    for rank in report["ranks"]:
        waits = [event["dur"] for event in events if event["pid"] == rank["rank"] and event["name"] == "waits for samples"]
        assert len(waits) == 8 and 1e-6 * sum(waits) == pytest.approx(rank["data_seconds"], rel=1e-3)
        shares.append(float(re.search(rf"rank {rank['rank']} .* (\d+\.\d) %\n", said)[1]))
    assert max(shares) > 10  # whoever is earlier waits for the other one instead
    (line,) = [line for line in json.loads((tmp_path / "profile").read_text())["commands"] if line["kind"] == "data"]
    mean = sum(event["dur"] for event in events if event["pid"] == 0 and event["args"]["step"] > 1) / 7
    assert line["command"] == "wait for samples" and line["seconds"] == pytest.approx(1e-6 * mean, rel=1e-3)
