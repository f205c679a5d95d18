"""Every fault of matrix.py that one machine can have. A name begins with the row's number."""

import json
import os
import re
import resource
import signal
import subprocess
import time
from pathlib import Path

import matrix
import pytest
import tools
from faults import DISK, DIVERGED, DONE, HANG, INPUT, RANK, STEPS, Run, Training, checkEnded, eventually, processesOf

ROOT = Path(__file__).parents[2]

# Where a rank may be: in the order in which it comes there, with which hit is meant.
PHASES = ["load.before", "attach.before", "attach.before_map", "attach.after", "load.after", "step.before:hit=5",
          "collective.before_start:hit=9", "collective.after_start:hit=9", "wait.before:hit=9", "wait.before_work:hit=9",
          "wait.after:hit=9", "step.after:hit=5", "barrier.before:hit=2", "write.before", "write.after", "save.after_sync", "end.before"]
TRANSFERS = ["send.before:hit=4", "send.after:hit=4", "receive.before:hit=4", "receive.after:hit=4"]


def has(point):
    """Whether the build has failpoints, which all of these tests need."""
    done = subprocess.run([tools.bin() / "polyrank-run", "/nowhere"], env={**os.environ, "POLYRANK_FAIL": point}, capture_output=True)
    return b"is no failpoint" in done.stderr


def test_the_build_has_failpoints():
    assert has("nothing"), "configure with -DPOLYRANK_FAILPOINTS=ON (preset dev)"


def test_the_documentation_has_the_table():
    assert matrix.table() in (ROOT / "docs/operating.md").read_text()


def test_each_row_has_a_test():
    names = [path.read_text() for path in (*ROOT.glob("test/faults/test_*.py"), *ROOT.glob("test/runtime/**/*.cpp"))]
    for row in matrix.ROWS:
        assert any(re.search(rf"\btest_{row.number}_", text) for text in names), row


# 1: a rank is killed.

def placesOf(kind):
    # Of a save rank 0 alone opens the file, and all write to it.
    return [(kind, phase, 0 if phase.startswith(("write", "save")) else 1) for phase in (PHASES if kind == "data" else TRANSFERS)]


@pytest.mark.parametrize("kind,phase,rank", [*placesOf("data"), *placesOf("pipe")], ids=str)
def test_1_a_rank_that_is_killed_is_restarted(kind, phase, rank, trainings, tmp_path):
    training = trainings(kind)
    if kind == "pipe" and phase.startswith("send"):
        rank = 0
    run = Run(training, tmp_path / "run", "--restarts", 2, fail=f"{phase}:rank={rank}:action=kill")
    outcome = run.end()
    assert f"rank {rank} " in outcome.error and "was killed by signal 9" in outcome.error, outcome.error
    assert "start again in 1 s (1 of 2 restarts)" in outcome.error
    training.check(outcome)
    assert [entry["restart"] for entry in outcome.log if "restart" in entry] == [1]


def test_1_a_rank_that_is_killed_ends_the_run_within_a_second(trainings, tmp_path):
    run = Run(trainings("four"), tmp_path / "run", "--steps", 10**9)
    eventually(lambda: run.logged() > 3)
    ranks = run.ranks()
    assert len(ranks) == 4
    since = time.monotonic()
    os.kill(ranks[2], signal.SIGKILL)
    run.process.wait(60)
    taken = time.monotonic() - since
    outcome = run.end()
    checkEnded(outcome, RANK, "rank 2 (data=2) was killed by signal 9", "nothing is saved")
    # The table has all ranks, and marks the one.
    assert re.search(r"\n> rank 2 \(data=2\)  is dead; it was in step \d+, segment", outcome.error), outcome.error
    assert len(re.findall(r"\n[> ] rank \d", outcome.error)) == 4, outcome.error
    assert taken < 5, f"{taken} s, on a machine that other tests share"


def test_1_killed_ranks_again_and_again(trainings, tmp_path):
    fail = ";".join(f"step.before:rank={rank}:attempt={attempt}:hit={hit}:action=kill"
                    for attempt, (rank, hit) in enumerate([(0, 3), (1, 7), (0, 5)], 1))
    outcome = Run(trainings(), tmp_path / "run", "--restarts", 3, fail=fail).end()
    assert [int(pause) for pause in re.findall(r"start again in (\d+) s", outcome.error)] == [1, 2, 4]
    trainings().check(outcome)


