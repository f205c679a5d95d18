#!/usr/bin/env bash
# Makes a wheel that pip installs where nothing else of Polyrank is needed: the commands polyrank, polyrank-compile,
# polyrank-run and polyrank-inspect, oneDNN and OpenMP beside them, and the Python module.
#
#   tools/wheel.sh [DIR]   writes into DIR, by default build/wheel/dist
#
# LLVM, MLIR and the C++ library are linked statically. The wheel is for Linux with glibc 2.34 or newer (manylinux_2_34)
# on x86-64: Debian 12, Ubuntu 22.04, Fedora 35, RHEL 9 and later ones. POLYRANK_JOBS is the number of processes that
# compile.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "wheel.sh: $*" >&2; exit 1; }
newest=2.34 # glibc's; python/hatch_build.py names it too
build=$PWD/build/wheel
target=${1:-$build/dist}
tools=(polyrank polyrank-compile polyrank-inspect polyrank-run)

tools/setup.sh --wheel
mkdir -p build
cmake --preset wheel ${POLYRANK_CMAKE_OPTIONS:-} > "$build.log" 2>&1 || { cat "$build.log"; exit 1; }
rm -f "$build.log"
ninja -C "$build" ${POLYRANK_JOBS:+-j "$POLYRANK_JOBS"} "${tools[@]}"

# What belongs into the wheel, where pip puts it: bin/ and lib/polyrank/ of the environment.
files=$build/files
rm -rf "$files" && mkdir -p "$files"/lib/polyrank "$files"/share/doc/polyrank/copyright
cmake --install "$build" --component tools --strip --prefix "$files" > /dev/null
# A plan with products names the library that computes them.
plan=$build/products.plan
"$files/bin/polyrank-compile" test/models/mlp.onnx --mode forward -o "$plan"
products=$("$files/bin/polyrank-inspect" --files "$plan" | sed -n 's/^library //p')
[ -n "$products" ] || fail "the plan of test/models/mlp.onnx has no products"

sources=(/usr/share/doc/libllvm22 /usr/share/doc/libmlir-22-dev /usr/share/doc/liblld-22-dev /usr/share/doc/libfmt-dev
         /usr/share/doc/libsodium-dev /usr/share/doc/libzstd-dev /usr/share/doc/zlib1g-dev /usr/share/doc/libflatbuffers-dev
         /usr/share/doc/libstdc++-12-dev /usr/share/doc/libucx-dev)
for tool in "${tools[@]}"; do
  listed=$(LD_PRELOAD=$products ldd "$files/bin/$tool" 2>&1) || fail "ldd $tool: $listed"
  while read -r name arrow path _; do
    case $name in
      *cannot*) fail "$products is not installed here" ;;
      # Those that every Linux with glibc has (PEP 600).
      linux-vdso.so.*|*/ld-linux*|libc.so.*|libm.so.*|libdl.so.*|libpthread.so.*|librt.so.*|libgcc_s.so.*|libstdc++.so.*) continue ;;
      /*) path=$name name=${name##*/} arrow="=>" ;;
    esac
    [ "$arrow" = "=>" ] && [ -e "$path" ] || fail "a library is missing here: $name $arrow $path"
    [ ! -e "$files/lib/polyrank/$name" ] || continue # another program has brought it along
    sources+=("/usr/share/doc/$(dpkg -S "$(realpath "$path")" | sed 's/:.*//')")
    cp -L -- "$path" "$files/lib/polyrank/$name"
  done <<< "$listed"
done
for name in "$files"/lib/polyrank/*; do
  case ${name##*/} in
    libdnnl.so.*|libgomp.so.*|libOpenCL.so.*) ;;
    *) fail "${name##*/} is needed by a program: it is to be linked statically" ;;
  esac
done
# The licences of what the wheel holds of others.
for folder in "${sources[@]}"; do
  cp -L "$folder/copyright" "$files/share/doc/polyrank/copyright/${folder##*/}"
done

found=$(objdump -T "$files"/bin/* "$files"/lib/polyrank/* | grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | tail -n 1)
[ "$(printf '%s\n' "$newest" "${found#GLIBC_}" | sort -V | tail -n 1)" = "$newest" ] \
  || fail "a program needs glibc ${found#GLIBC_}, and the wheel is for $newest"

[ -x "$build/venv/bin/pip" ] || python3 -m venv "$build/venv"
rm -f "$target"/polyrank-*.whl
POLYRANK_WHEEL_FILES=$files "$build/venv/bin/pip" wheel -q --disable-pip-version-check --no-deps -w "$target" ./python
ls -sh "$target"/polyrank-*.whl
