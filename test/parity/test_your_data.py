"""What docs/your-data.md tells the reader to type works as it is printed, and trains as PyTorch does on the same batches."""

import gzip
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load

import tools
from tools import tool

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/your-data.md").read_text()
SCRIPTS = {text.splitlines()[0][2:]: text for text in re.findall(r"^```python\n(# \w+\.py\n.*?)^```", PAGE, re.M | re.S)}
COMMANDS = [line for text in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S) for line in text.splitlines()]
STEPS = 6


def printed(word):
    """The commands of the page with this word."""
    found = [command for command in COMMANDS if word in command]
    assert found, word
    return found


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Runs commands as printed, in a folder with the scripts of the page."""
    (tmp_path / "path").mkdir()
    # A link would not find its environment.
    (tmp_path / "path/python3").write_text(f"#!/bin/sh\nexec {sys.executable} \"$@\"\n")
    (tmp_path / "path/python3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:{tools.bin().resolve()}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(ROOT / "python"), os.environ.get("PYTHONPATH")))))
    monkeypatch.chdir(tmp_path)
    for name, text in SCRIPTS.items():
        (tmp_path / name).write_text(text)

    def run(command, *more, code=0):
        command = " ".join([command, *map(shlex.quote, more)])
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], capture_output=True, text=True, timeout=tools.SECONDS)
        assert done.returncode == code, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    return run


def batchesOf(command, count):
    """The first batches that a feed writes."""
    os.mkfifo("blocks")
    process = subprocess.Popen(["bash", "-c", command], env={**os.environ, "POLYRANK_FEED": "blocks"})
    batches = []
    with open("blocks", "rb") as file:
        while len(batches) < count:
            head = file.read(8)
            header = file.read(int.from_bytes(head, "little"))
            size = max(each["data_offsets"][1] for name, each in json.loads(header).items() if name != "__metadata__")
            batches.append(load(head + header + file.read(size)))
    process.wait()  # its next write fails, which is the end of the run to it
    return batches


class OfX(torch.nn.Module):
    def __init__(self, shape):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(int(np.prod(shape)), 4)

    def forward(self, x):
        return self.layer(x.flatten(1))


class OfImages(OfX):
    def forward(self, image):
        return super().forward(image)


def compare(shell, command, kind, name, labels):
    """Trains with the command as it is printed, and in PyTorch on what its feed writes."""
    batches = batchesOf(re.search(r"--data 'command:([^']*)'", command)[1], STEPS)
    model = kind(batches[0][name].shape[1:])
    torch.export.save(torch.export.export(model, (torch.zeros(batches[0][name].shape),)), "net.pt2")
    theirs, ours = {"target": (torch.nn.functional.mse_loss, "mse"),
                    "labels": (torch.nn.functional.cross_entropy, "cross_entropy")}[labels]
    tool("compile", "net.pt2", "-o", "model.plan", "--mesh", "data=2", "--loss", f"{ours}(output,{labels})",
         "--optimizer", "adamw(lr=0.01)")
    shell(re.sub(r" --steps \d+", "", command), "--steps", str(STEPS), "--log", "log")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    expected = []
    for each in batches:
        each = {key: torch.tensor(value) for key, value in each.items()}
        value = theirs(model(each[name]), each[labels])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        expected.append(value.item())
    assert [step["loss"] for step in tools.stepsOf("log")] == pytest.approx(expected, rel=1e-4)


def test_a_data_loader(shell):
    (command,) = printed("'command:python3 loader.py'")
    compare(shell, command, OfX, "x", "target")


def test_feeds_that_are_mixed(shell):
    for name in ("web.py", "books.py"):
        Path(name).write_text(SCRIPTS["loader.py"])
    torch.export.save(torch.export.export(OfX((6,)), (torch.zeros(8, 6),)), "net.pt2")
    tool("compile", "net.pt2", "-o", "model.plan", "--mesh", "data=2", "--loss", "mse(output,target)", "--optimizer", "sgd(lr=0.01)")
    (command,) = printed("books.py")
    assert "the feeds 'python3 web.py' (70 %), 'python3 books.py' (30 %)" in shell(command.replace("1000", "3"), "--log", "log")
    assert len(tools.stepsOf("log")) == 3


def image(random):
    from PIL import Image

    return Image.fromarray(random.integers(256, size=(20, 24, 3), dtype=np.uint8))


def test_archives_of_webdataset(shell):
    pytest.importorskip("PIL")
    random = np.random.default_rng(0)
    for number in range(2):
        with tarfile.open(f"train-{number}.tar", "w") as archive:
            folder = tarfile.TarInfo("./part.1")  # as `tar cf train.tar ./part.1` has it
            folder.type = tarfile.DIRTYPE
            archive.addfile(folder)
            for sample in range(30):
                picture = io.BytesIO()
                image(random).save(picture, "JPEG")
                for kind, content in (("jpg", picture.getvalue()), ("cls", b"%d" % random.integers(4))):
                    member = tarfile.TarInfo(f"./part.1/{sample:04}.{kind}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    (command,) = printed("webdataset_loader.py")
    compare(shell, command, OfImages, "image", "labels")


def test_folders_of_images(shell):
    pytest.importorskip("PIL")
    random = np.random.default_rng(0)
    for name in ("cat", "dog", "emu"):
        Path("train", name).mkdir(parents=True)
        for number in range(7):
            image(random).save(Path("train", name, f"{number}.png"))
    (command,) = printed("images_loader.py")
    compare(shell, command, OfImages, "image", "labels")
    # Cropped, flipped and normalised, and another way the next time.
    Path("blocks").unlink()
    batches = batchesOf("python3 images_loader.py train", 6)
    pixels = np.concatenate([batch["image"] for batch in batches])
    assert pixels.shape[1:] == (3, 16, 16) and -2.2 < pixels.min() < -1 and 1 < pixels.max() < 2.7
    # There are 21 files, and two crops of one may be equal by chance.
    assert len({each.tobytes() for each in pixels}) > 2 * 21
    # From another sample on it gives the same.
    Path("blocks").unlink()
    (later,) = batchesOf("POLYRANK_FEED_FIRST=16 python3 images_loader.py train", 1)
    assert np.array_equal(later["image"], batches[2]["image"])


TEXTS = ["It was the best of times, it was the worst of times.", "it was the age of wisdom", "", "we had everything before us \u2014 \u00e9\u00e8 \U0001f600"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(TEXTS * 3, tokenizers.trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=alphabet, special_tokens=["<|endoftext|>", "</s>", "<s>"]))
    made.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)])
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(path))
    return made, path


class Bigrams(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = torch.nn.Embedding(300, 8), torch.nn.Linear(8, 300)

    def forward(self, input_ids):
        return self.head(self.embedding(input_ids))


def bigrams():
    model, ids = Bigrams(), torch.zeros(2, 16, dtype=torch.int64)
    torch.export.save(torch.export.export(model, (ids,)), "net.pt2")
    tool("compile", "net.pt2", "-o", "model.plan", "--mesh", "data=2", "--loss", "cross_entropy(output,labels)",
         "--optimizer", "sgd(lr=1e-30)")
    return model


def rowsOf(tokens, mask, documents):
    """Rows of 16 of each document, padded, and their labels."""
    for begin, end in documents:
        for at in range(begin, end - 1, 16):
            size = min(16, end - 1 - at)
            labels = np.where(mask[at + 1:at + size + 1], tokens[at + 1:at + size + 1], -100)
            yield np.pad(tokens[at:at + size], (0, 16 - size)), np.pad(labels, (0, 16 - size), constant_values=-100)


def lossesOf(model, rows):
    return [torch.nn.functional.cross_entropy(
        model(torch.tensor(np.array([row for row, _ in rows[at:at + 2]], np.int64))).flatten(0, 1),
        torch.tensor(np.array([labels for _, labels in rows[at:at + 2]], np.int64)).flatten()).item() for at in range(0, len(rows) - 1, 2)]


def indexOf(path):
    """The ends of documents in a .idx."""
    content = Path(path).read_bytes()
    assert content[:17] == b"MMIDIDX\0\0" + (1).to_bytes(8, "little")
    count = int.from_bytes(content[18:26], "little")
    return content[17], np.cumsum(np.frombuffer(content, np.int32, count, 34))


def test_text_becomes_the_tokens_of_the_tokenizer(shell, tokenizer):
    made, path = tokenizer
    Path("tokenizer.json").write_bytes(path.read_bytes())
    for number in range(2):
        with gzip.open(f"corpus-{number}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps({"text": f"{text} {number}"}) + "\n" for text in TEXTS)
    tokenize, run = printed("corpus-")[0], printed("--data tokens.bin --documents whole")[0]
    said = shell(tokenize)
    expected = [[*made.encode(f"{text} {number}").ids, 0] for number in range(2) for text in TEXTS]
    tokens = np.fromfile("tokens.bin", np.uint16)
    assert tokens.tolist() == sum(expected, []) and expected[0][0] == 2  # its own first token
    code, ends = indexOf("tokens.idx")
    assert code == 8 and ends.tolist() == np.cumsum([len(each) for each in expected]).tolist()
    assert f"wrote tokens.bin: {len(tokens)} uint16 tokens in 8 documents" in said
    bigrams()
    assert "samples of 16" in shell(run.replace("1000", "2"))


@pytest.mark.parametrize("kind", ["txt", "lines", "json", "csv", "parquet", "arrow"])
def test_text_of_each_format(shell, tokenizer, kind):
    made, path = tokenizer
    texts = [text for text in TEXTS if text] if kind == "lines" else TEXTS
    file, options, expected = f"a.{kind}", [], [made.encode(text, add_special_tokens=False).ids for text in texts if text]
    if kind in ("txt", "lines"):
        file = "a.txt"
        Path(file).write_text("\n".join(texts))
        options = ["--lines"] if kind == "lines" else []
        expected = expected if kind == "lines" else [made.encode("\n".join(texts), add_special_tokens=False).ids]
    elif kind == "json":
        Path(file).write_text(json.dumps([{"text": text} for text in texts]))
    elif kind == "csv":
        import csv

        with open(file, "w", newline="") as out:
            csv.writer(out).writerows([["n", "text"], *enumerate(texts)])
    else:
        pyarrow = pytest.importorskip("pyarrow")
        table = pyarrow.table({"text": texts})
        if kind == "parquet":
            from pyarrow import parquet

            parquet.write_table(table, file)
        else:
            with pyarrow.OSFile(file, "wb") as out, pyarrow.ipc.new_file(out, table.schema) as writer:
                writer.write_table(table)
    shell("polyrank tokenize", file, "--tokenizer", str(path), "-o", "out.bin", "--no-special-tokens", *options)
    assert np.fromfile("out.bin", np.uint16).tolist() == sum(expected, [])
    assert indexOf("out.idx")[1].tolist() == np.cumsum([len(each) for each in expected]).tolist()


def test_documents_are_long_and_lines_are_lines(shell, tokenizer):
    made, path = tokenizer
    Path("a.csv").write_text(f"text\n{'it was ' * 30000}\n")
    Path("a.txt").write_bytes("the best\x0cof times\u2028it was\r\nthe worst\n".encode())
    Path("b.csv").write_bytes("\ufefftext\nit was\n".encode())  # with a mark of the byte order, as Excel writes it
    for file, texts in (("a.csv", ["it was " * 30000]), ("b.csv", ["it was"]), ("a.txt", ["the best\x0cof times\u2028it was", "the worst"])):
        shell("polyrank tokenize", file, "--lines", "--tokenizer", str(path), "-o", "out")
        assert np.fromfile("out.bin", np.uint16).tolist() == sum((made.encode(text).ids for text in texts), [])
        assert len(indexOf("out.idx")[1]) == len(texts)


def test_prompts_are_not_learned(shell, tokenizer):
    made, path = tokenizer
    Path("tokenizer.json").write_bytes(path.read_bytes())
    chats = [(f"{TEXTS[number % 2]} {number}?", f"{TEXTS[1 - number % 2]} {number}!") for number in range(12)]
    Path("chats.jsonl").write_text("".join(json.dumps({"prompt": prompt, "answer": answer}) + "\n" for prompt, answer in chats))
    tokenize, run = printed("chats")[:2]
    shell(tokenize)
    tokens, mask, documents = [], [], []
    for prompt, answer in chats:
        prompt, answer = made.encode(prompt).ids, [*made.encode(answer, add_special_tokens=False).ids, 1]
        documents.append((len(tokens), len(tokens) + len(prompt) + len(answer)))
        tokens += prompt + answer
        mask += [0] * len(prompt) + [1] * len(answer)
    assert np.fromfile("chats.bin", np.uint16).tolist() == tokens and np.fromfile("chats.mask", np.uint8).tolist() == mask
    model = bigrams()
    rows = [row for row in rowsOf(np.array(tokens), np.array(mask) == 1, documents)]
    count = len(rows) // 2
    shell(run.replace("200", str(count)), "--order", "sequential", "--log", "log")
    found = [step["loss"] for step in tools.stepsOf("log")]
    theirs = lossesOf(model, rows)[:count]
    assert [each for each in found if each is not None] == pytest.approx([each for each in theirs if each == each], rel=2e-5)
    assert len(found) == count


def test_what_tokenize_refuses(shell, tokenizer):
    _, path = tokenizer
    Path("a.jsonl").write_text('{"text": "a"}\n{"text": null}\n')
    Path("b.jsonl").write_text('{"content": "a"}\n')
    Path("c.jsonl").write_text('{"text": "a"\n')
    Path("empty.jsonl").write_text("\n")
    Path("latin.txt").write_bytes(b"caf\xe9")
    Path("cut.txt.gz").write_bytes(gzip.compress(b"text" * 100)[:-10])
    Path("d.csv").write_text("content,n\na,1,2\n")
    Path("chat.jsonl").write_text('{"text": [{"role": "user", "content": "a"}]}\n')
    for args, message in ((("a.jsonl",), "a.jsonl, line 2: field 'text' is missing (null)"),
                          (("b.jsonl",), "b.jsonl, line 1: has no field 'text'; it has: content"),
                          (("c.jsonl",), "c.jsonl, line 1: "), (("none.jsonl",), "No such file"),
                          (("empty.jsonl",), "there is no text to tokenize"),
                          (("chat.jsonl",), "field 'text' is no text, but list; of a conversation make one text first"), (("a.docx",), "a.docx: text is read of .txt"),
                          (("latin.txt",), "latin.txt: is no text in UTF-8"), (("cut.txt.gz",), "cut.txt.gz: Compressed file ended"),
                          (("d.csv",), "d.csv, row 2: has no field 'text'; it has: content, n, None"),
                          (("b.jsonl", "--text-field", "content", "--eos", "<none>"), "--eos <none>: the tokenizer has no such token")):
        assert message in shell("polyrank tokenize", *args, "--tokenizer", str(path), "-o", "out", code=1)
    for name, message in (("folder/", "-o folder/: is a folder; give the files a name in it: folder/tokens"),
                          ("path", "-o path: is a folder"), ("none/out", "-o none/out: there is no folder 'none'")):
        assert message in shell("polyrank tokenize b.jsonl --text-field content -o", name, "--tokenizer", str(path), code=1)
    Path("bad.json").write_text("{}")
    assert "is no tokenizer.json" in shell("polyrank tokenize a.jsonl --tokenizer bad.json -o out", code=1)
    assert not list(Path().glob("out*"))  # nothing half


def test_tokenize_says_what_is_missing(shell, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH")
    monkeypatch.setenv("PYTHONNOUSERSITE", "1")
    (tmp_path / "path/python3").write_text("#!/bin/sh\nexec /usr/bin/python3 -S \"$@\"\n")
    assert "tokenize is a part of the Python module polyrank, which" in shell("polyrank tokenize a.txt", code=1)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    Path("a.txt").write_text("a")
    assert "pip install tokenizers" in shell("polyrank tokenize a.txt --tokenizer t.json -o out", code=1)


def test_blocks_of_another_library(shell):
    """The example of docs/data-files.md."""
    text = (ROOT / "docs/data-files.md").read_text()
    (script,) = re.findall(r"^```python\n(import os\n.*?)^```", text, re.M | re.S)
    Path("writer.py").write_text(script)
    compare(shell, "polyrank run model.plan --data 'command:python3 writer.py'", OfX, "x", "target")
