"""A bit changes on its way between two machines (between.py).

The oracle of all: the weights have the bits of those that one machine saves, or both machines end in the stated time with a documented exit
code, and say what has changed and between whom.
"""

import os
import re
import signal
import time

import jobs
import pytest
from between import Between
from jobs import DONE, INPUT, RANK, SLOWLY, awaitSaved, checkSaved, saving, share


def between(caller, part, *kinds, **change):
    """Stands between the machine `caller` and the one that it calls, and changes this at the next opportunity."""
    stranger = Between(caller)
    stranger.change(part, *kinds, **change)
    return stranger


def checkBothSay(job, what):
    assert job.end() == [RANK, RANK], job.said()
    for node in job.nodes:
        assert re.search(what, node.said()), job.said()


# Ranks of machine 0 call those of machine 1.


@pytest.mark.parametrize("name, kind, back, options", [
    ("tensor", "partial", False, ()), ("tensor", "result", True, ()), ("across", "value", True, ()),
    ("data", "start", True, ()), ("data", "start", False, ("--wire-check", "off"))],
    ids=["sum", "sum-that-flows-back", "sent", "small", "small-without-checksums"])
def test_a_payload_of_ranks_that_has_changed_ends_all(name, kind, back, options, pair, shared, tmp_path, planOf):
    stranger = between(pair[0], "payload", kind, back=back, byte=7, bit=5)
    job = share(pair, shared, tmp_path / "run", *options, **planOf(name))
    changed = stranger.changed()
    since = time.monotonic()
    reader, writer, at = ("[01]", "[23]", pair[1].four) if back else ("[23]", "[01]", pair[0].four)
    checkBothSay(job, rf"rank {reader}: from rank {writer} \({re.escape(at)} port \d+\): {kind} {changed['piece']} of part \d+ \(stage \d+\) of "
                      rf"operation {changed['operation']}, of {changed['size']} bytes has changed on its way")
    jobs.checkTime(since, 2)


@pytest.mark.parametrize("byte", [0, 28, 56], ids=["incarnation", "size", "checksum"])
def test_a_header_of_ranks_that_has_changed_ends_all(byte, pair, shared, tmp_path, planOf):
    stranger = between(pair[0], "header", "start", byte=byte, bit=3)
    job = share(pair, shared, tmp_path / "run", **planOf("data"))
    stranger.changed()
    since = time.monotonic()
    checkBothSay(job, rf"rank [23]: from rank [01] \({re.escape(pair[0].four)} port \d+\): a header has changed on its way")
    jobs.checkTime(since, 2)


def test_without_checksums_data_that_have_changed_are_not_found(pair, shared, tmp_path, planOf):
    plan = planOf("tensor")
    stranger = between(pair[0], "payload", "partial", byte=-2, bit=6)  # of the last number of a sum, the largest bit of the mantissa
    job = share(pair, shared, tmp_path / "run", "--wire-check", "off", **plan)
    stranger.changed()
    assert job.end() == [DONE] * 2, job.said()
    assert job[0].weights.read_bytes() != jobs.alone(shared, plan["plan"], data=plan["data"])


def test_after_a_payload_that_has_changed_all_ranks_start_again(pair, shared, tmp_path, planOf):
    plan, stranger = planOf("tensor"), Between(pair[0])
    job = share(pair, shared, tmp_path / "run", "--restarts", 1, *saving(tmp_path), fail=SLOWLY, **plan)
    awaitSaved(tmp_path)
    stranger.change("payload", "partial", byte=9)
    checkSaved(job, shared, **plan)
    said = job[0].said()
    assert "has changed on its way" in said and "(1 of 1 restarts)" in said and "going on from" in said, said


# The node of machine 1 calls that of machine 0.


CHANGED = "a message that was changed on its way"
CLOSED = "(it has closed the connection|Connection reset by peer|Broken pipe)"


@pytest.mark.parametrize("part, back, change, says, most", [
    ("body", False, {"byte": 0}, (CHANGED, CLOSED), 2), ("body", True, {"byte": -1}, (CLOSED, CHANGED), 2),
    ("header", False, {"byte": 3}, ("a message of 16777[0-9]{3} bytes, and the most is 1048576", CLOSED), 2),
    ("header", False, {"byte": 2, "bit": 3}, ("it was silent for 5 s", CLOSED), 6)],
    ids=["to-0", "mac-to-1", "too-long", "long"])
