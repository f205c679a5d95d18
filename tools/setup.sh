#!/usr/bin/env bash
# Installs the Debian packages that Polyrank needs; quick when nothing is missing.
#
#   tools/setup.sh           what building and running needs
#   tools/setup.sh --tests   and what the tests need
#
# Debian 12 with its security updates has all of them (LLVM 22 among the updates).
set -euo pipefail

packages=(
  cmake ninja-build ccache g++ clang-22 lld-22
  llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools
  libdnnl-dev libflatbuffers-dev flatbuffers-compiler libprotozero-dev
  nlohmann-json3-dev libxxhash-dev libcli11-dev libtomlplusplus-dev libspdlog-dev libfmt-dev zlib1g-dev
)
tests=(clang-tidy-22 dpkg-dev file libclang-rt-22-dev libgtest-dev libonnx-testdata mandoc python3 python3-venv)
[ "${1:-}" != --tests ] || packages+=("${tests[@]}")

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
  cat >&2 <<MESSAGE
apt knows no package: ${unknown[*]}
LLVM 22 comes with Debian 12's security updates. Add the suite bookworm-security, component main, to apt's sources and run again.
On another release or distribution, LLVM's own apt packages have llvm-22, clang-22, lld-22 and mlir-22.
MESSAGE
  exit 1
fi
"${root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -q -y --no-install-recommends "${missing[@]}"