def test_1_the_report_says_how_often_it_was_restarted(trainings, tmp_path):
    training = trainings()
    done = subprocess.run([tools.bin() / "polyrank-run", training.plan, "--data", training.data, "--steps", "3", "--json", "--restarts", "1"],
                          env={**os.environ, "POLYRANK_FAIL": "step.after:rank=0:hit=2:action=kill"}, capture_output=True, text=True)
    assert done.returncode == DONE, done.stderr
    report = json.loads(done.stdout)
    assert report["restarts"] == 1 and report["steps"] == 3


# 2: the launcher is killed.

@pytest.mark.parametrize("point", ["log.before_write:hit=4", "output.before_sync"])
def test_2_ranks_end_with_their_launcher(point, trainings, tmp_path):
    run = Run(trainings(), tmp_path / "run", fail=f"{point}:rank=launcher:action=kill")
    outcome = run.end()  # which waits for the ranks
    assert outcome.code == -signal.SIGKILL and outcome.saved is None
    trainings().check(Run(trainings(), tmp_path / "run").end())


# 3: a rank is stopped.

def test_3_a_rank_that_stays_stopped_is_named(trainings, tmp_path):
    outcome = Run(trainings(), tmp_path / "run", "--timeout", 2, fail="collective.before_start:rank=1:hit=7:action=stop").end()
    checkEnded(outcome, HANG, "no rank made progress for 2 s: rank 1 (data=1) is stopped; it is in step ")
    assert re.search(r"\n> rank 1 \(data=1\)  is stopped", outcome.error)
    assert re.search(r"\n  rank 0 \(data=0\)  is in step \d+, segment .*, waits for rank 1 \(data=1\) \(for \d", outcome.error), outcome.error


def test_3_a_hang_is_restarted(trainings, tmp_path):
    outcome = Run(trainings(), tmp_path / "run", "--timeout", 1, "--restarts", 1, fail="step.before:rank=1:hit=5:action=stop").end()
    trainings().check(outcome)


def test_3_a_rank_that_goes_on_changes_nothing(trainings, tmp_path):
    run = Run(trainings(), tmp_path / "run", fail="step.before:rank=1:hit=5:action=stop")
    eventually(lambda: run.logged() == 4)
    time.sleep(0.5)
    for rank in run.ranks():
        os.kill(rank, signal.SIGCONT)
    trainings().check(run.end())


# 4: a rank goes round in circles.

def test_4_a_rank_that_spins_is_named_with_its_op(trainings, tmp_path):
    outcome = Run(trainings(), tmp_path / "run", "--timeout", 2, fail="collective.before_start:rank=0:hit=7:action=spin").end()
    checkEnded(outcome, HANG, "no rank made progress for 2 s: rank 0 (data=0) is in step ")
    assert re.search(r"\n> rank 0 \(data=0\)  is in step \d+, segment '\w+', .* \(command \d+\)", outcome.error), outcome.error


# 5: a rank is slow.

def test_5_a_slow_rank_is_warned_of_and_left_alone(trainings, tmp_path):
    outcome = Run(trainings(), tmp_path / "run", "--timeout", 5, fail="step.before:rank=1:hit=0:action=delay=1200").end()
    trainings().check(outcome)
    assert "rank 1 (data=1) holds the others up" in outcome.error, outcome.error
    assert "rank 0 (data=0) holds" not in outcome.error


# 6 and 7: a rank ends by itself.

@pytest.mark.parametrize("number,action,says", [(6, "exit", "ended with status 0 before it was done"), (7, "segv", "signal 11"),
                                                (7, "abort", "signal 6")])
@pytest.mark.parametrize("restarts", [0, 1])
def test_6_a_rank_that_ends_early_has_failed(number, action, says, restarts, trainings, tmp_path):
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    outcome = Run(trainings(), tmp_path / "run", "--restarts", restarts, fail=f"step.before:rank=1:hit=5:action={action}").end()
    if restarts:
        trainings().check(outcome)
    else:
        checkEnded(outcome, RANK, f"rank 1 (data=1) {'' if number == 6 else 'was killed by '}{says}")


