"""The worker's end of the protocol that every peer speaks.

A worker is a process: it gets its workload as JSON in its first argument, says
`{"ready": true}` when models are built and compiled, and then answers each
line "run N steps" with one line `{"seconds": [...], "losses": [...]}`. A turn
begins from the first weights; setting them back is not timed. Between turns it
waits for its standard input and uses no core.
"""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def workloadOf(arguments):
    return SimpleNamespace(**json.loads(arguments[1]))


def serve(prepare):
    """`prepare(work)` returns a function of the number of steps that takes a turn."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries that print do not answer
    turn = prepare(workloadOf(sys.argv))
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        word, steps, _ = line.split()
        assert word == "run", line
        print(json.dumps(turn(int(steps))), file=answers, flush=True)
