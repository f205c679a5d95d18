"""Says which numbered constraints of ops no input breaks: constraints.py DOCS TESTS.

A constraint of an op is a numbered line of its description, and its verifier's message begins with the number: `[2] dims ascend ..`.
Elementwise ops share a verifier, so one test of each of its constraints serves all.
"""

import re
import sys
from pathlib import Path


# verifySameShapes.
SHARED = {"Operands and result have one shape.", "Their elements have one type."}
# The op whose constraint an op of its region breaks.
AROUND = {"kernel.load": "kernel.loops", "kernel.store": "kernel.loops", "kernel.scatter_add": "kernel.loops"}


def constraintsOf(page):
    """(op, number, text) of each constraint."""
    for section in re.split(r"(?m)^### `", page.read_text())[1:]:
        op = section.split("`")[0]
        text = re.sub(r"(?ms)^```mlir\n.*?^```", "", section.split("\n#### ")[0])
        for number, words in re.findall(r"(?ms)^(\d+)\. (.*?)(?=^\d+\. |\n\n|\Z)", text):
            yield op, int(number), " ".join(words.split())


def brokenIn(test):
    """(op, number) of each constraint that an expected error names: the op is on the line that the error is at."""
    lines = test.read_text().split("\n")
    for at, line in enumerate(lines):
        expected = re.search(r"expected-error @([+-]\d+) \{\{(?:'[\w.]+' op )?\[(\d+)\] ", line)
        if expected:
            op = re.search(r"(?<!#)\b(graph|kernel|rank|sharding)\.\w+", lines[at + int(expected[1])])
            if op:
                yield op[0], int(expected[2])


def main():
    docs, tests = map(Path, sys.argv[1:])
    stated = {(op, number): text for page in sorted(docs.glob("*.md")) for op, number, text in constraintsOf(page)}
    broken = {b if b in stated else (AROUND.get(b[0], b[0]), b[1]) for test in tests.rglob("*errors.mlir") for b in brokenIn(test)}
    shared = SHARED & {stated.get(b) for b in broken}
    wrong = [f"{op} [{number}] is broken by no test: {text}" for (op, number), text in stated.items()
             if (op, number) not in broken and text not in shared]
    wrong += [f"{op} [{number}] is broken by a test, but not stated" for op, number in sorted(broken - set(stated))]
    print("\n".join(wrong) or f"{len(stated)} constraints")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
