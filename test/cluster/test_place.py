"""Under each real launcher every process knows which machine it is on, and where machine 0 is."""

import re
import subprocess

import pytest
import tools

SECONDS = 120


def placesOf(start, cluster, shared, out, tasks, ranks):
    """Returns the line of `--check` about the place of each task, sorted, with its machine's name before it."""
    out.mkdir()
    # The name of the file has no $$, which torchrun would turn into $.
    command = (f"{tools.bin().resolve()}/polyrank-run {ranks}.plan --whole-plan --key job.key --data data.npz --steps 1 --check "
               f"> $(mktemp {out}/$(hostname).XXXXXX) 2>&1")
    log = out.parent / f"{out.name}.log"
    with open(log, "wb") as file:
        started = start(cluster, "sh", "-c", command, tasks=tasks, folder=shared, stdout=file, stderr=file)
        codes = [process.wait(SECONDS) for process in started]
    texts = sorted(path.name[0] + " " + path.read_text() for path in out.iterdir())
    assert codes == [0] * len(codes), f"{codes}\n{log.read_text()}\n{texts}"
    return sorted(re.search(r"^(.) place +ok +(.*)$", text, re.M).expand(r"\1: \2") for text in texts)


LAUNCHERS = ["mpirun", "srun", "srun-pmix", "torchrun"]
SOURCES = {"mpirun": "OMPI_COMM_WORLD_RANK=", "srun": "SLURM_NODEID=", "srun-pmix": "hosts by PMIx", "torchrun": "GROUP_RANK="}
HOSTS = {"mpirun": "10.77.0.1", "srun": "a", "srun-pmix": "10.77.0.1", "torchrun": "a"}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_task_on_each_machine(launcher, startBy, shared):
    cluster, start = startBy(launcher)
    first, second = placesOf(start, cluster, shared, shared / f"places-{launcher}-1", 1, 2)
    port = re.search(r":(\d+) ", first)[1]
    assert first.startswith(f"a: machine 0 of 2; machine 0 is at {HOSTS[launcher]}:{port} (")
    assert second.startswith(f"b: machine 1 of 2; machine 0 is at {HOSTS[launcher]}:{port} (")
    assert SOURCES[launcher] in first and SOURCES[launcher] in second


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_task_for_each_rank(launcher, startBy, shared):
    cluster, start = startBy(launcher)
    places = placesOf(start, cluster, shared, shared / f"places-{launcher}-2", 2, 2)
    assert [place.split(";")[0] for place in places] == [
        f"{name}: machine {machine} of 2, task {task} of 2 on it" for machine, name in enumerate("ab") for task in (0, 1)]


def test_tasks_that_are_not_ranks_are_refused_with_both_numbers(startBy, shared):
    cluster, start = startBy("mpirun")
    (process,) = start(cluster, tools.bin().resolve() / "polyrank-run", "1.plan", "--whole-plan", "--key", "job.key", "--data", "data.npz",
                       "--steps", 1, tasks=2, folder=shared, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = process.communicate(timeout=SECONDS)[0].decode()
    assert process.returncode != 0
    assert "mpirun has started 4 tasks for 2 ranks" in text
