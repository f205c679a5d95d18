# lit: every .mlir and .test below this folder, with our tools and LLVM's on PATH.
import os

import lit.formats

config.name = "polyrank"
config.suffixes = [".mlir", ".test"]
config.test_format = lit.formats.ShTest(execute_external=False)
config.test_source_root = os.path.dirname(__file__)
config.environment["PATH"] = os.pathsep.join(
    [config.polyrank_bin_dir, config.llvm_bin_dir, os.environ["PATH"]])
# lit passes few variables on: these turn on planted bugs (mutations/run.py).
for name in ("PLANTED_BUG", "PLANTED_BUGS_REACHED"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
# %models: exports that tests share (models/README.md); %tools: our scripts.
config.substitutions += [
    ("%models", os.path.join(config.test_source_root, "models")),
    ("%tools", os.path.join(config.test_source_root, os.pardir, "tools")),
]
