#!/bin/sh
# Makes the committed models anew (README.md says with which versions).
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-../../.venv/bin/python}
"$python" -W ignore export_gpt2.py gpt2-bytes.onnx --layers 4 --heads 4 --width 128 --vocab 256 --context 128 --dynamic
"$python" -W ignore export_gpt2.py gpt2-tiny.onnx --layers 2 --heads 4 --width 32 --vocab 64 --context 16 --batch 8
"$python" -W ignore export_mlp.py mlp.onnx --widths 16,64,32,10 --batch 8
"$python" -W ignore export_unsupported.py unsupported.onnx
"$python" -W ignore export_torchscript.py traced traced.pt
"$python" -W ignore export_torchscript.py scripted scripted.pt
"$python" -W ignore export_program.py mlp.pt2
"$python" -W ignore export_program.py mlp-torch-2.7.pt2 --layout 2.7
"$python" -W ignore export_program.py mlp-torch-2.8.pt2 --layout 2.8
