"""The wheel of tools/wheel.sh: what it holds, and that README's example runs from `pip install` to saved weights where LLVM,
MLIR, oneDNN and this checkout are hidden. POLYRANK_WHEEL names it (tools/check.sh --all makes it)."""

import os
import re
import shutil
import subprocess
import time
import zipfile
from pathlib import Path

import pytest

import tools

ROOT = Path(__file__).resolve().parents[2]
WHEEL = os.environ.get("POLYRANK_WHEEL")
pytestmark = pytest.mark.skipif(not WHEEL, reason="POLYRANK_WHEEL names no wheel")
TOOLS = ["polyrank", "polyrank-compile", "polyrank-inspect", "polyrank-run"]
# What every Linux with glibc has (PEP 600).
EVERYWHERE = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"}
# Libraries of the system that the wheel must not need, and the folder of LLVM.
HIDDEN = ("libLLVM*", "libMLIR*", "liblld*", "libdnnl*", "libgomp*", "libOpenCL*", "libfmt*", "libsodium*", "libspdlog*", "libzstd*", "libxxhash*", "libflatbuffers*")
HIDE = """
for file in {files}; do [ ! -e "$file" ] || mount --bind /dev/null "$file"; done
[ ! -e /usr/lib/llvm-22 ] || mount -t tmpfs none /usr/lib/llvm-22
mount -t tmpfs none {root}/build
cd "$0" && exec "$@"
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(WHEEL) as archive:
        archive.extractall(folder)
    return folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def dynamic(path):
    return subprocess.run(["readelf", "-dV", str(path)], capture_output=True, text=True, check=True).stdout


def test_it_holds_the_tools_and_what_they_need_and_nothing_else(unpacked):
    version = tools.tool("run", "--version")[0].split()[1]
    assert Path(WHEEL).name == f"polyrank-{version}-py3-none-manylinux_2_34_x86_64.whl"
    assert names(unpacked) == ["polyrank", f"polyrank-{version}.data", f"polyrank-{version}.dist-info"]
    data = unpacked / f"polyrank-{version}.data"
    assert names(data / "scripts") == TOOLS
    libraries = names(data / "data/lib/polyrank")
    assert re.fullmatch(r"libOpenCL\.so\.1 libdnnl\.so\.[23] libgomp\.so\.1", " ".join(libraries))
    assert {path.suffix for path in (unpacked / "polyrank").iterdir()} == {".py"}
    assert {"libllvm22", "libdnnl2", "libgomp1"} <= set(names(data / "data/share/doc/polyrank/copyright"))
    metadata = (unpacked / f"polyrank-{version}.dist-info/METADATA").read_text()
    assert f"\nVersion: {version}\n" in metadata and re.findall(r"Requires-Dist: (\w+)", metadata) == ["safetensors"]
    for path in [*(data / "scripts").iterdir(), *(data / "data/lib/polyrank").iterdir()]:
        text = dynamic(path)
        assert set(re.findall(r"NEEDED\)\s+Shared library: \[(.*?)\]", text)) <= EVERYWHERE | set(libraries), path
        assert max((int(each) for each in re.findall(r"GLIBC_2\.(\d+)", text)), default=0) <= 34, path


def python(env, *args):
    done = subprocess.run([str(env / "bin/python"), *map(str, args)], capture_output=True, text=True, timeout=tools.SECONDS)
    assert done.returncode == 0, done
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An empty virtual environment with the wheel."""
    env = tmp_path_factory.mktemp("environment") / "env"
    subprocess.run(["python3", "-m", "venv", str(env)], check=True, timeout=tools.SECONDS)
    python(env, "-m", "pip", "install", "-q", "--disable-pip-version-check", WHEEL)
    return env


def hidden(folder, env, *command, code=0):
    """Runs a command in `folder` with the environment on PATH, where the system's libraries and the build are hidden."""
    files = " ".join(f"{place}/{name}" for name in HIDDEN for place in ("/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu"))
    script = HIDE.format(files=files, root=ROOT)
    done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", script, str(folder), *map(str, command)],
                          capture_output=True, text=True, timeout=tools.SECONDS,
                          env={"PATH": f"{env}/bin:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"})
    assert done.returncode == code, done
    return done.stdout, done.stderr


