"""What README.md and the guide tell the reader to type works, block by block.

```python blocks share one namespace, ```sh blocks run in the same folder with the
tools on PATH. Blocks with another tag (```bash) are not examples.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest
import tools

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("document", ["README.md", "docs/guide.md"])
def test_examples_run_as_printed(document, tmp_path, monkeypatch):
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```", (ROOT / document).read_text(), re.M | re.S)
    assert len(blocks) >= 3
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tools.bin().resolve()}:{os.environ['PATH']}")
    names = {}
    for language, text in blocks:
        if language == "python":
            exec(compile(text, document, "exec"), names)
            continue
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], capture_output=True,
                              text=True, timeout=tools.SECONDS)
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
