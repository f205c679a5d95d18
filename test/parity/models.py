"""The models of the parity tests: how each is made, exported and fed.

Weights are spread further than a fresh model's and biases are not zero, so that
attention is not uniform and no term of a gradient vanishes by chance; norms'
weights are small, so that five steps move them too.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "models"))
import export_gpt2
import export_mlp

BATCH = 8  # samples per microbatch, over all data ranks
DATA_STEPS = 7  # fewer than the steps of a run: sequential order begins again


@dataclass(frozen=True)
class Model:
    """`build` are the export script's options; `sgd` moves each tensor by 1 % in five steps."""

    family: str  # gpt2 or mlp
    build: dict = field(hash=False)
    sgd: float
    loss: str = "cross_entropy"
    dynamic: bool = False
    external: bool = False

    @property
    def script(self):
        return {"gpt2": export_gpt2, "mlp": export_mlp}[self.family]

    def fresh(self):
        model = self.script.build(**self.build)
        torch.manual_seed(1)
        with torch.no_grad():
            for name, tensor in model.named_parameters():
                if tensor.dim() > 1:
                    tensor.mul_(6 if self.family == "gpt2" else 1)
                elif name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight")):
                    tensor.copy_(0.3 + 0.1 * torch.randn_like(tensor))
                else:
                    tensor.add_(0.1 * torch.randn_like(tensor))
        return model.eval()

    def export(self, path):
        self.script.export(self.fresh(), str(path), BATCH, self.dynamic, self.external)

    @property
    def context(self):
        return self.build["context"]

    def logits(self, model, batch):
        return model(batch["input_ids"]).logits if self.family == "gpt2" else model(batch["x"])

    def lossOf(self, model, batch):
        """The mean over all targets of the global batch."""
        logits = self.logits(model, batch)
        if self.loss == "mse":
            return torch.nn.functional.mse_loss(logits, batch["target"].to(logits.dtype))
        return torch.nn.functional.cross_entropy(logits.flatten(0, -2), batch["labels"].flatten())

    @property
    def lossOption(self):
        return "mse(logits,target)" if self.loss == "mse" else "cross_entropy(logits,labels)"

    @property
    def inputOptions(self):
        """What fixes the open batch of a dynamic export."""
        if not self.dynamic:
            return []
        shape = f"input_ids=int64[{BATCH},{self.context}]" if self.family == "gpt2" \
            else f"x=float32[{BATCH},{self.build['widths'][0]}]"
        return ["--input", shape]

    def data(self, microbatches):
        """DATA_STEPS global batches, by input name."""
        samples = DATA_STEPS * BATCH * microbatches
        random = torch.Generator().manual_seed(2)
        if self.family == "gpt2":
            vocab = self.build["vocab"]
            # Half of the tokens follow from the one before: something to learn.
            tokens = torch.randint(vocab, (samples, self.context + 1), generator=random)
            for i in range(1, self.context + 1):
                known = torch.rand(samples, generator=random) < 0.5
                tokens[known, i] = (3 * tokens[known, i - 1] + 1) % vocab
            return {"input_ids": tokens[:, :-1].contiguous(), "labels": tokens[:, 1:].contiguous()}
        widths = self.build["widths"]
        x = torch.randn(samples, widths[0], generator=random)
        if self.loss == "mse":
            return {"x": x, "target": torch.randn(samples, widths[-1], generator=random)}
        return {"x": x, "labels": torch.randint(widths[-1], (samples,), generator=random)}


MODELS = {
    "gpt2": Model("gpt2", dict(layers=2, heads=4, width=32, vocab=64, context=16), sgd=4.0),
    # Six heads and 67 tokens divide by none of the meshes; dims and weights as
    # a user's second choice: eager attention, open batch, external data.
    "gpt2-six-heads": Model(
        "gpt2", dict(layers=2, heads=6, width=48, vocab=67, context=12, attention="eager"),
        sgd=2.0, dynamic=True, external=True),
    "mlp": Model("mlp", dict(widths=(16, 64, 32, 10)), sgd=0.5),
    "mlp-mse": Model("mlp", dict(widths=(16, 64, 10), activation="relu"), sgd=0.2, loss="mse",
                     dynamic=True),
}
