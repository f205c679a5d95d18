"""tools/setup.sh says what to do where it cannot install its packages: on each kind of system exactly that."""

import shutil
import subprocess
from pathlib import Path

import pytest

import tools

SCRIPT = Path(__file__).resolve().parents[2] / "tools/setup.sh"
CONTAINER = 'docker run --rm -v "$PWD":/polyrank -w /polyrank debian:12 tools/wheel.sh\n  pip install build/wheel/dist/polyrank-*.whl\n'
SYSTEMS = {
    "debian 12": ('ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_CODENAME=bookworm\n',
                  ["This is Debian GNU/Linux 12 (bookworm). ", "debian-security bookworm-security main", CONTAINER]),
    "debian 13": ('ID=debian\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nVERSION_CODENAME=trixie\n', ["This is Debian GNU/Linux 13", CONTAINER]),
    "ubuntu": ('ID=ubuntu\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\nVERSION_CODENAME=noble\n',
               ["This is Ubuntu 24.04.1 LTS. ", "http://apt.llvm.org/noble/ llvm-toolchain-noble-22 main", CONTAINER]),
    "fedora": ('ID=fedora\nPRETTY_NAME="Fedora Linux 44"\n', ["This is Fedora Linux 44. ", "  dnf install cmake ninja-build", "lld-devel", CONTAINER]),
    "another": ('ID=arch\nPRETTY_NAME="Arch Linux"\n', ["This is Arch Linux. ", "LLVM, MLIR and LLD 22.1", CONTAINER]),
}


def setup(folder, release, stubs, *args):
    """Standard error of the script, which fails, on a system with this /etc/os-release and these commands."""
    programs = folder / "bin"
    programs.mkdir()
    for name in ("bash", "cat", "sed", "id"):
        (programs / name).symlink_to(shutil.which(name))
    for name, text in stubs.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    (folder / "os-release").write_text(release)
    done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec",
                           'mount --bind "$0" /etc/os-release; PATH=$1 exec bash "$2"', str(folder / "os-release"), str(programs),
                           str(SCRIPT), *args], capture_output=True, text=True, timeout=tools.SECONDS)
    if "unshare failed" in done.stderr:
        pytest.skip(f"namespaces of users are not allowed here: {done.stderr}")
    assert done.returncode == 1, done
    return done.stderr


@pytest.mark.parametrize("system", SYSTEMS)
def test_without_apt_it_says_what_to_do(system, tmp_path):
    release, parts = SYSTEMS[system]
    said = setup(tmp_path, release, {})
    assert said.startswith("setup.sh installs packages by apt, which is not here.\n")
    for part in parts:
        assert part in said
    for other in set(SYSTEMS) - {system}:
        for part in SYSTEMS[other][1][1:-1]:
            assert part in parts or part not in said


def test_packages_that_apt_does_not_know_are_named(tmp_path):
    known = 'case $2 in *llvm*|*mlir*) ;; *) echo "  Candidate: 1" ;; esac'
    said = setup(tmp_path, SYSTEMS["ubuntu"][0], {"dpkg-query": "exit 1", "apt-get": "exit 0", "apt-cache": known})
    assert said.startswith("apt knows no package: llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools\nThis is Ubuntu")
    assert "https://apt.llvm.org/llvm-snapshot.gpg.key" in said


def test_an_unknown_option_is_refused():
    done = subprocess.run([str(SCRIPT), "--test"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == "setup.sh: unknown option '--test'; --tests or --wheel\n"
