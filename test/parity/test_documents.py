"""What README.md and the guide tell the reader to type works, block by block; the pages on
ideas show what the tests in test/docs run.

```python blocks share one namespace, ```sh blocks run in the same folder with the
tools on PATH. Blocks with another tag (```bash) are not examples.
"""

import os
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tools

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("documents", [["README.md"], ["docs/guide.md", "docs/exporting.md"]], ids=lambda each: each[0])
def test_examples_run_as_printed(documents, tmp_path, monkeypatch):
    document = documents[0]
    text = "".join((ROOT / each).read_text() for each in documents)
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```", text, re.M | re.S)
    assert len(blocks) >= 3
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tools.bin().resolve()}:{os.environ['PATH']}")
    names = {}
    for language, text in blocks:
        if language == "python":
            exec(compile(text, document, "exec"), names)
            continue
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], capture_output=True,
                              text=True, timeout=tools.SECONDS)
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"


def test_the_guide_is_read_in_ten_minutes():
    assert len((ROOT / "docs/guide.md").read_text().split()) <= 1500


PAGES = sorted(path for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"`[^`\n]+`", "", page.read_text())  # what is code is no link
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_pages_show_what_is_tested():
    """Each ```mlir block, and each message (```text), stands in a linked file of test/docs."""
    shown = set()
    for page in set(PAGES) - {ROOT / "docs/guide.md"}:
        text = page.read_text()
        files = [(page.parent / link).resolve() for link in re.findall(r"\]\((\.\./test/docs/[^)]+)\)", text)]
        sources = [file.read_text() for file in files]
        shown.update(files)
        for language, block in re.findall(r"^```(mlir|text)\n(.*?)^```", text, re.M | re.S):
            assert any(block.strip("\n") in source for source in sources), f"{page.name}: {block}"
    assert shown == set((ROOT / "test/docs").iterdir())


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    """The model of the guide."""
    folder, names = tmp_path_factory.mktemp("guide"), {}
    block = re.search(r"^```python\n(.*?)^```", (ROOT / "docs/guide.md").read_text(), re.M | re.S)[1]
    exec(block.replace('"model.onnx"', f'"{folder / "model.onnx"}"'), names)
    return folder / "model.onnx"


@pytest.mark.filterwarnings("ignore")
def test_the_guide_shows_the_messages_that_it_speaks_of(guide, tmp_path):
    text = (ROOT / "docs/guide.md").read_text() + (ROOT / "docs/running.md").read_text()
    described, _ = tools.tool("compile", guide, "--describe")
    proposed = re.search(r"^```text\n(losses that fit:.*?)^```", text, re.M | re.S)[1]
    assert " ".join(proposed.split()).replace("\\ ", "") == " ".join(
        described[described.index("losses that fit:"):].replace(str(guide), "model.onnx").split()).replace("\\ ", "")
    rows = re.findall(r"^\| `(--.*?)`.* \| `(.*)` \|$", text, re.M)
    assert len(rows) == 6
    for given, message in rows:
        options = ["--loss", "cross_entropy(logits,labels)", "--input", "input_ids=int64[16,32]"]
        if "shard" in given:
            options += ["--mesh", "data=2,tensor=2"]
        if "loss" in given:
            options = options[2:]
        _, error = tools.tool("compile", guide, "-o", tmp_path / "plan", *options, *shlex.split(given),
                              code=int("changes nothing" not in message))  # which is a note
        assert message in error, error
    tools.tool("compile", guide, "-o", tmp_path / "plan", "--loss", "cross_entropy(logits,labels)", "--input",
               "input_ids=int64[2,32]")
    ids = np.zeros((2, 32), np.int64)
    ids[0, 7] = 300
    np.savez(tmp_path / "ids.npz", input_ids=ids, labels=np.zeros((2, 32), np.int64))
    _, error = tools.tool("run", tmp_path / "plan", "--data", tmp_path / "ids.npz", "--steps", 1, code=1)
    assert re.search(r"^\| `polyrank-run --data ids.npz` .* \| `(.*)` \|$", text, re.M)[1] in error, error
