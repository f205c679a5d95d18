"""All times of a step are those of one simulator, that of the plan.

The compiler's note about a pipeline, polyrank-inspect's timeline and the plan's report agree, and the slowest stage is that of
the commands. Rates are low, so that times have many digits.
"""

import json
import re

import pytest
import tools
from cases import GPT2_TENSOR
from tools import Case

SLOW = ("--rates", "compute=0.1,memory=0.1", "--link", "pipe=50:0.01", "--overlap", "on")
PIPES = [Case("gpt2", "pipe=2", microbatches=4),
         Case("gpt2", "data=2,pipe=2", microbatches=6, schedule="zero-bubble", clip=1.0),
         Case("gpt2", "tensor=2,pipe=2", GPT2_TENSOR, microbatches=3, schedule="gpipe"),
         Case("gpt2", "pipe=2", microbatches=4, schedule="interleaved", chunks=2)]
NOTE = re.compile(r"schedule (\S+) of (\d+) stages and (\d+) microbatches: a step takes ([\d.]+) ms by the model, "
                  r"at least ([\d.]+) ms are needed \(gap [\d.]+ %\); stage (\d+), the slowest, takes ([\d.]+) ms a microbatch")


def segmentTimes(plan, folder):
    """(place, segment) -> milliseconds of the commands that compute."""
    tools.tool("inspect", plan, "--times", folder / "times.json")
    times = json.loads((folder / "times.json").read_text())
    return {(segment.get("at", ""), segment["name"]): sum(command["microseconds"] for command in segment["commands"]) / 1e3
            for segment in times["segments"]}


@pytest.mark.parametrize("case", PIPES, ids=str)
def test_note_timeline_and_report_agree(case, exported, tmp_path):
    plan = tmp_path / "plan"
    notes = case.notes(exported(case.model), plan, "sgd(lr=0.1)", *SLOW)
    _, _, microbatches, step, bound, _, slowest = NOTE.search(notes).groups()
    step, bound, slowest = float(step), float(bound), float(slowest)
    text = tools.tool("inspect", plan, "--timeline")[0]
    planned, least = map(float, re.search(r"a step takes ([\d.]+) ms as planned, at least ([\d.]+)", text).groups())
    programs = tools.inspect(plan)["programs"]
    assert step == pytest.approx(planned, rel=0.005)
    assert bound == pytest.approx(least, rel=0.005)
    assert bound <= step
    for program in programs:  # as planned, in seconds
        total = 1e3 * (program["compute_seconds"] + program["idle_seconds"])
        assert total == pytest.approx(planned, rel=0.005)
    # The stage takes no longer than its rank does in all of its microbatches.
    assert int(microbatches) * slowest <= step
    if "tensor" not in case.mesh and case.chunks == 1:
        sums = segmentTimes(plan, tmp_path)
        places = {place for place, _ in sums}
        # A part that starts sums, "first", is one of two of the same stage.
        ofStages = [sum(time for (at, name), time in sums.items()
                        if at == place and name not in ("prologue", "last") and "first" not in name) for place in places]
        assert slowest == pytest.approx(max(ofStages), rel=0.005)


def test_alike_coordinates_share_a_line(exported, tmp_path):
    """The compiler's notes and the timeline name each coordinate once, those that are alike together."""
    plan = tmp_path / "plan"
    notes = Case("gpt2", "pipe=2", microbatches=4).notes(exported("gpt2"), plan, "sgd(lr=0.1)", *SLOW)
    lines = re.findall(r"^  pipe=.*: idle for [\d.]+ % of it, holds up to \d+ microbatch", notes, re.M)
    assert 1 <= len(lines) <= 2
