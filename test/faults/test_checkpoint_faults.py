"""What happens to a run with checkpoints, and to them: rows of matrix.py, as in test_faults.py."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tools
from faults import DISK, DIVERGED, DONE, INPUT, PREEMPTED, RANK, STEPS, Run, checkEnded, eventually

# Where a rank, or the launcher that commits, may be in a checkpoint's way; with which hit a later one than the first is meant.
RANKS = ["checkpoint.before_copy:hit=2", "checkpoint.before_create:hit=2", "checkpoint.after_create:hit=2", "write.before:hit=2", "write.after:hit=4",
         "checkpoint.before_sync:hit=2", "checkpoint.after_sync:hit=2"]
LAUNCHER = ["checkpoint.before_create:hit=2", "checkpoint.before_sync:hit=2", "checkpoint.after_sync:hit=2", "checkpoint.before_folder_sync:hit=3",
            "checkpoint.before_rename:hit=2", "checkpoint.after_rename:hit=2", "checkpoint.after_folder_sync:hit=4"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def goOn(training, run):
    """The same command line once more, with --resume."""
    return Run(training, run.folder, "--resume", "auto", every=3).end()


def isUndisturbed(training, outcome):
    assert outcome.code == DONE, outcome.error
    assert outcome.saved == training.weights


# 1: a rank is killed, and all start again from the newest checkpoint.

@pytest.mark.parametrize("phase", RANKS)
def test_1_a_rank_that_is_killed_in_a_checkpoint_is_restarted(phase, trainings, tmp_path):
    run = Run(trainings(), tmp_path / "run", "--restarts", 2, fail=f"{phase}:rank=1:action=kill", every=3)
    outcome = run.end()
    assert "rank 1 (data=1) was killed by signal 9" in outcome.error, outcome.error
    trainings().check(outcome)
    assert names(run.checkpoints) == ["step-000000003", "step-000000006", "step-000000009", "step-000000012"]


def test_1_a_restart_goes_on_from_the_newest_checkpoint(trainings, tmp_path):
    run = Run(trainings("four"), tmp_path / "run", "--restarts", 2, fail="step.before:rank=2:hit=9:action=kill;"
              "step.before:rank=1:hit=4:attempt=2:action=kill", every=3)
    outcome = run.end()
    trainings("four").check(outcome)
    assert len(re.findall(r"going on from \S*/step-00000000[36], after step [36]", outcome.error)) >= 1, outcome.error


# 2 and 15: the launcher is killed, at each call by which a checkpoint comes to be. What is there then is whole.

@pytest.mark.parametrize("point", LAUNCHER)
def test_2_a_run_whose_launcher_is_killed_goes_on(point, trainings, tmp_path):
    run = Run(trainings(), tmp_path / "run", fail=f"{point}:rank=launcher:action=kill", every=3)
    assert run.end().code == -signal.SIGKILL
    for path in run.checkpoints.glob("step-*"):
        tools.tool("run", trainings().plan, "--data", trainings().data, "--steps", STEPS, "--seed", 3, "--resume", path, "--check")
    isUndisturbed(trainings(), goOn(trainings(), run))
    assert all(name.startswith("step-") for name in names(run.checkpoints))


def test_22_a_signal_before_the_ranks_of_a_run_that_goes_on_loses_nothing(trainings, tmp_path):
    assert Run(trainings(), tmp_path / "run", fail="checkpoint.after_rename:rank=launcher:hit=2:action=kill", every=3).end().code == -signal.SIGKILL
    run = Run(trainings(), tmp_path / "run", "--resume", "auto", fail="launch.before:rank=launcher:action=delay=3000", every=3)
    eventually(lambda: "going on from" in run.said())
    run.process.send_signal(signal.SIGTERM)
    checkEnded(run.end(), PREEMPTED, "interrupted by a signal before the ranks were started")
    isUndisturbed(trainings(), goOn(trainings(), run))


# 14: the disk.

@pytest.mark.parametrize("point", ["checkpoint.before_create:hit=2:rank=0:action=enospc", "write.before:hit=2:rank=1:action=enospc",
                                   "checkpoint.before_sync:hit=2:rank=1:action=eio", "checkpoint.before_rename:hit=2:rank=launcher:action=eio",
                                   "checkpoint.before_folder_sync:hit=3:rank=launcher:action=eio"])
def test_14_a_checkpoint_that_cannot_be_written_costs_that_one_alone(point, trainings, tmp_path):
    run = Run(trainings(), tmp_path / "run", fail=point, every=3)
    outcome = run.end()
    trainings().check(outcome)
    assert re.search(r"the checkpoint of step [36] could not be written: ", outcome.error), outcome.error
    assert "step-000000012" in names(run.checkpoints)


def test_14_the_last_checkpoint_that_cannot_be_written_is_the_exit_code(trainings, tmp_path):
    outcome = Run(trainings(), tmp_path / "run", fail="checkpoint.before_sync:hit=0:rank=1:action=eio", every=6).end()
    assert outcome.code == DISK and "Input/output error" in outcome.error, outcome.error
    assert outcome.saved == trainings().weights


# 16: a checkpoint is damaged.

@pytest.mark.parametrize("damage", ["cut", "flipped", "missing", "manifest"])
def test_16_a_damaged_checkpoint_is_passed_over(damage, trainings, tmp_path):
    run = Run(trainings(), tmp_path / "run", "--steps", 9, every=3, saves=False)
    assert run.end().code == DONE
    newest = run.checkpoints / "step-000000009"
    shard = newest / "manifest.json" if damage == "manifest" else sorted(newest.glob("shard-*"))[0]
    data = bytearray(shard.read_bytes())
    if damage == "cut":
        shard.write_bytes(data[:-1])
    elif damage == "missing":
        shard.unlink()
    else:
        data[len(data) // 2] ^= 1
        shard.write_bytes(data)
    outcome = goOn(trainings(), run)
    isUndisturbed(trainings(), outcome)
    assert f"passed over, for an older checkpoint: {newest}" in outcome.error, outcome.error
    assert "step-000000006, after step 6" in outcome.error


# 32: a checkpoint that may be whole, and cannot be read now.

def test_32_a_checkpoint_that_cannot_be_read_now_is_left_alone(trainings, tmp_path):
    run = Run(trainings(), tmp_path / "run", "--steps", 6, every=3, saves=False)
    assert run.end().code == DONE
    for point, reason in (("checkpoint.before_open:rank=launcher:action=emfile", "Too many open files"),
                          ("checkpoint.before_open:rank=1:action=eacces", "Permission denied"),
                          ("checkpoint.before_shard:rank=0:action=eio", "Input/output error"),
                          ("checkpoint.before_shard:rank=1:action=estale", "Stale file handle")):
        outcome = Run(trainings(), run.folder, "--resume", "auto", every=3, log=False, fail=point).end()
        checkEnded(outcome, RANK, reason, "the checkpoint may be whole and stays as it is")
        assert "passed over" not in outcome.error
        assert names(run.checkpoints) == ["step-000000003", "step-000000006"]
    isUndisturbed(trainings(), goOn(trainings(), run))


# 33: one that was set aside is no reason to begin from the start.

def test_33_auto_does_not_begin_from_the_start_beside_damaged_checkpoints(trainings, tmp_path):
    run = Run(trainings(), tmp_path / "run", "--steps", 3, every=3, saves=False)
    assert run.end().code == DONE
    whole, aside = run.checkpoints / "step-000000003", run.checkpoints / "step-000000003.damaged"
    whole.rename(aside)
    checkEnded(goOn(trainings(), run), INPUT, "step-000000003.damaged was set aside", "without --resume")
    aside.rename(whole)
    isUndisturbed(trainings(), goOn(trainings(), run))


# 34: data that cannot be read is not wrong.

def test_34_an_error_of_the_disk_under_the_data_is_one_of_the_rank(trainings, tmp_path):
    fail = "data.before_read:rank=1:hit=330:action=eio"
    outcome = Run(trainings(), tmp_path / "once", fail=fail).end()
    checkEnded(outcome, RANK, "data.npz: cannot be read: Input/output error")
    outcome = Run(trainings(), tmp_path / "again", "--restarts", 1, fail=fail, every=3).end()
    assert "start again in 1 s" in outcome.error
    isUndisturbed(trainings(), outcome)


# 30: a disk that does not keep up.

def test_30_of_checkpoints_that_come_too_fast_some_are_skipped(trainings, tmp_path):
    run = Run(trainings(), tmp_path / "run", "--keep", 2, fail="checkpoint.before_folder_sync:rank=launcher:hit=0:action=delay=500", every=1)
    most = 0
    while run.process.poll() is None:
        most = max(most, len(list(run.checkpoints.glob(".tmp-*"))))
        time.sleep(0.005)
    outcome = run.end()
    trainings().check(outcome)
    assert 1 <= most <= 3  # the last one is never skipped
    assert "is skipped (1 so far): two before it are not on the disk yet" in outcome.error, outcome.error
    assert names(run.checkpoints)[-1] == "step-000000012" and len(names(run.checkpoints)) == 2


# 18: NaN.

def test_18_no_checkpoint_is_made_of_a_nan(trainings, tmp_path):
    run = Run(trainings(), tmp_path / "run", "--restarts", 3, fail="input.filled:rank=1:hit=11:action=nan", every=1)  # of two inputs
    outcome = run.end()
    # Whichever is seen first: the loss, or the weights that were to be saved.
    checkEnded(outcome, DIVERGED, "NaN")
    assert "step 6: the loss is NaN" in outcome.error or "values after step 6" in outcome.error
    assert "start again" not in outcome.error
    # The last ones may not have been durable when the run ended.
    assert "step-000000001" <= names(run.checkpoints)[-1] <= "step-000000005"
    isUndisturbed(trainings(), goOn(trainings(), run))


# 20: another mesh.

def test_20_a_checkpoint_goes_on_on_another_mesh(trainings, tmp_path):
    run = Run(trainings("four"), tmp_path / "run", "--steps", 6, every=3, saves=False)
    assert run.end().code == DONE
    outcome = Run(trainings(), tmp_path / "run", "--resume", run.checkpoints, log=False).end()
    assert outcome.code == DONE, outcome.error
    assert len(outcome.saved) == len(trainings().weights)


# 21: it fails again and again.

def test_21_a_run_that_fails_in_the_same_step_after_a_checkpoint_gives_up(trainings, tmp_path):
    # The 5th step of the first start, and the 2nd of one from step 3.
    fail = "step.before:rank=0:attempt=1:hit=5:action=exit;step.before:rank=0:attempt=2:hit=2:action=exit"
    run = Run(trainings(), tmp_path / "run", "--restarts", 9, fail=fail, every=3)
    outcome = run.end()
    if "going on from" in outcome.error:  # step 3 was durable in time
        checkEnded(outcome, RANK, "it failed in the same place before, after step 4", "--resume")


def test_21_the_time_between_checkpoints_counts_from_where_a_run_starts_again(trainings, tmp_path):
    # 50 quick steps, which end before a second, and then slow ones from the first.
    fail = "step.before:rank=0:attempt=1:hit=50:action=kill;step.before:rank=0:attempt=2:hit=0:action=delay=100"
    run = Run(trainings(), tmp_path / "run", "--restarts", 1, "--steps", 10**6, fail=fail, every="1s")
    eventually(lambda: "start again in" in run.said() and names(run.checkpoints))
    assert names(run.checkpoints)[0] < "step-000000050"
    run.process.send_signal(signal.SIGTERM)
    checkEnded(run.end(), PREEMPTED)


def test_21_a_load_that_outlasts_the_time_between_checkpoints_ends_none_of_them(trainings, tmp_path):
    assert Run(trainings(), tmp_path / "run", "--steps", 6, every=3, saves=False).end().code == DONE
    fail = "load.before:hit=0:action=delay=1500;step.before:hit=0:attempt=0:action=delay=100"
    run = Run(trainings(), tmp_path / "run", "--resume", "auto", "--steps", 10**6, fail=fail, every="1s")
    eventually(lambda: names(run.checkpoints)[-1] > "step-000000006" and "." not in names(run.checkpoints)[-1])
    run.process.send_signal(signal.SIGTERM)
    checkEnded(run.end(), PREEMPTED)


# 22: signals.

@pytest.mark.parametrize("kind", ["data", "pipe"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_22_a_signal_has_the_step_finished_and_saved(number, kind, trainings, tmp_path):
    run = Run(trainings(kind), tmp_path / "run", fail="step.before:hit=0:attempt=0:action=delay=100", every=1000)
    eventually(lambda: run.logged() >= 4)
    run.process.send_signal(number)
    outcome = run.end()
    checkEnded(outcome, PREEMPTED, f"ended by signal {int(number)} ", f"--resume {run.checkpoints}")
    [name] = names(run.checkpoints)
    step = int(name.removeprefix("step-"))
    assert 4 <= step < STEPS and f"after step {step} " in outcome.error, outcome.error
    assert f"the run ends when step {step} is done and saved" in outcome.error
    assert max(entry["step"] for entry in outcome.log if "step" in entry) == step
    isUndisturbed(trainings(kind), Run(trainings(kind), run.folder, "--resume", "auto", every=1000).end())


def test_22_a_second_interrupt_ends_the_run_at_once_and_a_second_sigterm_does_not(trainings, tmp_path):
    for second, code in ((signal.SIGTERM, PREEMPTED), (signal.SIGINT, RANK)):
        run = Run(trainings(), tmp_path / f"run{int(second)}", fail="step.after:rank=1:hit=4:action=delay=1500", every=1000)
        eventually(lambda: run.logged() >= 4)
        run.process.send_signal(signal.SIGTERM)
        eventually(lambda: "is done and saved" in run.said())
        run.process.send_signal(second)
        assert run.end().code == code


def test_22_while_the_launcher_commits_a_scheduler_changes_nothing_and_a_user_who_insists_does(trainings, tmp_path):
    for second, code in ((signal.SIGTERM, PREEMPTED), (signal.SIGINT, RANK)):
        run = Run(trainings(), tmp_path / f"run{int(second)}", every=1000,
                  fail="step.before:hit=0:action=delay=100;checkpoint.before_rename:rank=launcher:action=delay=3000")
        eventually(lambda: run.logged() >= 4)
        run.process.send_signal(signal.SIGTERM)
        eventually(lambda: not run.ranks())
        time.sleep(0.2)
        assert run.process.poll() is None
        since = time.monotonic()
        run.process.send_signal(second)
        assert run.process.wait(60) == code, run.said()
        if code == RANK:
            assert time.monotonic() - since < 2 and "waited for the disk to take a checkpoint" in run.said()
        else:
            [name] = names(run.checkpoints)
            checkEnded(run.end(), PREEMPTED, f"--resume {run.checkpoints}")
            assert f"the run ends when step {int(name.removeprefix('step-'))} is done" in run.said()
    # What it left unfinished is gone with the next start.
    isUndisturbed(trainings(), Run(trainings(), run.folder, "--resume", "auto", every=1000).end())


def test_22_a_rank_that_is_killed_while_a_signal_ends_the_run_is_no_failure_of_its_own(trainings, tmp_path):
    run = Run(trainings(), tmp_path / "run", "--restarts", 3, fail="step.after:rank=1:hit=9:action=delay=1500", every=2)
    eventually(lambda: run.logged() >= 8 and names(run.checkpoints))
    run.process.send_signal(signal.SIGTERM)
    eventually(lambda: "is done and saved" in run.said())
    os.kill(run.ranks()[0], signal.SIGKILL)
    outcome = run.end()
    checkEnded(outcome, PREEMPTED, f"--resume {run.checkpoints}", "was killed by signal 9", "interrupted by signal 15 (Terminated)")
    isUndisturbed(trainings(), goOn(trainings(), run))


@pytest.mark.parametrize("moment", ["pause", "load", "commit"])
def test_22_between_two_attempts_nothing_is_lost(moment, trainings, tmp_path):
    fail = "step.before:rank=1:hit=9:action=kill"
    if moment == "load":
        fail += ";load.before:rank=1:attempt=2:action=delay=3000"
    if moment == "commit":
        fail += ";checkpoint.before_rename:rank=launcher:hit=2:action=delay=1000"
    run = Run(trainings(), tmp_path / "run", "--restarts", 3, fail=fail, every=2)
    if moment == "commit":
        eventually(lambda: "is dead; it was in step" in run.said())
    else:
        eventually(lambda: "start again in" in run.said())
    if moment == "load":
        eventually(lambda: len(run.ranks()) == 2)
    run.process.send_signal(signal.SIGTERM)
    outcome = run.end()
    checkEnded(outcome, PREEMPTED, "interrupted by signal 15 (Terminated)")
    isUndisturbed(trainings(), goOn(trainings(), run))


def test_22_a_signal_before_the_first_step_ends_the_run_at_once(trainings, tmp_path):
    run = Run(trainings(), tmp_path / "run", fail="load.before:rank=1:action=delay=1500", every=3)
    eventually(lambda: len(run.ranks()) == 2)
    run.process.send_signal(signal.SIGTERM)
    checkEnded(run.end(), RANK, "interrupted by signal 15")


def test_22_a_checkpoint_that_a_signal_asks_for_and_the_disk_refuses(trainings, tmp_path):
    run = Run(trainings(), tmp_path / "run", fail="step.after:rank=1:hit=4:action=delay=1500;checkpoint.before_sync:rank=1:action=enospc", every=1000)
    eventually(lambda: run.logged() >= 4)
    run.process.send_signal(signal.SIGTERM)
    checkEnded(run.end(), DISK, "its checkpoint could not be written", "No space left on device")


def test_22_all_ranks_ignore_what_a_scheduler_sends_to_all(trainings, tmp_path):
    run = Run(trainings(), tmp_path / "run", fail="step.before:hit=0:action=delay=100", every=1000)
    eventually(lambda: run.logged() >= 4)
    for process in [*run.ranks(), run.process.pid]:
        os.kill(process, signal.SIGTERM)
    checkEnded(run.end(), PREEMPTED)


def manySamples(training, folder):
    """Enough that an evaluation takes its time."""
    with np.load(training.data) as few:
        np.savez(folder / "many.npz", **{name: np.concatenate([few[name]] * 20) for name in few.files})
    return folder / "many.npz"


def test_22_a_signal_in_an_evaluation_is_heard_between_two_batches(trainings, tmp_path):
    evaluates = ("--eval-data", manySamples(trainings(), tmp_path), "--eval-every", 4)
    straight = Run(trainings(), tmp_path / "straight", *evaluates).end()
    isUndisturbed(trainings(), straight)
    run = Run(trainings(), tmp_path / "run", *evaluates, fail="evaluate.batch:hit=0:action=delay=600", every=4)
    # It comes before the evaluation, of 12 s at least.
    eventually(lambda: run.checkpoints.exists() and names(run.checkpoints) == ["step-000000004"])
    assert run.logged() == 4 and "eval_loss" not in run.said()
    run.process.send_signal(signal.SIGTERM)
    since = time.monotonic()
    checkEnded(run.end(), PREEMPTED, "after step 4 ", f"--resume {run.checkpoints}")
    assert time.monotonic() - since < 8 and "eval_loss" not in run.said()
    outcome = Run(trainings(), run.folder, "--resume", "auto", *evaluates, every=4).end()
    isUndisturbed(trainings(), outcome)
    assert evaluations(outcome) == evaluations(straight)


# 29: evaluations, and what --patience makes of them.

def evaluations(outcome):
    return [{name: value for name, value in entry["eval"].items() if name != "seconds"} for entry in outcome.log if "eval" in entry]


def test_29_patience_is_over_after_the_same_step_whoever_is_killed_when(trainings, tmp_path):
    options = ("--eval-data", trainings("rising").data, "--eval-every", 2, "--patience", 3, "--resume", "auto", "--restarts", 2)
    straight = Run(trainings("rising"), tmp_path / "straight", *options, every=3).end()
    assert straight.code == DONE and [entry["step"] for entry in evaluations(straight)] == [2, 4, 6, 8], straight.error
    # Ranks that die in the evaluation after step 6, before and after it is told; and the launcher.
    for number, fail in enumerate(["evaluate.before:rank=1:hit=3:action=kill", "evaluate.after:rank=0:hit=3:action=kill",
                                   "evaluate.after:rank=1:hit=3:action=kill", "step.before:rank=0:hit=8:action=kill",
                                   "log.before_write:rank=launcher:hit=12:action=kill",
                                   # An evaluation that takes its time, after which the manifest is replaced.
                                   "evaluate.batch:hit=0:action=delay=60;checkpoint.before_replace:rank=launcher:action=kill",
                                   "evaluate.batch:hit=0:action=delay=60;checkpoint.after_replace:rank=launcher:action=kill"]):
        place = tmp_path / f"run{number}"
        outcome = Run(trainings("rising"), place, *options, fail=fail, every=3).end()
        if outcome.code == -signal.SIGKILL:
            outcome = Run(trainings("rising"), place, *options, every=3).end()
        assert outcome.code == DONE and outcome.saved == straight.saved, (fail, outcome.error)
        assert evaluations(outcome) == evaluations(straight), fail
        assert max(entry["step"] for entry in outcome.log if "step" in entry) == 8, fail


# 26: two runs.

def test_26_a_run_chooses_what_it_goes_on_from_when_the_one_before_has_ended(trainings, tmp_path):
    first = Run(trainings(), tmp_path / "first", fail="step.before:hit=0:action=delay=50", every=3)
    eventually(lambda: first.logged() >= 4)
    second = Run(trainings(), tmp_path / "second", "--checkpoint", first.checkpoints, "--resume", "auto")
    eventually(lambda: "another run is writing checkpoints there" in second.said())
    first.process.send_signal(signal.SIGTERM)
    assert first.process.wait(60) == PREEMPTED
    newest = re.search(r"ended by signal 15 \(Terminated\) after step (\d+)", first.said())[1]
    outcome = second.end()
    checkEnded(first.end(), PREEMPTED)
    isUndisturbed(trainings(), outcome)
    assert f"/step-{int(newest):09}, after step {newest}" in outcome.error, outcome.error


def test_26_a_run_that_is_refused_leaves_no_folder(trainings, tmp_path):
    outcome = Run(trainings(), tmp_path / "run", "--data", tmp_path / "none.npz", every=3).end()
    assert outcome.code == INPUT and not (tmp_path / "run/checkpoints").exists(), outcome.error


# The same at random moments: a few here, hundreds by hand.

def test_2_weights_are_the_same_whoever_is_killed_when():
    done = subprocess.run([sys.executable, Path(__file__).parent / "soak.py", "--times", "5"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "the weights are always the same" in done.stdout, done.stdout + done.stderr[-4000:]
