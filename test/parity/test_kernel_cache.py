"""--kernel-cache: plans are the same with it and without, and what the folder cannot do is said."""

import json
import subprocess
import threading

import pytest

import tools
from tools import Case

TENSOR = ("fc1.weight=[tensor,-]", "fc2.weight=[-,tensor]")


@pytest.fixture(autouse=True)
def noFolder(monkeypatch):
    """Without the folder that the other tests share."""
    monkeypatch.delenv("POLYRANK_KERNEL_CACHE")


def compiled(onnx, plan, *more, mesh="data=2", shard=()):
    """The plan's bytes, and where its kernels came from: (found, compiled)."""
    case = Case("mlp", mesh, shard=shard)
    shards = [word for each in shard for word in ("--shard", each)]
    report = json.loads(tools.tool("compile", onnx, "-o", plan, "--mesh", mesh, *case.spec.inputOptions, "--loss", case.spec.lossOption,
                                   "--optimizer", "adamw(lr=1e-3)", *shards, "--json", *more)[0])
    kernels = report.get("kernels")
    return plan.read_bytes(), kernels and (kernels["found"], kernels["compiled"])


def test_a_plan_is_the_same_with_kernels_of_the_folder(exported, tmp_path):
    folder = ("--kernel-cache", tmp_path / "kernels")
    without, none = compiled(exported("mlp"), tmp_path / "a.plan")
    again, _ = compiled(exported("mlp"), tmp_path / "a.plan")
    first, (found, made) = compiled(exported("mlp"), tmp_path / "a.plan", *folder)
    second, counts = compiled(exported("mlp"), tmp_path / "a.plan", *folder)
    assert none is None and found == 0 and made > 0 and counts == (made, 0)
    assert without == again == first == second


def test_another_mesh_has_some_of_the_kernels(exported, tmp_path):
    folder = ("--kernel-cache", tmp_path / "kernels")
    without, _ = compiled(exported("mlp"), tmp_path / "a.plan", mesh="tensor=2", shard=TENSOR)
    _, (_, all) = compiled(exported("mlp"), tmp_path / "b.plan", *folder)
    plan, (found, made) = compiled(exported("mlp"), tmp_path / "a.plan", *folder, mesh="tensor=2", shard=TENSOR)
    assert 0 < found <= all and made > 0
    assert plan == without


def test_another_machine_has_none_of_them(exported, tmp_path):
    folder = ("--kernel-cache", tmp_path / "kernels")
    for cpu in ("x86-64-v3", "x86-64-v4", "haswell"):
        assert compiled(exported("mlp"), tmp_path / "a.plan", *folder, "--cpu", cpu)[1][0] == 0, cpu


def test_the_environment_may_name_the_folder(exported, tmp_path, monkeypatch):
    monkeypatch.setenv("POLYRANK_KERNEL_CACHE", str(tmp_path / "kernels"))
    _, (_, all) = compiled(exported("mlp"), tmp_path / "a.plan")
    said = tools.tool("compile", exported("mlp"), "-o", tmp_path / "a.plan", "--mesh", "data=2", *Case("mlp", "data=2").spec.inputOptions,
                      "--loss", Case("mlp", "data=2").spec.lossOption, "--optimizer", "adamw(lr=1e-3)", "--timing")[1]
    assert f"kernels: {all} from '{tmp_path / 'kernels'}', 0 compiled\n" in said
    # The command line says more than the environment.
    assert compiled(exported("mlp"), tmp_path / "a.plan", "--kernel-cache", tmp_path / "others")[1] == (0, all)


def test_compilers_share_a_folder_at_once(exported, tmp_path):
    plans = {}

    def compile(number):
        plans[number] = compiled(exported("mlp"), tmp_path / f"{number}.plan", "--kernel-cache", tmp_path / "kernels")

    threads = [threading.Thread(target=compile, args=(number,)) for number in range(4)]
    [each.start() for each in threads], [each.join() for each in threads]
    without, _ = compiled(exported("mlp"), tmp_path / "a.plan")
    assert len(plans) == 4 and all(plan == without for plan, _ in plans.values())
    # What each wrote is whole.
    _, (found, made) = compiled(exported("mlp"), tmp_path / "a.plan", "--kernel-cache", tmp_path / "kernels")
    assert found > 0 and made == 0