@pytest.fixture
def isHidden(environment, tmp_path):
    try:
        _, error = hidden(tmp_path, environment, "sh", "-c", "! ldd /usr/lib/llvm-22/bin/lld")
    except AssertionError as error:
        pytest.skip(f"namespaces of users are not allowed here: {error}")


@pytest.mark.filterwarnings("ignore")
def test_readmes_example_runs_from_pip_to_weights(environment, isHidden, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    ran = []
    for language, text in blocks:
        ran.append(language)
        if language == "python" and "sh" not in ran:
            names = {}
            exec(compile(text, "README.md", "exec"), names)
        elif language == "sh":
            began = time.monotonic()
            env = tmp_path / "env"
            wheel = shutil.copy(WHEEL, tmp_path)  # its folder is hidden
            hidden(tmp_path, environment, "sh", "-ec", f"python3 -m venv {env} && {env}/bin/pip install -q --disable-pip-version-check "
                   f"--no-deps {wheel}\nPATH={env}/bin:$PATH\n{text}")
            assert time.monotonic() - began < 60
        else:
            exec(compile(text, "README.md", "exec"), names)
    assert ran == ["python", "sh", "python"] and (tmp_path / "trained.safetensors").exists()


def test_the_module_of_the_wheel_finds_its_tools(environment, isHidden, tmp_path):
    shutil.copy(ROOT / "test/models/mlp.onnx", tmp_path)
    (tmp_path / "it.py").write_text("""
import polyrank
plan = polyrank.compile("mlp.onnx", "mlp.plan", mesh="data=2", loss="mse(logits,target)", optimizer="sgd(lr=0.1)")
print(plan)
try:
    polyrank.compile("mlp.onnx", "mlp.plan", loss="mse(logit,target)")
except polyrank.Error as error:
    print(error)
print(polyrank.__version__)
""")
    output, _ = hidden(tmp_path, environment, environment / "bin/python", "it.py")
    assert "<polyrank plan 'mlp.plan': 2 ranks (data=2)" in output and "nearest: 'logits'" in output
    assert output.splitlines()[-1] == tools.tool("run", "--version")[0].split()[1]


def test_its_plans_are_those_of_this_build(environment, isHidden, tmp_path):
    """The linker in the program makes the same kernels as here."""
    shutil.copy(ROOT / "test/models/mlp.onnx", tmp_path)
    args = ("mlp.onnx", "--mesh", "data=2", "--loss", "mse(logits,target)", "--threads", "1")
    hidden(tmp_path, environment, "polyrank", "compile", *args, "-o", "there.plan")
    here = subprocess.run([tools.bin() / "polyrank-compile", *args, "-o", "here.plan"], cwd=tmp_path, capture_output=True)
    assert here.returncode == 0 and (tmp_path / "here.plan").read_bytes() == (tmp_path / "there.plan").read_bytes()


def test_pip_refuses_it_on_an_older_glibc(environment, tmp_path):
    done = subprocess.run([str(environment / "bin/python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-deps",
                           "--platform", "manylinux_2_31_x86_64", "--only-binary", ":all:", "--target", str(tmp_path / "t"), WHEEL],
                          capture_output=True, text=True, timeout=tools.SECONDS)
    assert done.returncode != 0 and "is not a supported wheel on this platform" in done.stderr


def test_a_cpu_without_avx2_is_an_error(environment, isHidden, tmp_path):
    args = (ROOT / "test/models/mlp.onnx", "--mode", "forward", "-o", tmp_path / "plan")
    tools.tool("compile", *args)
    flags = Path("/proc/cpuinfo").read_text()
    (tmp_path / "cpuinfo").write_text(re.sub(r" (avx\w*|fma|f16c)\b", "", flags))
    output, _ = hidden(tmp_path, environment, "sh", "-ec", "mount --bind cpuinfo /proc/cpuinfo; exec polyrank run plan --check", code=1)
    assert re.search(r"device  WRONG the plan's kernels were compiled for CPU '.*' and need avx, avx2, .* which this CPU lacks", output)
    if shutil.which("qemu-x86_64"):
        done = subprocess.run(["qemu-x86_64", "-cpu", "Nehalem", str(environment / "bin/polyrank-compile"), *map(str, args)],
                              capture_output=True, text=True, timeout=tools.SECONDS)
        assert done.returncode == 1 and "this machine (nehalem) lacks AVX2, FMA or F16C, which kernels need" in done.stderr
