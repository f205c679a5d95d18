"""tools/bundle.sh: a folder that trains where nothing but glibc is, with what its plans need and no more."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import tools
from tools import Case

SCRIPT = Path(__file__).resolve().parents[2] / "tools/bundle.sh"
GLIBC = ("/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libm.so.6")


def bundle(*args, code=0):
    done = subprocess.run([str(SCRIPT), *map(str, args)], capture_output=True, text=True, timeout=tools.SECONDS,
                          env={**os.environ, "POLYRANK_BIN": str(tools.bin())})
    assert done.returncode == code, done
    return done.stderr


@pytest.fixture
def plan(exported, tmp_path):
    """With its weights beside it."""
    folder = tmp_path / "made"
    folder.mkdir()
    shutil.copy(exported("mlp"), folder / "mlp.onnx")
    Case("mlp", "data=2").compile(folder / "mlp.onnx", folder / "mlp.plan", "sgd(lr=1)")
    return folder / "mlp.plan"


def productless(tmp_path):
    """A forward plan that multiplies a vector."""

    class Scale(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.arange(4, dtype=torch.float32))

        def forward(self, x):
            return x * self.weight

    torch.onnx.export(Scale().eval(), (torch.zeros(2, 4),), str(tmp_path / "scale.onnx"), input_names=["x"], output_names=["y"],
                      dynamo=True, optimize=False)
    tools.tool("compile", tmp_path / "scale.onnx", "--mode", "forward", "-o", tmp_path / "scale.plan")
    return tmp_path / "scale.plan"


def names(folder):
    return sorted(each.name for each in folder.iterdir())


def bare(root, *command):
    """Runs a command where the only files are those below `root` and /proc."""
    (root / "proc").mkdir(exist_ok=True)
    return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                           'mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"', str(root), *map(str, command)],
                          capture_output=True, text=True, timeout=tools.SECONDS)


@pytest.fixture
def root(tmp_path):
    """A machine with glibc and nothing else."""
    folder = tmp_path / "root"
    for path in GLIBC:
        if not os.path.exists(path):
            pytest.skip(f"this machine has its libraries elsewhere than {path}")
        (folder / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / path[1:])
    (folder / "data").mkdir()
    try:
        inside = bare(folder, "/lib64/ld-linux-x86-64.so.2", "--version")
    except OSError as error:
        pytest.skip(f"no unshare: {error}")
    if inside.returncode != 0:
        pytest.skip(f"namespaces of users are not allowed here: {inside.stderr}")
    return folder


def test_a_bundle_trains_where_nothing_is_installed(plan, dataset, root, tmp_path):
    bundle(root / "b", plan)
    shutil.copy(dataset("mlp", 1), root / "data/set.npz")
    done = bare(root, "/b/bin/polyrank-run", "/b/plans/mlp.plan", "--data", "/data/set.npz", "--steps", 2, "--save", "/data/w")
    assert done.returncode == 0, done
    tools.tool("run", plan, "--data", dataset("mlp", 1), "--steps", 2, "--save", tmp_path / "w")
    assert {name: value.tolist() for name, value in load_file(root / "data/w").items()} == \
        {name: value.tolist() for name, value in load_file(tmp_path / "w").items()}
    done = bare(root, "/b/bin/polyrank-inspect", "/b/plans/mlp.plan", "--json")
    assert [Path(name).name for name in json.loads(done.stdout)["weight_files"]] == ["mlp.onnx"]


def test_onednn_is_needed_by_plans_with_products_alone(plan, dataset, root, tmp_path):
    bundle(root / "b", plan)
    lib = root / "b/lib/polyrank"
    assert {"libdnnl.so.2", "libgomp.so.1", "libstdc++.so.6"} <= set(names(lib)) and "libc.so.6" not in names(lib)
    (lib / "libdnnl.so.2").unlink()
    shutil.copy(dataset("mlp", 1), root / "data/set.npz")
    args = ("/b/bin/polyrank-run", "/b/plans/mlp.plan", "--data", "/data/set.npz", "--steps", 2)
    done = bare(root, *args)
    assert done.returncode == 2 and "matrix products need oneDNN 2, and it cannot be loaded (libdnnl.so.2: " in done.stderr
    done = bare(root, *args, "--check")
    assert done.returncode == 1 and "device  WRONG matrix products need oneDNN 2" in done.stdout

    bundle(root / "small", productless(tmp_path))
    assert "libdnnl.so.2" not in names(root / "small/lib/polyrank")
    assert sum(file.stat().st_size for file in (root / "small").rglob("*") if file.is_file()) < 12e6  # oneDNN alone has 40
    tools.saveData(root / "data/x.npz", {"x": torch.ones(2, 4)})
    done = bare(root, "/small/bin/polyrank-run", "/small/plans/scale.plan", "--inputs", "/data/x.npz", "--outputs", "/data/y.npz")
    assert done.returncode == 0 and (root / "data/y.npz").exists(), done


def test_what_a_bundle_holds_and_says(plan, tmp_path):
    bundle(tmp_path / "b", plan)
    assert names(tmp_path / "b") == ["README.txt", "bin", "lib", "plans"]
    assert names(tmp_path / "b/plans") == ["mlp.onnx", "mlp.plan"]
    text = (tmp_path / "b/README.txt").read_text()
    assert "polyrank-run 0." in text and "with glibc 2." in text and "plans/mlp.plan: " in text
    weights, library = tools.tool("inspect", plan, "--files")[0].splitlines()
    assert weights.startswith("weights ") and weights.endswith("mlp.onnx") and library == "library libdnnl.so.2"

    bundle("--without-weights", tmp_path / "c", plan)
    assert names(tmp_path / "c/plans") == ["mlp.plan"]
    assert "--init FILE" in (tmp_path / "c/README.txt").read_text()


def test_a_bundle_is_whole_or_not_there(plan, exported, tmp_path):
    (tmp_path / "there").mkdir()
    assert "'" + str(tmp_path / "there") + "' is there already" in bundle(tmp_path / "there", plan, code=1)
    assert "no.plan" in bundle(tmp_path / "b", plan, tmp_path / "no.plan", code=1)
    assert "give a folder to write" in bundle(tmp_path / "b", code=1)
    # Another file of the same name.
    other = tmp_path / "other"
    other.mkdir()
    (other / "mlp.plan").write_bytes(productless(tmp_path).read_bytes())
    shutil.copy(tmp_path / "scale.onnx", other)
    assert "is not the file 'mlp.plan' that is in the bundle already" in bundle(tmp_path / "b", plan, other / "mlp.plan", code=1)
    (plan.parent / "mlp.onnx").unlink()
    assert "the weights of" in bundle(tmp_path / "b", plan, code=1)
    assert [name for name in names(tmp_path) if name.startswith("b")] == []