def test_a_message_of_nodes_that_has_changed_is_the_loss_of_a_machine(part, back, change, says, most, pair, shared, tmp_path, planOf):
    stranger = Between(pair[1])
    job = share(pair, shared, tmp_path / "run", fail=SLOWLY, steps=60, **planOf("data"))
    job.awaitTraining()
    stranger.change(part, back=back, **change)
    stranger.changed()
    since = time.monotonic()
    assert job.end() == [RANK, RANK], job.said()
    jobs.checkTime(since, most)
    assert re.search(rf"machine 1 \({re.escape(pair[1].four)}\) is lost: {says[0]}", job[0].said()), job.said()
    assert re.search(f"machine 0 is lost: {says[1]}", job[1].said()), job.said()


def test_after_a_message_that_has_changed_the_machine_comes_again(pair, shared, tmp_path, planOf):
    plan, stranger = planOf("data"), Between(pair[1])
    job = share(pair, shared, tmp_path / "run", "--restarts", 1, *saving(tmp_path), fail=SLOWLY, **plan)
    awaitSaved(tmp_path)
    stranger.change("body")
    stranger.changed()
    assert job[1].end() == RANK, job.said()
    job.startAgain(1)
    checkSaved(job, shared, **plan)
    assert re.search(f"machine 1 .* is lost: {CHANGED}", job[0].said()), job.said()


# Before they have proved who they are.


@pytest.mark.parametrize("caller, part, kinds, change", [
    (1, "hello", (), {"byte": 0}), (1, "challenge", (), {"byte": 0, "back": True}), (1, "proof", (), {}), (1, "body", ("1",), {}),
    (0, "hello", (), {"byte": 0}), (0, "hello", (), {"byte": 9})],
    ids=["nodes-hello", "nodes-challenge", "nodes-proof", "nodes-first-message", "ranks-hello", "ranks-incarnation"])
def test_a_connection_that_changes_before_it_is_proved_ends_alone(caller, part, kinds, change, pair, shared, tmp_path, planOf):
    plan = planOf("data")
    stranger = between(pair[caller], part, *kinds, **change)
    job = share(pair, shared, tmp_path / "run", **plan)
    stranger.changed()
    checkSaved(job, shared, **plan)


@pytest.mark.parametrize("part, change", [("hello", {"byte": 50}), ("answer", {"byte": 10, "back": True}), ("welcome", {"back": True})],
                         ids=["hello", "answer", "welcome"])
def test_a_rank_whose_proof_is_wrong_is_named(part, change, pair, shared, tmp_path, planOf):
    stranger = between(pair[0], part, **change)
    job = share(pair, shared, tmp_path / "run", **planOf("data"))
    stranger.changed()
    since = time.monotonic()
    checkBothSay(job, rf"rank [01]: rank [23] \({re.escape(pair[1].four)} port \d+\): it has another key")
    jobs.checkTime(since, 2)


@pytest.mark.parametrize("part, change", [("hello", {"byte": 40}), ("challenge", {"byte": 60, "back": True})], ids=["hello", "challenge"])
def test_a_machine_whose_proof_is_wrong_is_named(part, change, pair, shared, tmp_path, planOf):
    stranger = between(pair[1], part, **change)
    job = share(pair, shared, tmp_path / "run", **planOf("data"))
    stranger.changed()
    since = time.monotonic()
    assert job[1].end() == INPUT, job.said()
    jobs.checkTime(since, 2)
    assert f"machine 0 at {pair[0].four}:{jobs.PORT}: it has another key" in job[1].said(), job.said()
    jobs.eventually(lambda: f"refused a connection from {pair[1].four}" in job[0].said())
    os.kill(job[0].process.pid, signal.SIGTERM)  # it would wait for machine 1 still
    assert job[0].end() == RANK, job.said()


def test_a_rank_whose_proof_does_not_arrive_calls_again(pair, shared, tmp_path, planOf):
    plan = planOf("data")
    stranger = between(pair[0], "proof")
    job = share(pair, shared, tmp_path / "run", "--timeout", 5, **plan)
    stranger.changed()
    checkSaved(job, shared, **plan)
