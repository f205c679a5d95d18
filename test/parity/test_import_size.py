"""What imports take: weights stay in the file, and time and memory grow with the graph and not with its square."""

import sys
from pathlib import Path

import pytest

import tools

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "models"))
import export_large

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's, of exporters that are old
FORMATS = ("onnx", "pt", "pt2")


def imported(path, *options):
    """Processor seconds and the most bytes of memory of an import."""
    code, said, seconds, most = tools.spent("compile", path, *options, "--stop-after", "import")
    assert code == 0, said
    return seconds, most


@pytest.mark.parametrize("ending", FORMATS)
def test_weights_stay_in_the_file(tmp_path, ending):
    """One layer of Llama 7B, 1.9 GB of holes. An empty process takes some 90 MB for its libraries."""
    path = tmp_path / f"llama.{ending}"
    export_large.export("llama", path, layers=1)
    files = list(tmp_path.iterdir())
    assert sum(file.stat().st_size for file in files) > 1.8e9
    assert sum(file.stat().st_blocks * 512 for file in files) < 1e8
    _, bytes = imported(path)
    assert bytes < 300e6


@pytest.mark.parametrize("kind, options", [("function", ()), ("loop", ("--input", "x=float32[8,4]")), ("chain", ())])
def test_twice_the_ops_take_twice_the_time_and_memory(tmp_path, kind, options):
    """Debug information that was put together for each op once took 1.6 GB for 10,000 lines."""
    time, memory = {}, {}
    paths = {size: tmp_path / f"{size}.pt" for size in (4000, 8000)}
    for size, path in paths.items():
        export_large.export(kind, path, length=size)
    # In turns, and the least of each, since a busy machine is slower at times.
    turns = [{size: imported(path, *options) for size, path in paths.items()} for _ in range(4)]
    for size in paths:
        time[size], memory[size] = (min(turn[size][part] for turn in turns) for part in (0, 1))
    assert time[8000] <= 2.3 * time[4000], time
    assert memory[8000] <= 300e6, memory
