"""Says which ops of the dialects' pages lack an example, and which examples polyrank-opt refuses: examples.py DOCS."""

import re
import subprocess
import sys
from pathlib import Path

PAGES = ["graph", "sharding", "pipeline", "rank", "kernel", "cpu"]
MESH = '#mesh = #sharding.mesh<["x"=2, "y"=2, "data"=2, "tensor"=2, "pipe"=2]>'
# Ops that stand in another op or in a module.
INSIDE = {"graph.parameter", "graph.yield", "graph.scan_yield", "rank.yield", "rank.return", "kernel.store", "kernel.scatter_add"}
# Names a kernel that is not there.
OTHERS = {"rank.launch"}


def blocksOf(section):
    return re.findall(r"(?ms)^```mlir\n(.*?)^```", section.split("\n#### ")[0])


def examplesOf(page):
    """(op, its examples): blocks of MLIR in the description."""
    for section in re.split(r"(?m)^### `", page.read_text())[1:]:
        yield section.split("`")[0], blocksOf(section)


def attributesOf(page):
    """(attribute, example): each line that is one, and each block that is an op with one."""
    for section in re.split(r"(?m)^### (?=\w+Attr$)", page.read_text())[1:]:
        name = section.split("\n")[0]
        for block in blocksOf(section):
            if re.match(r"%\w+ = ", block):
                yield name, block
            for line in block.splitlines():
                if line.startswith("#") and not line.startswith("#mesh ="):
                    yield name, line.split("  //")[0]


def isWhole(name, example):
    return name not in INSIDE | OTHERS and "..." not in example and "^bb" not in example


def chunk(example, types):
    """The example in a function whose arguments are the values that it does not define, or that has it as attribute."""
    if example.startswith("#"):
        return f"{MESH}\nfunc.func private @f() attributes {{example = {example}}}\n"
    defined = set(re.findall(r"%\w+", " ".join(re.findall(r"(?m)^\s*(%[^=]*)=", example))))
    free = [v for v in dict.fromkeys(re.findall(r"%[A-Za-z_]\w*|%\d+", example)) if v not in defined]
    arguments = ", ".join(f"{'%a' + v[1:]}: {types.get(v, 'none')}" for v in free)
    for v in sorted(free, key=len, reverse=True):
        example = re.sub(re.escape(v) + r"\b", "%a" + v[1:], example)
    return f"{MESH}\nfunc.func @f({arguments}) {{\n{example}return\n}}\n"


def check(examples):
    """What polyrank-opt says of each example that it refuses. Types of arguments follow from its own words."""
    types = [{} for _ in examples]
    for _ in range(12):
        chunks = [chunk(example, known) for (_, example), known in zip(examples, types)]
        starts, line = [], 1
        for text in chunks:
            starts.append(line)
            line += text.count("\n") + 1
        done = subprocess.run(["polyrank-opt", "-split-input-file", "-", "-o", "/dev/null"],
                              input="// -----\n".join(chunks), capture_output=True, text=True)
        errors = [(int(row), text) for row, text in re.findall(r"<stdin>:(\d+):\d+: error: (.*)", done.stderr)]
        refused, learned = [], False
        for row, text in errors:
            number = max(i for i, start in enumerate(starts) if start <= row)
            expected = re.search(r"use of value '%a(\w+)' expects different type than prior uses: '(.*)' vs ", text)
            if expected:
                types[number]["%" + expected[1]] = expected[2]
                learned = True
            else:
                refused.append(f"{examples[number][0]}: {text}")
        if not learned:
            return refused
    return refused + ["types of arguments do not come to an end"]


def main():
    examples, wrong = [], []
    for name in PAGES:
        for op, blocks in examplesOf(Path(sys.argv[1]) / f"{name}.md"):
            if not blocks:
                wrong.append(f"{op} has no example")
            examples += [(op, block) for block in blocks if isWhole(op, block)]
        examples += attributesOf(Path(sys.argv[1]) / f"{name}.md")
    wrong += check(examples)
    print("\n".join(wrong) or f"{len(examples)} examples")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
