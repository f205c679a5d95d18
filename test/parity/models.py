"""The models of the parity tests.

Weights are spread further than a fresh model's and biases are not zero, so that
attention is not uniform and no term of a gradient vanishes by chance; norms'
weights are small, so that five steps move them too.
"""

from dataclasses import dataclass, field

import torch

import families

BATCH = 8  # samples per microbatch, over all data ranks
DATA_STEPS = 7  # fewer than the steps of a run: sequential order begins again


@dataclass(frozen=True)
class Model:
    """`build` are the family's options; `sgd` moves each tensor by 1 % in `steps` steps."""

    family: type
    build: dict = field(hash=False)
    sgd: float
    loss: str = "cross_entropy"
    dynamic: bool = False
    external: bool = False
    options: tuple = ()  # further options of polyrank-compile
    seed: int = 2  # of the data
    training: bool = False  # whether PyTorch trains it in its training mode
    steps: int = 5  # of sgd

    def fresh(self):
        model = self.family.build(**self.build)
        torch.manual_seed(1)
        with torch.no_grad():
            for name, tensor in model.named_parameters():
                if tensor.dim() > 1:
                    tensor.mul_(self.family.scale)
                elif ".ln_" in name and name.endswith("weight"):
                    tensor.copy_(0.3 + 0.1 * torch.randn_like(tensor))
                else:
                    tensor.add_(0.1 * torch.randn_like(tensor))
        return model.train(self.training)

    def export(self, path):
        self.family.export(self.fresh(), str(path), BATCH, self.dynamic, self.external)

    @property
    def context(self):
        return self.build["context"]

    def lossOf(self, model, batch):
        """The mean over all targets of the global batch."""
        logits = self.family.call(model, batch)
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
        return [word for name, shape in self.family.shapes(self.build, BATCH).items()
                for word in ("--input", f"{name}={shape}")]

    def data(self, microbatches):
        """DATA_STEPS global batches, by input name."""
        random = torch.Generator().manual_seed(self.seed)
        drawn = self.family.draw(self.build, DATA_STEPS * BATCH * microbatches, random)
        unused = "labels" if self.loss == "mse" else "target"
        return {name: tensor for name, tensor in drawn.items() if name != unused}


MODELS = {
    "gpt2": Model(families.Gpt2, dict(layers=2, heads=4, width=32, vocab=64, context=16), sgd=4.0),
    # Six heads and 67 tokens divide by none of the meshes; dims and weights as
    # a user's second choice: eager attention, open batch, external data.
    "gpt2-six-heads": Model(
        families.Gpt2, dict(layers=2, heads=6, width=48, vocab=67, context=12, attention="eager"),
        sgd=2.0, dynamic=True, external=True),
    # Large enough that memory shows.
    "gpt2-deep": Model(families.Gpt2, dict(layers=6, heads=4, width=32, vocab=64, context=16), sgd=1.0),
    "llama-deep": Model(families.Llama, dict(layers=4, heads=4, groups=2, width=32, vocab=64, context=16), sgd=1.0),
    "translator": Model(families.Translator, dict(layers=2, heads=4, width=32, vocab=64, context=12), sgd=0.5),
    "gpt2-wide": Model(families.Gpt2, dict(layers=2, heads=4, width=256, vocab=4096, context=64), sgd=1.0),
    "mlp": Model(families.Mlp, dict(widths=(16, 64, 32, 10)), sgd=0.5),
    "mlp-mse": Model(families.Mlp, dict(widths=(16, 64, 10), activation="relu"), sgd=0.2,
                     loss="mse", dynamic=True),
    "llama": Model(families.Llama, dict(layers=2, heads=4, groups=2, width=32, vocab=64, context=16),
                   sgd=2.0),
    "llama-tied": Model(
        families.Llama, dict(layers=1, heads=4, groups=1, width=32, vocab=67, context=12, tied=True),
        sgd=1.0, external=True),
    "bert": Model(families.Bert, dict(layers=2, heads=4, width=32, vocab=64, context=16, classes=5),
                  sgd=0.5),
    "vit": Model(families.VisionTransformer,
                 dict(layers=2, heads=4, width=32, image=16, patch=4, classes=5), sgd=0.5),
    # With sgd=1 or 2 some maximum has another winner in fp32 than in fp64, here
    # or in PyTorch: a jump of 1e-3.
    "resnet": Model(families.ResNet, dict(width=8, image=(33, 29), classes=5), sgd=0.8,
                    options=("--batch-norm", "batch"), training=True),
    # ResNet-50's depths, narrow and small, of odd sizes. With this seed no input
    # of a ReLU in the first batch is nearer to 0, and no two candidates for a
    # maximum nearer to each other, than PyTorch's fp32 errs in their channel;
    # with others one changes sides by rounding, and gradients jump by 1e-2. Five
    # steps say nothing of it: the losses of PyTorch's own are further from each
    # other, on one thread and two, than they are large.
    "resnet50": Model(families.ResNet, dict(width=8, image=(57, 43), classes=5, depths=(3, 4, 6, 3)),
                      sgd=3.0, options=("--batch-norm", "batch"), seed=7807, training=True, steps=1),
}
