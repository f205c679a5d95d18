#!/usr/bin/env bash
# From an empty clone to a trained model: builds Polyrank, compiles a small GPT-2 for four processes
# (data=2,tensor=2), trains it on the licence texts of this machine until it predicts a text that it has
# never seen with less than 3.0 nats per byte, and saves the weights. Needs Debian 12, apt and no Python.
set -euo pipefail
cd "$(dirname "$0")/.."
started=$SECONDS
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

say "1/5  What is missing"
tools/setup.sh

say "2/5  Build (release)"
preset=release bin=build/release/bin work=build/quickstart
[ -f build/$preset/build.ninja ] || cmake --preset $preset -DPOLYRANK_TESTS=OFF > build-$preset.log 2>&1 \
  || { cat build-$preset.log; rm -f build-$preset.log; exit 1; }
rm -f build-$preset.log
ninja -C build/$preset installed
mkdir -p $work

# A .txt file is a row of bytes, each a token. Apache's licence and Creative Commons' are held out: no
# other text here derives from them.
say "3/5  Text"
texts=/usr/share/common-licenses
for file in "$texts"/*; do
  case ${file##*/} in
    Apache-2.0 | CC0-1.0) ;;
    *) [ -L "$file" ] || cat "$file" ;;
  esac
done > $work/train.txt
cat "$texts"/Apache-2.0 "$texts"/CC0-1.0 > $work/held-out.txt
wc -c $work/train.txt $work/held-out.txt

say "4/5  Compile test/models/gpt2-bytes.onnx for data=2,tensor=2"
options=(test/models/gpt2-bytes.onnx --mesh data=2,tensor=2 --input 'input_ids=int64[16,128]'
  --shard '*.c_attn.weight=[-,tensor]' --shard '*.c_fc.weight=[-,tensor]' --shard '*wte.weight=[tensor,-]'
  --loss 'cross_entropy(logits,labels)' --threads 1)
(set -x; $bin/polyrank-compile "${options[@]}" --optimizer 'adamw(lr=1e-3)' -o $work/train.plan)
$bin/polyrank-compile "${options[@]}" --mode forward -o $work/evaluate.plan
say "What each rank holds"
$bin/polyrank-inspect $work/train.plan --memory --comm

say "5/5  Train on four processes"
# The mean loss over the held-out text, in nats per byte: a forward plan with a loss prints it.
heldOut() {
  $bin/polyrank-run $work/evaluate.plan --data $work/held-out.txt --init $work/gpt2-bytes.safetensors \
    2> $work/evaluate.err | awk '$1 == "loss" { print $2; found = 1 } END { exit !found }' || { cat $work/evaluate.err >&2; return 1; }
}
from=()
for round in 1 2 3; do
  (set -x; $bin/polyrank-run $work/train.plan --data $work/train.txt --steps 100 --seed $round "${from[@]}" \
    --save $work/gpt2-bytes.safetensors --log $work/train-$round.jsonl)
  loss=$(heldOut)
  echo "held-out text after $((round * 100)) steps: $loss nats per byte"
  from=(--init $work/gpt2-bytes.safetensors)
  ! awk "BEGIN { exit !($loss < 3.0) }" || { reached=1; break; }
done
[ "${reached:-}" ] || { echo "The held-out loss did not fall below 3.0." >&2; exit 1; }
say "Done in $((SECONDS - started)) s. Weights: $work/gpt2-bytes.safetensors. Your own model: README.md"
