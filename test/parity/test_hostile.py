"""Small files that ask for much (test/fuzz/hostile.py): a message and exit code 1, or the model, with little time and memory."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

import tools

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
import hostile  # noqa: E402

# Of a build with assertions, of which a release takes half.
SECONDS, MEBIBYTES = 4, 500

BUDGET = "takes more than 134217728 bytes of memory with what was read before"
STEPS = "takes more than 2097152 steps"
# What is said of each; nothing where it is imported.
MESSAGES = {
    "pt": {
        "values": BUDGET, "values-in-debug": BUDGET, "code": BUDGET, "classes": BUDGET, "text": BUDGET,
        "lists-of-lists": "", "tuples-of-tuples": "", "dicts-of-dicts": "", "blocks-and-calls": "nested more than 4000 deep",
        "module-in-many-places": "", "module-of-a-long-name": BUDGET, "lines": "",
    },
    "pt2": {
        "json-values": BUDGET, "json-lists": BUDGET, "nodes": BUDGET, "constants": BUDGET, "pieces": BUDGET, "module-path": "",
        "unknown-names": "which nothing before it computes", "outputs": "where the file names 3",
    },
    "onnx": {"attributes": BUDGET, "nodes": BUDGET, "values": BUDGET, "integers": "names no opset"},
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_small_file_takes_little(kind, tmp_path):
    makers = {"pt": hostile.torchScripts, "pt2": hostile.exportedFiles, "onnx": hostile.onnxFiles}
    wrong = []
    for name, content in makers[kind]():
        path = tmp_path / f"{name}.{kind}"
        path.write_bytes(content)
        code, said, seconds, most = tools.spent("compile", path, "-o", tmp_path / "plan", "--mode", "forward")
        message = MESSAGES[kind].get(name, STEPS if name.startswith("loop-of-") else None)
        isRight = code == 0 if message == "" else code == 1 and message in said and path.name in said
        if not isRight or seconds > SECONDS or most > MEBIBYTES << 20:
            wrong.append(f"{path.name}: exit code {code}, {seconds:.1f} s, {most >> 20} MiB: {said[-400:]}")
        path.unlink()
    assert not wrong, "\n".join(wrong)


def test_a_tool_that_gets_no_memory_says_so(tmp_path):
    """Of a large file the budget may be more than there is."""
    model, program, log = tmp_path / "m.onnx", tmp_path / "m.mlir", tmp_path / "log.jsonl"
    model.write_bytes(hostile.field(7, hostile.field(1, hostile.field(5, b"") * (16 << 20))))
    program.write_text("module {\n" + '"a.b"() : () -> ()\n' * (2 << 20) + "}\n")
    log.write_text('{"x": [' + "[]," * (12 << 20) + "0]}\n")
    for command in (["compile", model, "-o", tmp_path / "plan", "--mode", "forward"], ["opt", "--allow-unregistered-dialect", program],
                    ["inspect", "--plot", log, "-o", tmp_path / "log.svg"]):
        name = f"polyrank-{command[0]}"
        done = subprocess.run([tools.bin() / name, *command[1:]], capture_output=True, text=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (450 << 20, 450 << 20)))
        assert done.returncode == 1 and f"{name}: error: out of memory" in done.stderr, (name, done.returncode, done.stderr[-1000:])