test_7_a_rank_that_crashes_has_failed = None  # with 6


# 8: ranks that do not agree.

def test_8_a_plan_that_is_written_over_while_ranks_start_is_refused(trainings, tmp_path):
    plan, other = tmp_path / "plan", trainings("pipe").plan
    plan.write_bytes(trainings().plan.read_bytes())
    run = Run(Training(plan, trainings().data), tmp_path / "run", fail="load.before:rank=1:action=stop")
    eventually(lambda: len(run.ranks()) == 2)
    eventually(lambda: any("State:\tT" in Path(f"/proc/{rank}/status").read_text() for rank in run.ranks()))
    plan.write_bytes(other.read_bytes())
    for rank in run.ranks():
        os.kill(rank, signal.SIGCONT)
    checkEnded(run.end(), RANK, "read another plan")


# 31: files that are replaced while ranks start.

@pytest.mark.parametrize("option", ["--init", "--data", "--eval-data"])
def test_31_a_file_that_is_replaced_while_ranks_start_is_refused(option, trainings, tmp_path):
    training, given = trainings(), tmp_path / ("w.safetensors" if option == "--init" else "d.npz")
    given.write_bytes(training.weights if option == "--init" else training.data.read_bytes())
    options = (option, given, *(("--eval-every", 4) if option == "--eval-data" else ()))
    if option == "--data":
        training, options = Training(training.plan, given), ()
    for replaced in (True, False):  # by another file, or written over in its place
        run = Run(training, tmp_path / f"run{replaced}", *options, fail="load.before:hit=0:action=stop")
        eventually(lambda: len(run.ranks()) == 2)
        eventually(lambda: all("State:\tT" in Path(f"/proc/{rank}/status").read_text() for rank in run.ranks()))
        if replaced:
            other = tmp_path / "other"
            other.write_bytes(given.read_bytes())
            other.rename(given)
        else:
            given.write_bytes(given.read_bytes())
        for rank in run.ranks():
            os.kill(rank, signal.SIGCONT)
        checkEnded(run.end(), RANK, f"{option} {given}: the file changed while the run started")
    outcome = Run(training, tmp_path / "run", *options).end()
    assert outcome.code == DONE, outcome.error


# 14: the disk is full or fails.

FAILING = ["save.before_allocate:action=enospc", "write.before:action=enospc", "write.before:hit=2:action=eio", "save.before_sync:action=eio",
           "output.before_sync:rank=launcher:action=eio", "output.before_rename:rank=launcher:action=enospc"]


@pytest.mark.parametrize("point", FAILING)
def test_14_a_disk_that_fails_leaves_what_was_there(point, trainings, tmp_path):
    old = b"\2\0\0\0\0\0\0\0{}"  # weights without a tensor
    run = tmp_path / "run"
    run.mkdir()
    (run / "w.safetensors").write_bytes(old)
    outcome = Run(trainings(), run, "--restarts", 3, fail=point).end()
    assert outcome.code == DISK and "w.safetensors: " in outcome.error and "start again" not in outcome.error, outcome.error
    assert ("No space left on device" if "enospc" in point else "Input/output error") in outcome.error
    assert outcome.saved == old


def test_14_a_log_that_cannot_be_written_costs_the_log(trainings, tmp_path):
    outcome = Run(trainings(), tmp_path / "run", fail="log.before_write:rank=launcher:hit=5:action=enospc").end()
    assert outcome.code == DISK and "cannot write the log" in outcome.error and "the run goes on without it" in outcome.error
    assert outcome.saved == trainings().weights and len(outcome.log) == 3


# 15: a crash between any two of these.

@pytest.mark.parametrize("point,rank", [(point, "launcher") for point in ("output.before_sync", "output.after_sync", "output.before_rename",
                                                                         "output.after_rename", "folder.before_sync", "folder.after_sync")] +
                         [(point, 0) for point in ("save.before_allocate", "write.before:hit=2", "write.after", "save.before_sync")])