def test_a_damaged_kernel_is_compiled_again(exported, tmp_path):
    folder = tmp_path / "kernels"
    before, (_, all) = compiled(exported("mlp"), tmp_path / "a.plan", "--kernel-cache", folder)
    file = sorted(folder.glob("llvmcache-*"))[0]
    bytes = bytearray(file.read_bytes())
    bytes[-1] ^= 1
    file.write_bytes(bytes)
    command = [tools.bin() / "polyrank-compile", exported("mlp"), "-o", tmp_path / "a.plan", "--mesh", "data=2",
               *Case("mlp", "data=2").spec.inputOptions, "--loss", Case("mlp", "data=2").spec.lossOption, "--optimizer", "adamw(lr=1e-3)",
               "--timing", "--kernel-cache", folder]
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, timeout=tools.SECONDS)
    assert done.returncode == 0
    assert f"the kernel in '{file}' is damaged, and is compiled again\n" in done.stderr
    assert f"kernels: {all - 1} from '{folder}', 1 compiled\n" in done.stderr
    assert (tmp_path / "a.plan").read_bytes() == before


@pytest.mark.parametrize("source", ["--kernel-cache", "POLYRANK_KERNEL_CACHE"])
def test_a_folder_that_others_may_write_is_refused(exported, tmp_path, monkeypatch, source):
    folder = tmp_path / "kernels"
    folder.mkdir()
    folder.chmod(0o777)
    option = ("--kernel-cache", folder) if source.startswith("--") else ()
    if not option:
        monkeypatch.setenv(source, str(folder))
    _, error = tools.tool("compile", exported("mlp"), "-o", tmp_path / "a.plan", "--mode", "forward", *Case("mlp", "data=2").spec.inputOptions,
                          *option, code=1)
    assert error == (f"error: {source}: '{folder}' cannot keep kernels: it has mode 0777, so that others could write what your plans run; "
                     f"chmod go-w '{folder}'\n")
    assert not (tmp_path / "a.plan").exists()


def changedProgram(path, change):
    """A copy of polyrank-compile whose build id `change` has changed: the bytes of its note, header first."""
    program = bytearray((tools.bin() / "polyrank-compile").read_bytes())
    at = program.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0")
    note = program[at:at + 36]
    change(note)
    program[at:at + 36] = note
    path.write_bytes(program)
    path.chmod(0o755)
    return path


def run(program, onnx, plan, folder):
    command = [program, onnx, "-o", plan, "--mode", "forward", *Case("mlp", "data=2").spec.inputOptions, "--json", "--kernel-cache", folder]
    return subprocess.run([str(each) for each in command], capture_output=True, text=True, timeout=tools.SECONDS)


def test_another_compiler_takes_none_of_them(exported, tmp_path):
    def another(note):
        note[-1] ^= 1

    for program in (tools.bin() / "polyrank-compile", changedProgram(tmp_path / "another", another)):
        done = run(program, exported("mlp"), tmp_path / "a.plan", tmp_path / "kernels")
        assert done.returncode == 0 and json.loads(done.stdout)["kernels"]["found"] == 0


def test_a_compiler_that_cannot_say_which_it_is_keeps_none(exported, tmp_path):
    def nameless(note):
        note[8] = 99  # a note of another kind

    done = run(changedProgram(tmp_path / "nameless", nameless), exported("mlp"), tmp_path / "a.plan", tmp_path / "kernels")
    assert done.returncode == 1 and done.stderr == (
        f"error: --kernel-cache: '{tmp_path / 'kernels'}' cannot keep kernels: this program was linked without a build id (--build-id), by which it "
        "knows which compiler made a kernel\n")
    assert not (tmp_path / "kernels").exists() and not (tmp_path / "a.plan").exists()
