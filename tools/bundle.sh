#!/usr/bin/env bash
# Writes a folder that trains on a machine where nothing is installed: polyrank-run and polyrank-inspect, the
# libraries that they need beyond glibc, the plans, and the files of weights that the plans begin with.
#
#   tools/bundle.sh [--without-weights] DIR PLAN...
#
# DIR must not be there yet. oneDNN comes along only where a plan computes products. The programs are those of
# POLYRANK_BIN, else of build/release beside this script, else those that are installed. --without-weights leaves
# the weights out: then --init FILE must give them, or they are copied beside the plans by hand.
set -euo pipefail

fail() { echo "bundle.sh: $*" >&2; exit 1; }
withWeights=true
[ "${1:-}" != --without-weights ] || { withWeights=false; shift; }
[ $# -ge 2 ] || fail "give a folder to write and at least one plan: bundle.sh [--without-weights] DIR PLAN..."
target=${1%/}; shift
[ ! -e "$target" ] || fail "'$target' is there already: give the name of a new folder"

beside=$(cd "$(dirname "$0")/.." && pwd)/build/release/bin
if [ -n "${POLYRANK_BIN:-}" ]; then bin=$POLYRANK_BIN
elif [ -x "$beside/polyrank-run" ]; then bin=$beside
else bin=$(dirname "$(command -v polyrank-run || fail "there is no polyrank-run in $beside or on PATH; POLYRANK_BIN names its folder")")
fi
programs=(polyrank-run polyrank-inspect)

# All or nothing: the folder gets its name at the end.
made=$target.$$.tmp
trap 'rm -rf "$made"' EXIT
mkdir -p "$made"/{bin,lib/polyrank,plans}

# put FILE NAME: into plans/. Two files of one name must be the same file.
put() {
  local place=$made/plans/$2
  if [ -e "$place" ]; then
    cmp -s "$1" "$place" || fail "'$1' is not the file '$2' that is in the bundle already: make a bundle for each plan"
  else
    cp --reflink=auto -- "$1" "$place"
  fi
}

needed=() machines=()
for plan in "$@"; do
  needs=$("$bin/polyrank-inspect" --files -- "$plan") || exit 1
  put "$plan" "${plan##*/}"
  machines+=("plans/${plan##*/}: $("$bin/polyrank-inspect" --json -- "$plan" | sed -n 's/^ *"machine": "\(.*\)",$/\1/p' | paste -sd ' ')")
  while read -r kind name; do
    case $kind in
      library) needed+=("$name") ;;
      weights)
        # As the runtime looks for it: from the plan's folder, else beside the plan.
        folder=$(dirname -- "$plan")
        case $name in /*) file=$name ;; *) file=$folder/$name ;; esac
        [ -e "$file" ] || file=$folder/${name##*/}
        if $withWeights; then
          [ -e "$file" ] || fail "the weights of '$plan' are gone ('$name'): put them beside it, or leave them out (--without-weights)"
          put "$file" "${name##*/}"
        fi ;;
    esac
  done <<< "$needs"
done

for program in "${programs[@]}"; do
  if command -v strip > /dev/null; then strip -o "$made/bin/$program" "$bin/$program"; else cp "$bin/$program" "$made/bin/"; fi
done
# What is loaded when it is needed counts as preloaded: ldd says where it is, and what it needs itself.
preload=$(IFS=:; echo "${needed[*]:-}")
for program in "${programs[@]}"; do
  listed=$(LD_PRELOAD=$preload ldd "$bin/$program" 2>&1) || fail "ldd $bin/$program: $listed"
  while read -r name arrow path _; do
    case $name in
      *cannot*) fail "a plan needs ${needed[*]}, which is not installed here" ;;
      linux-vdso.so.*|*/ld-linux*|libc.so.*|libm.so.*|libdl.so.*|libpthread.so.*|librt.so.*) continue ;; # glibc
      /*) path=$name name=${name##*/} arrow="=>" ;;
    esac
    [ "$arrow" = "=>" ] && [ -e "$path" ] || fail "a library is missing here: $name $arrow $path"
    cp -L -- "$path" "$made/lib/polyrank/$name"
  done <<< "$listed"
done
for name in "${needed[@]}"; do
  [ -e "$made/lib/polyrank/$name" ] || fail "a plan needs $name, which is not installed here"
done

glibc=$(grep -aohE 'GLIBC_2\.[0-9]+' "$made"/bin/* "$made"/lib/polyrank/* | sort -uV | tail -n 1)
{
  echo "$("$bin/polyrank-run" --version), made on $(uname -m)."
  echo
  echo "bin/polyrank-run plans/NAME.plan --data FILE --steps N trains; --help and --man say more."
  echo "Needs Linux on $(uname -m) with glibc ${glibc#GLIBC_} or newer (ldd --version), and nothing else. The plans' kernels are for:"
  printf '  %s\n' "${machines[@]}"
  $withWeights || echo "The weights are not in here: give --init FILE, or copy the files that polyrank-inspect --files names beside the plans."
} > "$made/README.txt"
mv -T -- "$made" "$target"
trap - EXIT
du -sh "$target"
