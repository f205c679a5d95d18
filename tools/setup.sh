#!/usr/bin/env bash
# Installs the Debian packages that Polyrank needs; quick when nothing is missing.
#
#   tools/setup.sh           what building and running needs
#   tools/setup.sh --tests   and what the tests need
#   tools/setup.sh --wheel   and what tools/wheel.sh needs
#
# Debian 12 with its security updates has all of them (LLVM 22 among the updates). On another system it says what to do.
set -euo pipefail

packages=(
  cmake ninja-build ccache g++ clang-22 lld-22 liblld-22-dev
  llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools
  libdnnl-dev libflatbuffers-dev flatbuffers-compiler libprotozero-dev
  nlohmann-json3-dev libxxhash-dev libcli11-dev libtomlplusplus-dev libspdlog-dev libfmt-dev libsodium-dev zlib1g-dev
  libzstd-dev
)
tests=(clang-tidy-22 dpkg-dev file libclang-rt-22-dev libgtest-dev libonnx-testdata mandoc python3 python3-venv)
# Several machines out of namespaces, and the launchers that start jobs on them (test/cluster): 60 MB. The tests start daemons
# of their own, with their own configuration. Slurm loads PMIx by the name that libpmix-dev brings.
tests+=(iproute2 iptables libpmix-dev munge openmpi-bin slurm-client slurmctld slurmd util-linux)
# For --wire ucx. UCX itself (libucx0) comes with openmpi-bin; its headers are 1 MB.
tests+=(libucx-dev)
case "${1:-}" in
  '') ;;
  --tests) packages+=("${tests[@]}") ;;
  --wheel) packages+=(binutils libucx-dev python3 python3-venv) ;;
  *) echo "setup.sh: unknown option '$1'; --tests or --wheel" >&2; exit 2 ;;
esac

# What to do where apt has not all of the packages. `system` is this system in words, `id` its kind.
id=unknown system="this system" codename=
if [ -r /etc/os-release ]; then
  id=$(. /etc/os-release && echo "${ID:-unknown}")
  system=$(. /etc/os-release && echo "${PRETTY_NAME:-this system}")
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
fi
elsewhere() {
  cat <<MESSAGE
This is $system. Polyrank is built on Debian 12; what it builds there runs here, if glibc is 2.34 or newer (ldd --version).
In a container (podman takes the same arguments):
  docker run --rm -v "\$PWD":/polyrank -w /polyrank debian:12 tools/wheel.sh
  pip install build/wheel/dist/polyrank-*.whl
MESSAGE
  case $id in
    debian) [ "$codename" != bookworm ] || cat <<MESSAGE
Or add Debian's security updates, which have LLVM 22, as root:
  echo "deb http://deb.debian.org/debian-security bookworm-security main" > /etc/apt/sources.list.d/security.list
and run this script again.
MESSAGE
      ;;
    ubuntu) cat <<MESSAGE
Or build here with LLVM's own packages; as root:
  apt-get install -y ca-certificates wget
  wget -qO /etc/apt/trusted.gpg.d/apt.llvm.org.asc https://apt.llvm.org/llvm-snapshot.gpg.key
  echo "deb http://apt.llvm.org/$codename/ llvm-toolchain-$codename-22 main" > /etc/apt/sources.list.d/llvm-22.list
and run this script again.
MESSAGE
      ;;
    fedora) cat <<MESSAGE
Or build here, where Fedora's LLVM is 22.1 (dnf info mlir-devel); as root:
  dnf install cmake ninja-build ccache gcc-c++ clang lld llvm-devel mlir-devel lld-devel onednn-devel flatbuffers-devel \\
    flatbuffers-compiler protozero-devel json-devel xxhash-devel cli11-devel tomlplusplus-devel fmt-devel \\
    libsodium-devel zlib-devel libzstd-devel
and then:
  cmake --preset release -DPOLYRANK_TESTS=OFF -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++
  ninja -C build/release installed
MESSAGE
      ;;
    *) cat <<MESSAGE
Or build here with cmake, ninja, clang 22 and: LLVM, MLIR and LLD 22.1 with their CMake files, oneDNN 2.6 or
newer (also 3), flatbuffers with flatc, protozero, nlohmann-json, xxhash, CLI11, toml++, fmt, libsodium, zlib, zstd; then
  cmake --preset release -DPOLYRANK_TESTS=OFF -DCMAKE_PREFIX_PATH=WHERE_LLVM_IS && ninja -C build/release installed
MESSAGE
      ;;
  esac
}
if ! command -v apt-get > /dev/null || ! command -v dpkg-query > /dev/null; then
  { echo "setup.sh installs packages by apt, which is not here."; elsewhere; } >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "Installing: ${missing[*]}"
root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "Run this as root, or install sudo: packages are missing." >&2; exit 1; }
  root=(sudo)
fi
# A list that cannot be fetched (some other vendor's) only matters if a package of ours is then missing.
"${root[@]}" apt-get update -q || echo "apt-get update had errors (above); going on with the lists at hand." >&2

unknown=()
for package in "${missing[@]}"; do
  # The whole answer is read: apt-cache must not die of a closed pipe under pipefail.
  candidate=$(apt-cache policy "$package" | sed -n 's/^ *Candidate: //p')
  [ -n "$candidate" ] && [ "$candidate" != "(none)" ] || unknown+=("$package")
done
if [ ${#unknown[@]} -gt 0 ]; then
  { echo "apt knows no package: ${unknown[*]}"; elsewhere; } >&2
  exit 1
fi
"${root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -q -y --no-install-recommends "${missing[@]}"