def test_15_the_old_file_or_the_new_one_is_whole(point, rank, trainings, tmp_path):
    old = b"\2\0\0\0\0\0\0\0{}"
    run = tmp_path / "run"
    run.mkdir()
    (run / "w.safetensors").write_bytes(old)
    training = trainings()
    process = Run(training, run, fail=f"{point}:rank={rank}:action=kill")
    process.process.wait(60)
    # A name that it was given on its way is taken away by the next run.
    eventually(lambda: not processesOf(run), 5)
    after = "after_rename" in point or "folder" in point
    assert (run / "w.safetensors").read_bytes() == (training.weights if after else old)
    training.check(Run(training, run).end())


# 17: a plan that is damaged.

@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_17_a_damaged_plan_starts_no_rank(damage, trainings, tmp_path):
    plan = tmp_path / "plan"
    data = bytearray(trainings().plan.read_bytes())
    if damage == "cut":
        del data[len(data) // 2:]
    else:
        data[len(data) // 2] ^= 16
    plan.write_bytes(data)
    outcome = Run(Training(plan, trainings().data), tmp_path / "run", "--restarts", 3, fail="load.before:action=kill").end()
    checkEnded(outcome, INPUT, str(plan))
    assert "was killed" not in outcome.error and not outcome.log


# 18: NaN.

def test_18_a_nan_on_one_rank_ends_the_run_at_its_step(trainings, tmp_path):
    outcome = Run(trainings(), tmp_path / "run", "--restarts", 3, fail="input.filled:rank=1:hit=5:action=nan").end()
    checkEnded(outcome, DIVERGED, "the loss is NaN", "nothing is saved")
    assert re.search(r"step \d+: the loss is NaN", outcome.error) and "start again" not in outcome.error


# 21: it fails again and again.

def test_21_a_run_that_fails_in_the_same_step_gives_up(trainings, tmp_path):
    outcome = Run(trainings(), tmp_path / "run", "--restarts", 9, fail="step.before:rank=0:attempt=0:hit=4:action=exit").end()
    checkEnded(outcome, RANK, "it failed in the same place before, after step 3")
    assert outcome.error.count("start again in") == 1


def test_21_the_same_step_is_told_before_all_ranks_have_reported_the_one_before(trainings, tmp_path):
    # At the first start rank 1 is late with its report of step 3.
    fail = "step.before:rank=0:attempt=0:hit=4:action=exit;wait.before_work:rank=1:attempt=1:hit=9:action=delay=500"
    outcome = Run(trainings(), tmp_path / "run", "--restarts", 9, fail=fail).end()
    checkEnded(outcome, RANK, "it failed in the same place before, after step 3")
    assert outcome.error.count("start again in") == 1


@pytest.mark.parametrize("point", ["load.after:rank=1", "step.before:rank=0:hit=4"])
def test_21_what_others_do_to_ranks_is_no_sign_of_a_broken_step(point, trainings, tmp_path):
    fail = ";".join(f"{point}:attempt={attempt}:action=kill" for attempt in (1, 2))
    outcome = Run(trainings(), tmp_path / "run", "--restarts", 9, fail=fail).end()
    trainings().check(outcome)
    assert outcome.error.count("start again in") == 2


def test_21_a_run_that_never_comes_to_a_step_gives_up(trainings, tmp_path):
    outcome = Run(trainings(), tmp_path / "run", "--restarts", 9, fail="load.after:rank=1:attempt=0:action=kill").end()
    checkEnded(outcome, RANK, "3 attempts in a row have come no step further")
    assert outcome.error.count("start again in") == 2


def test_21_restarts_are_used_up(trainings, tmp_path):
    fail = ";".join(f"step.before:attempt={attempt}:rank=1:hit={5 - attempt}:action=kill" for attempt in (1, 2))
    outcome = Run(trainings(), tmp_path / "run", "--restarts", 1, fail=fail).end()
    checkEnded(outcome, RANK, "it was started again 1 time (--restarts), and fails still")


# 22: signals.

@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_22_without_checkpoints_a_signal_ends_the_run_at_once(number, trainings, tmp_path):
    run = Run(trainings(), tmp_path / "run", "--steps", 10**9, "--restarts", 3)
    eventually(lambda: run.logged() > 3)
    run.process.send_signal(number)
    checkEnded(run.end(), RANK, f"interrupted by signal {int(number)} ")


def test_22_a_signal_between_two_attempts_ends_the_run(trainings, tmp_path):
    run = Run(trainings(), tmp_path / "run", "--restarts", 3, fail="load.before:rank=1:hit=0:attempt=0:action=kill")
    eventually(lambda: "start again in" in run.said())
    run.process.send_signal(signal.SIGTERM)
    checkEnded(run.end(), RANK, "interrupted by signal 15 (Terminated) before the ranks were started again")


# 23: the clock.

def test_23_nothing_that_waits_reads_the_clock_that_people_set():
    for file in [*(ROOT / "runtime").rglob("*.cpp"), *(ROOT / "runtime").rglob("*.h"), *(ROOT / "tools/polyrank-run").glob("*")]:
        # These say when something was, and wait for nothing.
        if file.parent.name == "report" or file.name == "ErrorFile.cpp":
            continue
        assert not re.search(r"CLOCK_REALTIME|system_clock|gettimeofday|\btime\((nullptr|NULL|0)\)", file.read_text()), file


# 24: limits.

def test_24_too_few_descriptors_are_told_at_the_start(trainings, tmp_path):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    training = trainings("four")
    done = subprocess.run([tools.bin() / "polyrank-run", training.plan, "--data", training.data, "--steps", "1"], capture_output=True, text=True,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32)))
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
    assert done.returncode == INPUT and "4 ranks need 76 open files, and this process may have 32" in done.stderr, done.stderr


