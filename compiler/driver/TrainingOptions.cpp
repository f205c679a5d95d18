// The options of polyrank-compile about the training step.

#include "compiler/driver/OptionTable.h"

#include "compiler/training/PairLosses.h"
#include "compiler/training/UpdateRule.h"
#include "support/LearningRate.h"
#include "llvm/ADT/StringExtras.h"

using namespace polyrank;
using namespace polyrank::driver;

static constexpr const char *changesNoWeights =
                                "a forward plan changes no weights",
                            *hasNoGradients = "a forward plan has no gradients";

static std::string lossHelp() {
  return "What is trained, of an output and labels or a target: "
         "cross_entropy(OUTPUT,LABELS[,KEY=VALUE..]) with axis=K, "
         "ignore_index=N, label_smoothing=S, weight=0.2:1:3 or "
         "weight=FILE.npy; mse(OUTPUT,TARGET), and so " +
         llvm::join(training::getPairLosses().drop_front(), ", ") +
         "; output(OUTPUT); or a sum of such terms with weights: "
         "cross_entropy(a,ya)+0.5*mse(b,yb)";
}

static std::string optimizerHelp() {
  return llvm::join(training::UpdateRule::getNames(), ", ") +
         ", with PyTorch's options as PyTorch writes them: "
         "adamw(lr=1e-3,betas=(0.9,0.95)); docs/optimizers.md has those of "
         "each. decay=GLOB[:GLOB] selects the parameters that decay";
}

OptionGroup polyrank::driver::trainingOptions(Options &options) {
  return {
      "Training",
      {
          {"--loss", "LOSS", &options.loss, lossHelp()},
          {"--metric", "METRIC", &options.metrics,
           "What is logged beside the loss, without a gradient: "
           "accuracy(OUTPUT,LABELS[,top=K]), perplexity(OUTPUT,LABELS), or any "
           "loss. Repeatable"},
          {"--optimizer",
           "OPT",
           &options.optimizer,
           optimizerHelp(),
           {.refuse = unlessForward(options, changesNoWeights)}},
          {"--lr-schedule",
           "SCHEDULE",
           &options.lrSchedule,
           "How the learning rate depends on the step, with a warm-up: " +
               llvm::join(LearningRateSchedule::getNames(), ", ") +
               "; as in 'cosine(warmup=100,total=1000,min=1e-5)'; "
               "docs/learning-rates.md has their options",
           {.refuse = unlessForward(options, changesNoWeights)}},
          {"--group",
           "GROUP",
           &options.groups,
           "PATTERN: KEY=VALUE, ..: other options of the optimizer for the "
           "parameters with matching names (PyTorch's parameter groups): "
           "'head.*: lr=x0.1, weight_decay=0'; lr=x0.1 is relative to the "
           "optimizer's lr. Repeatable",
           {.refuse = unlessForward(options, changesNoWeights)}},
          {"--clip-norm",
           "X",
           &options.clipNorm,
           "Scale all gradients down to this norm, where theirs together is "
           "larger (torch.nn.utils.clip_grad_norm_); the log has it as "
           "grad_norm",
           {.check = aboveZero(),
            .refuse = unlessForward(options, hasNoGradients)}},
          {"--clip-norm-type",
           "TYPE",
           oneOfWords(&options.clipNormType, {"2", "inf"}),
           "2, or inf: the largest absolute value",
           {.needs = "--clip-norm"}},
          {"--clip-value",
           "X",
           &options.clipValue,
           "Limit each element of a gradient to [-X, X] "
           "(torch.nn.utils.clip_grad_value_)",
           {.check = aboveZero(),
            .excludes = {"--clip-norm"},
            .refuse = unlessForward(options, hasNoGradients)}},
          {"--ema",
           "DECAY",
           &options.ema,
           "Keep moving means of the trained parameters with this decay, such "
           "as 0.999, for polyrank-run --save-ema "
           "(torch.optim.swa_utils.get_ema_multi_avg_fn)",
           {.check = aboveZero(),
            .refuse = unlessForward(options, hasNoGradients)}},
          {"--loss-scale",
           "SCALE",
           &options.lossScale,
           "Multiply the loss by a power of two for the backward, and divide "
           "the gradients by it before their norm (torch.amp.GradScaler): a "
           "number such as 1024, or dynamic(KEY=VALUE,..) with init=65536, "
           "growth=2, backoff=0.5, window=2000, hysteresis=1 and min=1, which "
           "also skips a step in which a gradient is not finite; "
           "docs/loss-scaling.md has more. Default: dynamic with --precision "
           "fp16, otherwise none",
           {.refuse = [&options]() -> std::string {
             if (options.forward)
               return hasNoGradients;
             bool adapts = llvm::StringRef(options.lossScale)
                               .trim()
                               .starts_with("dynamic");
             return adapts && options.strategy.precision == "bf16"
                        ? "dynamic is for fp16: bf16 has the range of f32, "
                          "so no gradient overflows that a smaller scale "
                          "would mend; --skip-nonfinite skips without one"
                        : "";
           }}},
          {"--skip-nonfinite",
           "",
           &options.skipNonfinite,
           "Skip a step in which a gradient is not finite, on all ranks: "
           "parameters and states stay as they are",
           {.refuse = unlessForward(options, hasNoGradients)}},
          {"--freeze",
           "PATTERN",
           &options.freeze,
           "A pattern over parameters that are not trained: no gradient, no "
           "state, saved as stored. Repeatable",
           {.refuse = unlessForward(options, hasNoGradients)}},
          {"--train-only",
           "PATTERN",
           &options.trainOnly,
           "A pattern over the parameters that are trained; all others are "
           "frozen. Repeatable",
           {.refuse = unlessForward(options, hasNoGradients)}},
          {"--detach",
           "PATTERN",
           &options.detach,
           "A pattern over modules or values of the file, through which no "
           "gradient passes: of a module, what leaves it. For no_grad() and "
           "detach() that an export does not show. Repeatable",
           {.refuse = unlessForward(options, hasNoGradients)}},
      }};
}

OptionGroup polyrank::driver::layerOptions(Options &options) {
  return {
      "Layers",
      {
          {"--train", "", &options.trainLayers,
           "The layers of a TorchScript model are in training mode "
           "(model.train()), whichever they were saved in"},
          {"--eval",
           "",
           &options.evalLayers,
           "They are in evaluation mode, though it trains",
           {.excludes = {"--train"}}},
          {"--dropout",
           "P|off",
           &options.dropout,
           "The rate of every dropout, or off; otherwise as the model says "
           "(--mode forward drops nothing)",
           {.refuse = unlessForward(options, "a forward plan drops nothing")}},
          {"--batch-norm", "MODE", &options.batchNorm,
           "Statistics of batch normalization: batch (of the global batch), "
           "local=G (of G samples each) or frozen (the stored ones)"},
      }};
}
