"""The faults that Polyrank is tested with, as docs/operating.md has them: `matrix.py` prints its table."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    number: int  # of a row of the list of faults that the tests follow
    fault: str
    becomes: str
    code: str  # exit codes, without --restarts


ROWS = [
    Row(1, "a rank is killed, at any moment",
        "the run ends within a second and names it; with `--restarts` all ranks start again, and the weights are the same", "2"),
    Row(2, "the launcher is killed", "its ranks end within five seconds, nothing is left; started again, the run goes on from its newest checkpoint",
        "-"),
    Row(3, "a rank is stopped and stays so", "the watchdog names it after `--timeout`; one that goes on in time changes nothing", "3"),
    Row(4, "a rank goes round in circles", "the watchdog names it, with its step and its op in the model", "3"),
    Row(5, "a rank is slow", "the run takes longer, and a warning names the rank", "0"),
    Row(6, "a rank ends early, as if all were well", "a failed rank: the end is an act of all", "2"),
    Row(7, "a rank crashes (SEGV, ABRT, out of memory)", "a failed rank, with its signal", "2"),
    Row(8, "ranks read different plans", "refused before the first step", "2"),
    Row(14, "the disk is full or fails, at any write, sync or rename", "what was there stays as it was; the error names the file", "5"),
    Row(14, "the disk fills up while a run lasts", "the room for `--save` was kept from the start: the weights are saved", "0"),
    Row(14, "the log cannot be written", "the run goes on without it, saves, and says so at the end", "5"),
    Row(15, "a crash between any two of these", "the old file whole, or the new one whole", "2"),
    Row(16, "a checkpoint is cut off, or a bit of it flips", "reported, and the one before it is taken", "0"),
    Row(32, "a checkpoint cannot be read now (too many open files, no permission, a disk or network that fails)",
        "nothing is renamed and no older one is taken; it goes on when it can be read", "2"),
    Row(33, "of all checkpoints only such are left as were set aside", "`--resume auto` refuses to begin from the start, and says the ways out", "1"),
    Row(34, "data cannot be read (EIO)", "as a rank that failed: `--restarts` tries it again", "2"),
    Row(29, "a run ends while it evaluates, whoever is killed",
        "the evaluation is made again and reported once; --patience counts on: the last step and the weights are the same", "-"),
    Row(30, "checkpoints come faster than the disk takes them", "one is written and one waits; the others are skipped, and counted", "0"),
    Row(31, "the file of `--init`, data or evaluation data are replaced while ranks start", "refused before the first step: no rank has another file than the others",
        "2"),
    Row(17, "the plan is cut off, or a bit of it flips", "refused before any rank starts", "1"),
    Row(18, "a NaN on one rank", "the step is named, nothing is saved and no checkpoint made of it, and no restart tries it again", "6"),
    Row(20, "a checkpoint is resumed on another mesh", "the same samples in the same order, values equal to rounding", "0"),
    Row(21, "the run fails again and again", "no restart after three attempts in a row without a step, nor after ranks failed in the same step twice",
        "2"),
    Row(22, "SIGTERM, SIGUSR1 or SIGINT", "with `--checkpoint`: the step is finished and saved; else all ends at once", "4, else 2"),
    Row(22, "a rank is killed while a signal ends the run", "with `--checkpoint`: the run goes on from its newest one when it is started again",
        "4, else 2"),
    Row(22, "a signal between two attempts, before the ranks of a run that goes on have started, or again while a checkpoint is committed",
        "with `--checkpoint`: all that can be saved is, and the run ends", "4, else 2"),
    Row(22, "SIGTERM while the run evaluates", "the checkpoint of the step is there already; the run ends before the next batch", "4"),
    Row(23, "the clock jumps", "nothing: only the monotonic clock is read", "0"),
    Row(24, "too few file descriptors", "refused at the start, with how many are needed", "1"),
    Row(24, "too little memory or too few threads", "refused at the start where that can be foreseen (1), else a failed rank", "1 or 2"),
    Row(26, "two runs write to one file, or into one folder of checkpoints", "the second waits five seconds, then ends, and has touched nothing", "2"),
    Row(25, "what is left after any of these", "no process, no shared memory, no unfinished file", ""),
]


def table():
    lines = ["| fault | what happens | exit code |", "|---|---|---|"]
    return "\n".join(lines + [f"| {row.fault} | {row.becomes} | {row.code} |" for row in ROWS])


if __name__ == "__main__":
    print(table())
