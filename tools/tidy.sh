#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy has the checks) on the sources that a change touches.
#
#   tools/tidy.sh            what differs from where this branch left origin/main, and what is not committed
#   tools/tidy.sh BASE       what differs from a commit, e.g. HEAD~3
#   tools/tidy.sh FILE...    these files
#
# A header is checked with the source beside it. Needs a build (POLYRANK_PRESET, default dev), whose flags it takes, with
# its generated headers. One file takes three seconds or more. The exit code is 0 where nothing is found.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/${POLYRANK_PRESET:-dev}
[ -f "$build/compile_commands.json" ] || { echo "tidy.sh: no build in $build (cmake --preset ${POLYRANK_PRESET:-dev}; ninja -C $build)" >&2; exit 2; }

changed() { # since a commit, in the working tree
  git diff --name-only --diff-filter=d "$1" -- '*.cpp' '*.h'
  git ls-files --others --exclude-standard -- '*.cpp' '*.h'
}
if [ $# = 0 ]; then
  if ! base=$(git merge-base HEAD origin/main 2>/dev/null); then
    echo "tidy.sh: this checkout has no origin/main to compare with; name a commit or files" >&2
    exit 2
  fi
  files=$(changed "$base")
elif [ $# = 1 ] && git rev-parse -q --verify "$1^{commit}" >/dev/null; then
  files=$(changed "$1")
else
  for file in "$@"; do
    [ -f "$file" ] || { echo "tidy.sh: '$file' is neither a commit nor a file of the repository" >&2; exit 2; }
  done
  files=$(printf '%s\n' "$@")
fi

# Sources alone are compiled; a header stands for the source of the same name. What the build does not compile (tests of
# another preset, a header without a source) is named.
sources=()
while read -r file; do
  [ -n "$file" ] || continue
  source=${file%.h}; source=${source%.cpp}.cpp
  if [ ! -f "$source" ]; then
    echo "tidy.sh: $file has no source beside it, and is read only with sources that include it" >&2
  elif ! grep -q "/$source\"" "$build/compile_commands.json"; then
    echo "tidy.sh: $build does not compile $source" >&2
  else
    sources+=("$source")
  fi
done <<<"$files"
if [ ${#sources[@]} = 0 ]; then
  echo "clang-tidy: no source to check"
  exit 0
fi
mapfile -t sources < <(printf '%s\n' "${sources[@]}" | sort -u)
echo "clang-tidy: ${#sources[@]} files"
printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-22 --quiet -p "$build"
