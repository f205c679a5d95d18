"""Options of precision that cannot be meant are refused: the message names the option, its value, and what to give instead."""

import os

import pytest

import tools
from test_command_line import LOSS, refuse

BF16, FP16 = ("--precision", "bf16"), ("--precision", "fp16")
NOT_FOR_BF16 = ("--loss-scale: dynamic is for fp16: bf16 has the range of f32, so no gradient overflows that a smaller scale "
                "would mend; --skip-nonfinite skips without one")
POSITIVE = "must be positive and finite"
POWER = "must be a power of two, so that scaling changes no bit of a gradient; the nearest are 512 and 1024"


@pytest.mark.parametrize("args, message", [
    # Names.
    (("--precision", "bf61"), "--precision: 'bf61' is none of fp32, bf16, fp16; nearest: 'bf16'"),
    (("--precision", "fp61"), "--precision: 'fp61' is none of fp32, bf16, fp16; nearest: 'fp16'"),
    (("--precision", "float16"), "--precision: 'float16' is none of fp32, bf16, fp16"),
    (("--precison", "bf16"), "no option '--precison'; nearest: '--precision'"),
    ((*BF16, "--reduce-dtype", "bf61"), "--reduce-dtype: 'bf61' is none of fp32, bf16, fp16; nearest: 'bf16'"),
    ((*BF16, "--reduce-type", "bf16"), "no option '--reduce-type'; nearest: '--reduce-dtype'"),
    (("--loss-scale", "dynamci"), "--loss-scale 'dynamci': expected a number, such as 1024, or dynamic(..); nearest: 'dynamic'"),
    (("--loss-scale", "dynamic(windw=2)"), "--loss-scale: dynamic has no option 'windw'; its options are: init, growth, backoff, "
     "window, hysteresis, min; nearest: 'window'"),
    # A type of what is reduced that does not fit the one of products.
    (("--reduce-dtype", "bf16"), "--reduce-dtype bf16 is below --precision fp32: products would keep digits that their gradients "
     "lose; give --precision bf16"),
    (("--reduce-dtype", "fp16"), "--reduce-dtype fp16 is below --precision fp32: products would keep digits that their gradients "
     "lose; give --precision fp16"),
    ((*BF16, "--reduce-dtype", "fp16"), "--reduce-dtype fp16 does not hold what --precision bf16 computes; give bf16 or fp32"),
    ((*FP16, "--reduce-dtype", "bf16"), "--reduce-dtype bf16 does not hold what --precision fp16 computes; give fp16 or fp32"),
    # Scales.
    *((("--loss-scale", value), f"--loss-scale {value}: {POSITIVE}") for value in ("0", "-1", "-1024", "nan", "inf", "-inf")),
    ((*FP16, "--loss-scale", "0"), f"--loss-scale 0: {POSITIVE}"),
    ((*BF16, "--loss-scale", "-2"), f"--loss-scale -2: {POSITIVE}"),
    (("--loss-scale", "1e40"), "--loss-scale 1e40: must be from 2^-126 to 2^126, so that it and its inverse are exact numbers of f32"),
    (("--loss-scale", "1e-40"), "--loss-scale 1e-40: must be from 2^-126 to 2^126"),
    ((*FP16, "--loss-scale", "1000"), f"--loss-scale 1000: {POWER}"),
    ((*FP16, "--loss-scale", "dynamic(init=1000)"), f"--loss-scale: dynamic: init=1000: {POWER}"),
    *(((*FP16, "--loss-scale", f"dynamic({key}={value})"), f"--loss-scale: dynamic: {key}={value}: {POSITIVE}")
      for key in ("init", "growth", "backoff", "min") for value in ("0", "-1")),
    ((*FP16, "--loss-scale", "dynamic(init=1,min=2)"), "--loss-scale: dynamic: min=2 is more than init=1, from which the scale starts"),
    ((*FP16, "--loss-scale", "dynamic(growth=0.5)"), "--loss-scale: dynamic: growth=0.5: must be more than 1; write growth=2"),
    ((*FP16, "--loss-scale", "dynamic(backoff=2)"), "--loss-scale: dynamic: backoff=2: must be less than 1; write backoff=0.5"),
    ((*FP16, "--loss-scale", "dynamic(hysteresis=0)"), "--loss-scale: dynamic: hysteresis=0: must be at least 1"),
    ((*FP16, "--loss-scale", "dynamic(window=1.5)"), "--loss-scale: dynamic: 'window=1.5': expected an integer"),
    # Options that exclude each other.
    ((*BF16, "--loss-scale", "dynamic"), NOT_FOR_BF16),
    ((*BF16, "--loss-scale", "dynamic(init=1024)"), NOT_FOR_BF16),
    ((*FP16, "--skip-nonfinite"), "--skip-nonfinite and --loss-scale 'dynamic': a dynamic scale skips steps that are not finite by "
     "itself; leave --skip-nonfinite out"),
    # Modules.
    (("--fp32", "fc2"), "--fp32 requires --precision"),
    (("--precision", "fp32", "--fp32", "fc2"), "--fp32 fc2: all modules compute in f32 (--precision fp32)"),
    ((*BF16, "--fp32", "fc2,fc9"), "--fp32 fc9: no module of this name computes anything; nearest: 'fc1', 'fc2', 'fc3'"),
])
def test_options_of_precision_that_cannot_be_meant_are_refused(args, message, exported, tmp_path):
    error = refuse("compile", exported("mlp"), "-o", tmp_path / "plan", "--mesh", "data=2", *LOSS, *args)
    assert message in error
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("args", [("--reduce-dtype", "fp32"), ("--precision", "fp32"), (*FP16, "--loss-scale", "1024", "--skip-nonfinite"),
                                  (*BF16, "--skip-nonfinite"), (*BF16, "--loss-scale", "1024"), (*FP16, "--reduce-dtype", "fp32")],
                         ids=" ".join)
def test_their_neighbours_that_can_be_meant_are_not(args, exported, tmp_path):
    tools.tool("compile", exported("mlp"), "-o", tmp_path / "plan", "--mesh", "data=2", *LOSS, *args)
