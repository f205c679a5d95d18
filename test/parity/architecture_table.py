"""Writes docs/architectures.md from the results of architectures.py."""

import re
import textwrap
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import architecture_list as listed

PAGE = Path(__file__).resolve().parents[2] / "docs/architectures.md"

HEAD = """# Architectures

{total} architectures of transformers {transformers} and timm {timm}, in tiny configurations, from the `.pt2` file that PyTorch {torch}
exports to the first gradients of a training step. `test/parity/architectures.py` builds each of them as
`test/parity/architecture_list.py` says (transformers in `eval()`; timm in `train()`, so with statistics of the batch), draws weights under
which no gradient vanishes by chance, exports it with `torch.export` for a batch of four samples, compiles it and runs one step; every
fifth also on `data=2`. The loss is a cross entropy or a mean square of the first output, or what the model computes. Vision-language
models have image tokens in their text.

*Equal* means that the loss and the gradient of each parameter differ from PyTorch's in float64 by no more than 1e-4 of themselves, or,
where PyTorch itself differs by more (float32 against float64, the batch turned round, each weight changed by one rounding, of which four
are drawn), by no more than three times that. A gradient that is less than 1e-4 of the largest is compared with that part of it, and
one that is zero but for rounding with the largest.

```bash
pip install --no-deps timm=={timm}
python test/parity/architectures.py          # measures
python test/parity/architectures.py --table  # writes this page
```
"""

KINDS = (
    ("language models that predict the next token", listed.CAUSAL),
    ("language models that fill in tokens", listed.MASKED),
    ("from text to text", listed.TRANSLATING),
    ("classes of images", listed.VISION),
    ("speech, images with text, dense prediction, series and others", listed.OTHERS),
    ("timm", listed.TIMM),
)


def row(*cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |\n"


def names(results):
    return ", ".join(f"`{result['name']}`" for result in results)


def brief(reason):
    """A reason without the nodes that it names, and without what PyTorch proposes."""
    parts = [re.sub(r": \d+ nodes?, .*", "", part) for part in reason.split(" / ")]
    text = re.sub(r" \((unhinted|Size-like).*|`", "", "; ".join(parts))
    return textwrap.shorten(text, 330, placeholder=" ...")


def write(results):
    """Writes the page of these results, each a line of results.jsonl, in the order of the list."""
    found = {result["name"]: result for result in results}
    order = ("equal", "refused", "wrong", "failed", "not exported")
    counts = Counter(result["result"] for result in results)
    versions = {name: version(name).partition("+")[0] for name in ("transformers", "timm", "torch")}
    text = HEAD.format(total=len(results), **versions)
    shown = [result for result in order if counts[result] or result in ("equal", "refused", "wrong", "not exported")]
    text += "\n" + row("", *shown) + row(*["---"] * (len(shown) + 1))
    for title, table in KINDS:
        inner = Counter(found[name]["result"] for name in table if name in found)
        text += row(title, *(inner[result] for result in shown))
    text += row("together", *(counts[result] for result in shown))
    exported = len(results) - counts["not exported"]
    text += f"\nOf the {exported} that PyTorch exports {100 * counts['equal'] / exported:.1f} % are equal.\n"
    text += "\n## Equal\n\n" + row("", "") + row("---", "---")
    for title, table in KINDS:
        text += row(title, names(found[name] for name in table if name in found and found[name]["result"] == "equal"))
    # What the bound of PyTorch's own differences was needed for.
    wide = [result for result in results if result["result"] == "equal" and result["difference"] > 1e-4]
    if wide:
        text += f"\nA gradient differs by more than 1e-4, and by less than three times what PyTorch's own do, in {names(wide)}.\n"
    titles = dict(refused="Refused", wrong="Wrong", failed="Ended without a result") | {"not exported": "Not exported by PyTorch"}
    for result, title in titles.items():
        if not counts[result]:
            continue
        text += f"\n## {title}\n\n" + row("", "what is said") + row("---", "---")
        reasons = {}
        for each in results:
            if each["result"] == result:
                reasons.setdefault(brief(each["reason"]), []).append(each)
        for reason, those in reasons.items():
            text += row(names(those), f"`{reason}`")
    PAGE.write_text(text)
