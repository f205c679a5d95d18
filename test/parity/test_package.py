"""What is installed, and the Debian package: the tools work from there, with their pages and completions."""

import re
import shutil
import subprocess

import pytest

import tools
from test_bundle import names
from tools import Case

TOOLS = ("polyrank", "polyrank-compile", "polyrank-inspect", "polyrank-run")


def call(*command, cwd=None):
    # dpkg-shlibdeps reads the symbols of all of LLVM: 15 s, and many more where others compute too.
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, cwd=cwd, timeout=5 * tools.SECONDS)
    assert done.returncode == 0, (command, done)
    return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The unpacked package, and its fields."""
    build = tools.bin().parent
    if not (build / "CPackConfig.cmake").exists() or not shutil.which("dpkg-shlibdeps") or not shutil.which("file"):
        pytest.skip("the tools are in no build folder, or there is no dpkg-dev or file")
    folder = tmp_path_factory.mktemp("package")
    call("cpack", "--config", build / "CPackConfig.cmake", "-B", folder, cwd=folder)
    (file,) = folder.glob("*.deb")
    call("dpkg", "-x", file, folder / "root")
    fields = dict(re.findall(r"^ ?(\S+): (.*)$", call("dpkg", "-f", file), re.M))
    return folder / "root", fields


def test_the_package_depends_on_what_it_needs(package):
    _, fields = package
    depends = {re.split(r"[ (]", each)[0] for each in fields["Depends"].split(", ")}
    # A build for tests may have LLVM in its programs (POLYRANK_QUICK_TOOLS).
    assert ("libmlir-22" in depends) == ("libMLIR" in call("ldd", tools.bin() / "polyrank-compile"))
    assert {"libdnnl2", "libc6", "libgomp1", "libfmt9", "libsodium23", "libstdc++6", "zlib1g"} <= depends
    assert fields["Package"] == "polyrank" and fields["Architecture"] == call("dpkg", "--print-architecture").strip()
    assert f"polyrank-run {fields['Version']} " in tools.tool("run", "--version")[0]


def test_the_package_has_pages_and_completions(package):
    usr = package[0] / "usr"
    assert names(usr / "bin") == list(TOOLS)
    assert names(usr / "share/man/man1") == sorted(f"{tool}.1" for tool in TOOLS)
    assert names(usr / "share/bash-completion/completions") == list(TOOLS)
    assert names(usr / "share/fish/vendor_completions.d") == sorted(f"{tool}.fish" for tool in TOOLS)
    assert names(usr / "share/zsh/vendor-completions") == [f"_{tool}" for tool in TOOLS]
    for tool in TOOLS:
        assert (usr / f"share/man/man1/{tool}.1").read_text() == call(tools.bin() / tool, "--man")
        assert (usr / f"share/bash-completion/completions/{tool}").read_text() == call(tools.bin() / tool, "--completions", "bash")
    assert (usr / "share/doc/polyrank/docs/installing.md").exists() and (usr / "share/polyrank/bundle.sh").exists()


def test_the_installed_tools_compile_and_train(package, exported, dataset, tmp_path, monkeypatch):
    monkeypatch.setenv("POLYRANK_BIN", str(package[0] / "usr/bin"))
    Case("mlp", "data=2").compile(exported("mlp"), tmp_path / "plan", "sgd(lr=1)")
    tools.tool("run", tmp_path / "plan", "--data", dataset("mlp", 1), "--steps", 2, "--save", tmp_path / "saved")
    assert (tmp_path / "saved").exists()
    # The package's script finds the tools on PATH.
    monkeypatch.delenv("POLYRANK_BIN")
    monkeypatch.setenv("PATH", f"{package[0] / 'usr/bin'}:/usr/bin:/bin")
    call(package[0] / "usr/share/polyrank/bundle.sh", tmp_path / "bundle", tmp_path / "plan")
    assert names(tmp_path / "bundle/bin") == ["polyrank-inspect", "polyrank-run"]


def test_the_target_of_quickstart_builds_all_that_is_installed():
    build = tools.bin().resolve().parent
    if not (build / "build.ninja").exists():
        pytest.skip("the tools are in no build folder")
    (root,) = set(re.findall(r"^CMAKE_CACHEFILE_DIR:INTERNAL=(.*)$", (build / "CMakeCache.txt").read_text(), re.M))
    needed = set(re.findall(rf'"{root}/((?:bin|documents)/[^"]+)"', (build / "cmake_install.cmake").read_text()))
    assert len(needed) == 5 * len(TOOLS)
    query = subprocess.run(["ninja", "-C", str(build), "-t", "query", "CMakeFiles/installed"], capture_output=True, text=True, check=True)
    assert needed <= set(query.stdout.split())
    assert "ninja -C build/$preset installed\n" in (build.parents[1] / "tools/quickstart.sh").read_text()
