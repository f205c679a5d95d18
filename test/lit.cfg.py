# lit: every .mlir and .test below this folder, with our tools and LLVM's on PATH.
import os
import subprocess

import lit.formats

config.name = "polyrank"
config.suffixes = [".mlir", ".test"]
config.test_format = lit.formats.ShTest(execute_external=False)
config.test_source_root = os.path.dirname(__file__)
config.environment["PATH"] = os.pathsep.join(
    [config.polyrank_bin_dir, config.llvm_bin_dir, os.environ["PATH"]])
# lit passes few variables on: these turn on mutants (mutations/run.py).
for name in ("MUTANT", "MUTANTS_REACHED"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
# The Python with the packages of parity/requirements.txt, which tools/check.sh makes.
python = os.path.join(config.test_source_root, os.pardir, ".venv/bin/python")
if os.path.exists(python) and subprocess.run(
        [python, "-c", "import tree_sitter, tree_sitter_cpp"], capture_output=True).returncode == 0:
    config.available_features.add("tree-sitter")
if os.path.exists(os.path.join(os.path.dirname(python), "clang-format")):
    config.available_features.add("clang-format")
# %models: exports that tests share (models/README.md); %tools: our scripts.
config.substitutions += [
    ("%models", os.path.join(config.test_source_root, "models")),
    ("%python", python),
    ("%tools", os.path.join(config.test_source_root, os.pardir, "tools")),
]

# The tests of lowering once more, with the second target in the place of the product's
# (compiler/target/grid). Left out are those that expect what the product's target decides.
config.excludes = ["grid"]
if lit_config.params.get("target") == "grid":
    config.test_exec_root = os.path.join(config.test_exec_root, "grid")
    config.environment["PATH"] = os.pathsep.join([config.test_exec_root, config.environment["PATH"]])
    config.excludes = [
        "cpu", "cuda",
        # Which ops are one kernel, and how long sums are cut.
        "dead-results.mlir", "form-kernels.mlir", "long-sums.mlir", "scatter-into.mlir",
        # Kernel schedules; which matrices of a loop are transposed; which GEMMs and attentions there are.
        "form-attention.mlir", "form-attention-errors.mlir", "form-gemms-errors.mlir", "form-loops.mlir", "lower-kernels.mlir",
        # The alignment of buffers, and rates.
        "assign-buffers-channels.mlir", "assign-buffers.mlir", "start-collectives.mlir",
        # What the communicator has: target/grid/collectives.mlir.
        "normalize-collectives.mlir",
        # Models that polyrank-compile has for its own target: target/grid/steps.test has them for this one.
        "lowered-steps.test"]