def test_24_with_too_little_memory_it_ends_in_good_order(trainings, tmp_path):
    training = trainings()
    for limit in range(50, 90, 5):  # MiB of addresses; with less the system cannot even load the program
        done = subprocess.run([tools.bin() / "polyrank-run", training.plan, "--data", training.data, "--steps", "1"], capture_output=True,
                              text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit << 20, limit << 20)))
        assert done.returncode in (DONE, INPUT, RANK, 127), done
        assert done.returncode in (DONE, 127) or re.search(r"^polyrank-run: \w", done.stderr, re.MULTILINE), done
        assert not processesOf(training.plan.parent)


def test_24_many_data_files_need_no_higher_limit(trainings, tmp_path):
    training = trainings()
    for number in range(100):
        os.link(training.data, tmp_path / f"{number:03}.npz")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    done = subprocess.run([tools.bin() / "polyrank-run", training.plan, "--data", tmp_path / "*.npz", "--steps", "1"], capture_output=True, text=True,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (80, hard)))
    assert done.returncode == DONE, done.stderr


test_25_nothing_is_left = None  # Run.end() asserts it, of each of these


# 26: two runs.

def test_26_a_run_waits_for_the_files_of_another_and_leaves_them_alone(trainings, tmp_path):
    first = Run(trainings(), tmp_path / "first", "--steps", 10**9)
    eventually(lambda: first.logged() > 3)
    others = {"--log": first.logFile, "--save": first.weights}
    both = {option: Run(trainings(), tmp_path / option, option, path, log=False, saves=False) for option, path in others.items()}
    for option, run in both.items():
        checkEnded(run.end(), RANK, f"{option} {others[option]}: another run is writing it; this one waits up to 5 s", "start this one when that has ended")
    stopped, third = (Run(trainings(), tmp_path / name, "--log", first.logFile, log=False) for name in ("stopped", "third"))
    for run in (stopped, third):
        eventually(lambda: "another run is writing it" in run.said())
    stopped.process.send_signal(signal.SIGTERM)
    checkEnded(stopped.end(), RANK, "interrupted by a signal before the ranks were started")
    first.process.send_signal(signal.SIGTERM)
    assert first.process.wait(60) == RANK
    outcome = third.end()
    checkEnded(first.end(), RANK)
    assert outcome.code == DONE and outcome.saved == trainings().weights, outcome.error
    assert b"\0" not in first.logFile.read_bytes() and len([1 for record in first.records() if "step" in record]) == STEPS
