"""Polyrank from Python: export a module, compile it, train it, load the weights back.

    import polyrank

    polyrank.export(model, (torch.zeros(8, 4),), "model.pt2", batch="fixed")
    plan = polyrank.compile("model.pt2", mesh="data=2", loss="mse(output,target)", optimizer="adamw(lr=1e-3)")
    print(plan)                                  # ranks, memory of each, time of a step as planned
    run = polyrank.train(plan, {"input": x, "target": y}, steps=100)
    for record in run:                           # as the steps are done
        print(record["step"], record["loss"])
    model.load_state_dict(run.state_dict())

The work is done by the tools polyrank-compile, polyrank-run and polyrank-inspect; this module starts them and reads
what they report. Keyword arguments are the tools' own options (`polyrank compile --help`): `lr_schedule="cosine(..)"`
is `--lr-schedule`, a list repeats an option, a dict gives it pairs, and True is a flag. What a tool refuses is an
`Error` with the tool's own text. PyTorch is needed by `export` alone. `feed` is for a program of its own, which gives a
run its samples (docs/your-data.md).
"""

from ._export import export
from ._feed import feed, firstSample
from ._plan import Plan, compile
from ._tools import Error, version
from ._train import Training, train

__all__ = ["Error", "Plan", "Training", "compile", "export", "feed", "firstSample", "train"]
__version__ = version()
