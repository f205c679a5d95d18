#!/usr/bin/env bash
# Runs the tests: lit, GoogleTest, parity with PyTorch, faults, fuzzers. This is what CI runs.
#
#   tools/check.sh              every test; of large tables of combinations a sample (docs/testing.md)
#   tools/check.sh --all        every row of every table, the fuzzers for a minute each, the wheel of tools/wheel.sh,
#                               clang-tidy on what differs from origin/main, and a build by g++; POLYRANK_ALL=1 says the same
#   tools/check.sh FILTER       only tests whose name contains FILTER, in the sample or not
#
# Ends with one line "N passed, N failed, N skipped"; the exit code is 0 when nothing failed.
# POLYRANK_PRESET chooses the build (default dev, with assertions). POLYRANK_FUZZ_SECONDS is the time of each
# fuzzer, of which as many run at once as there are cores (default 2, with --all 60; 0 replays only what once failed).
# They try the same inputs every time; test/fuzz/run.py looks for new ones.
set -euo pipefail
cd "$(dirname "$0")/.."
all=${POLYRANK_ALL:-}
[ "$all" = 0 ] && all=
case "${1:-}" in
  --all) all=1; shift ;;
  -*) echo "check.sh: unknown option '$1'; --all, or a part of tests' names" >&2; exit 2 ;;
esac
filter=${1:-}
preset=${POLYRANK_PRESET:-dev}
build=$PWD/build/$preset
results=$build/results

tools/setup.sh --tests

# The environment is made anew when its list of packages changes, while the build goes on.
requirements=test/parity/requirements.txt
makeEnvironment() {
  cmp -s $requirements .venv/requirements.txt && return
  rm -rf .venv
  python3 -m venv .venv
  # PyTorch's CPU build where pip finds one, else whatever build it offers.
  torch=$(grep '^torch==' $requirements)
  .venv/bin/pip install -qq --disable-pip-version-check "$torch+cpu" 2>/dev/null \
    || .venv/bin/pip install -qq --disable-pip-version-check "$torch"
  .venv/bin/pip install -qq --disable-pip-version-check -r $requirements
  cp $requirements .venv/requirements.txt
}
(set -e; makeEnvironment) &
environment=$!

# Always: a build that is there may not have the preset's newer options.
cmake --preset "$preset" ${POLYRANK_CMAKE_OPTIONS:-}
ninja -C "$build" || { kill $environment 2>/dev/null; exit 1; }
wait $environment

# Every suite leaves a JUnit file and goes on after a failure; the count is taken from the files, and a
# suite that ends badly without one is a failure of its own.
rm -rf "$results" && mkdir -p "$results"
status=0
/usr/lib/llvm-22/bin/lit -s -v "$build/test" --xunit-xml-output "$results/lit.xml" \
  ${filter:+--filter "$filter" --allow-empty-runs} || status=1
ctest --test-dir "$build" --output-on-failure -j 2 -E '^lit$' $([ "$all$filter" ] || echo -LE '^all$') ${filter:+-R "$filter"} \
  --no-tests=ignore --output-junit "$results/ctest.xml" || status=1
# The tests of the wheel are skipped without it.
if [ "$all" ]; then
  tools/wheel.sh && POLYRANK_WHEEL=$(echo "$PWD"/build/wheel/dist/polyrank-*.whl) && export POLYRANK_WHEEL || status=1
fi
# Machines and faults come first: they wait most of their time, while two other workers compute.
POLYRANK_BIN=$build/bin .venv/bin/python -m pytest test/cluster test/faults test/parity -q -n 3 --dist worksteal --junitxml "$results/parity.xml" \
  ${all:+--all} ${filter:+-k "$filter"} || { code=$?; [ "$filter" ] && [ $code = 5 ] || status=1; }

.venv/bin/python test/fuzz/run.py "$build" --seed 1 --seconds "${POLYRANK_FUZZ_SECONDS:-$([ "$all" ] && echo 60 || echo 2)}" \
  --junit "$results/fuzz.xml" --filter "$filter" || status=1

if [ "$all" ]; then
  if git rev-parse -q --verify origin/main >/dev/null; then
    tools/tidy.sh || status=1
  else
    echo "clang-tidy: this checkout has no origin/main to compare with; tools/tidy.sh COMMIT reads what differs from one"
  fi
  cmake --preset gcc ${POLYRANK_CMAKE_OPTIONS:-} && ninja -C build/gcc || status=1
fi

.venv/bin/python tools/count.py $status "$results"/{lit,ctest,parity,fuzz}.xml
