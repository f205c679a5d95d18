// The passes that turn an imported model into one training step.

#ifndef POLYRANK_TRAINING_PASSES_TD
#define POLYRANK_TRAINING_PASSES_TD

include "mlir/Pass/PassBase.td"

def UnflattenPass : Pass<"unflatten", "::mlir::ModuleOp"> {
  let summary = "Moves reshapes that merge leading dims down the program";
  let description = [{
    Exports merge leading dims ([B, S] to [B*S], [B, heads, ..] to [B*heads, ..])
    around matmuls, lookups and losses. No layout survives that: rows split over
    one axis and heads over another have no common dim. The pass moves every such
    reshape down, through ops that treat these rows independently, until it meets
    the reshape that undoes it; a reshape that reaches an output stays there. A
    merge of a contracted dim ([heads, width] to [heads*width] before a
    projection) moves onto the weight.
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect"];
}

def RaiseCompositesPass : Pass<"raise-composites", "::mlir::ModuleOp"> {
  let summary = "Raises ops to composites: gelu, silu, layer_norm, rms_norm, attention, grouped_matmul";
  let description = [{
    A pattern is raised only if the composite computes the same value. Ops that
    are not recognised stay as they are: they are legal, but slower.

    Logarithms of sigmoid(x), 1 - sigmoid(x), softmax(x), 1 + e^x and e^x + e^y
    get a form that neither overflows nor vanishes. Those of
    binary_cross_entropy, max(log p, -100) and max(log(1 - p), -100) for the same
    p, keep their value and get PyTorch's gradient, which is bounded too.

    Reductions of consecutive blocks of a dim whose results are concatenated, to
    which a loop over bags of embeddings is unrolled, become one reduction:

    ```mlir
    %a = graph.slice %x rows [0, 5); %b = graph.slice %x rows [5, 10)
    graph.concat(sum %a, sum %b)        // of [10, d]: [2, d]
    // becomes the sum of a [2, 5, d] over dim 1
    ```
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect"];
}

def FindLogicalParametersPass : Pass<"find-logical-parameters", "::mlir::ModuleOp"> {
  let summary = "Pushes splits and reshapes around a matmul into its weight";
  let description = [{
    If the result of a matmul with a parameter is only used split (a fused
    projection cut into q, k and v, then into heads), the parameter is viewed with
    the same split: the view in its role says where element i lies in the stored
    tensor. Then the heads are a dim of the weight, which an axis can split
    without communication. Parts of equal size become one dim of one parameter;
    parts of unequal sizes become separate parameters. The views of a stored
    tensor partition it; a use of only some elements stays an op.
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect"];
}

def AttachLossPass : Pass<"attach-loss", "::mlir::ModuleOp"> {
  let summary = "Replaces the model's outputs by the loss and the metrics";
  let description = [{
    @forward then returns means, each as two scalars: a sum (`#graph.mean`, with
    its name) and the number of targets by which it is divided (`#graph.count`,
    with the largest possible number), or as several such pairs, whose quotients
    are added. First come the terms of the loss, with their weights, then the
    metrics, then the model's other outputs that are one float.

    The loss is a term, or a sum of terms with weights, such as
    cross_entropy(a,ya)+0.5*mse(b,yb). The mean of each is over its own targets
    of the global batch.

      cross_entropy(OUTPUT,LABELS[,axis=K][,ignore_index=N]
                    [,label_smoothing=S][,weight=W])
        LABELS becomes an input of 64-bit integers with the dims of OUTPUT
        except dim K, the classes. Without axis=K, K is 1 if OUTPUT has two dims,
        and otherwise the dim without which the shape is that of an integer
        input. Labels equal to N (-100) do not count. With weights of the classes,
        0.2:1:3 or a FILE.npy, the mean is weighted by the weights of the labels
        that count.
      mse(OUTPUT,TARGET), l1, smooth_l1(..,beta=1), huber(..,delta=1)
      binary_cross_entropy_with_logits(OUTPUT,TARGET[,pos_weight=1])
        TARGET becomes an input like OUTPUT; the mean is over all elements.
        pos_weight is one number, or one for each index of the last dim.
      output(OUTPUT)
        OUTPUT is the loss, a sum of parts. If a part is a sum over samples
        divided by a count that depends on inputs alone, its value over all
        microbatches is the sum of the sums divided by the sum of the counts. The
        rest is the mean of the microbatches' values. A remark describes the
        parts, and names ops that are no sum over samples. Metrics are split in
        the same way.

    A metric is any of these, without a gradient, or

      accuracy(OUTPUT,LABELS[,axis=K][,ignore_index=N][,top=1])
        The share, of the labels that count, of those whose class has one of the
        `top` highest scores. Of equal scores the first is the higher one.
      perplexity(OUTPUT,LABELS[,axis=K][,ignore_index=N])
        e to the power of the mean cross entropy.

    Without ignore_index a metric ignores the labels that the loss ignores.
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect"];
  let options = [
    Option<"loss", "loss", "std::string", "\"\"", "which loss to train; none: metrics alone">,
    ListOption<"metrics", "metrics", "std::string", "what is logged beside it">
  ];
}

def BuildStepPass : Pass<"build-step", "::mlir::ModuleOp"> {
  let summary = "Builds @step from @forward: gradients, microbatches, optimizer";
  let description = [{
    @step takes parameters, optimizer state, the scalar state `step`, the seed
    and the inputs, whose dim 0 is the microbatch, and returns the parameters and
    states, in the order of the arguments, then the metrics: `loss` and `count`,
    the number of targets in all microbatches; for a loss of several terms, `loss`
    and then each term with its count (`NAME.count`); then the other means of
    @forward. @forward is erased.

    With several terms, the numbers of targets that count are computed before the
    microbatches, from the inputs alone, so that each microbatch computes its
    gradients with the final weights.

    Optimizers compute what PyTorch 2 does, from options of the same names:

      sgd(lr=1e-3,momentum=0,dampening=0,weight_decay=0,nesterov=false)
      adam(lr=1e-3,betas=(0.9,0.999),eps=1e-8,weight_decay=0,amsgrad=false)
      adamw(lr=1e-3,betas=(0.9,0.999),eps=1e-8,weight_decay=0.01,amsgrad=false)
      adagrad(lr=1e-2,lr_decay=0,weight_decay=0,initial_accumulator_value=0,eps=1e-10)
      rmsprop(lr=1e-2,alpha=0.99,eps=1e-8,weight_decay=0,momentum=0,centered=false)
      adafactor(lr=1e-2,beta2_decay=-0.8,eps=(None,1e-3),d=1,weight_decay=0)
      lamb(lr=1e-3,betas=(0.9,0.999),eps=1e-6,weight_decay=0.01;
           bias_correction=true,grad_averaging=true,use_nvlamb=true,
           min_coeff=0,max_coeff=inf), of its authors
      lion(lr=1e-4,betas=(0.9,0.99),weight_decay=0), of its authors
      muon(lr=1e-3,weight_decay=0.1,momentum=0.95,nesterov=true,
           ns_coefficients=(3.4445,-4.775,2.0315),eps=1e-7,ns_steps=5,
           adjust_lr_fn=original; adamw=GLOB[:GLOB..],adamw_lr=1e-3,
           adamw_betas=(0.9,0.999),adamw_eps=1e-8,adamw_weight_decay=0.01)

    and maximize=false. Options without names are in this order, up to the
    semicolon. muon updates stored matrices; other parameters, and those that
    `adamw` names, are updated by adamw.

    `decay=GLOB[:GLOB..]` lets weight decay act only on parameters with matching
    names. A parameter on which the loss does not depend is left as it is.

    The learning rate is an argument of @step (`#graph.learning_rate`), which the
    runtime computes before each step: from the optimizer's lr and lr-schedule, a
    text such as cosine(warmup=100,total=1000) (docs/learning-rates.md).

    `group=PATTERN: KEY=VALUE, ..` sets other options for the parameters with
    matching names, as PyTorch's parameter groups do: weight_decay=0, lr=x0.1 of
    the optimizer's lr, lr=1e-5 of their own. No parameter is in two groups.

    clip-norm scales all gradients if their joint norm (clip-norm-type: 2, or inf,
    the largest absolute value) is larger, and logs that norm as `grad_norm`;
    clip-value limits each element. Both equal PyTorch's functions of these names.

    With ema=d each trainable parameter p has a state `ema`, the moving average of
    its values: p after the first step, then d * ema + (1 - d) * p, like PyTorch's
    AveragedModel with get_ema_multi_avg_fn(d).

    loss-scale multiplies the loss by a number before the backward, and divides
    each gradient by it after the sum over microbatches and ranks and before the
    norm, so that narrow floats of the backward do not vanish:

      1024
      dynamic(init=65536,growth=2,backoff=0.5,window=2000,hysteresis=1,min=1)

    All numbers but `window` and `hysteresis` are powers of two. With a dynamic
    scale, or with skip-nonfinite, a step in which a gradient of any rank is not
    finite is skipped: parameters and states stay as they are, except the number
    of steps. The state `updates` counts the steps that were not skipped, and is
    the number of steps that the optimizer and the moving means know. A dynamic
    scale is then multiplied by `backoff` (not below `min`), the first
    `hysteresis` - 1 times excepted; after `window` updates in a row it is
    multiplied by `growth`, and the hysteresis starts again. @step returns the
    metrics `loss_scale` (if it is dynamic), `skipped` (0: updated; 1: skipped; 2:
    the scale is at `min` and would have to be lowered, and elements of
    parameters whose gradient is not finite have become NaN) and `skipped_total`.

    With mode=forward @step computes the outputs: inputs and outputs get a
    leading microbatch dim of 1, and dropout is off.
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect"];
  let options = [
    Option<"mode", "mode", "std::string", "\"train\"", "train or forward">,
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"", "see above">,
    Option<"microbatches", "microbatches", "int64_t", "1", "how many one step adds up">,
    Option<"clipNorm", "clip-norm", "double", "0", "the largest norm of all gradients; 0: any">,
    Option<"clipNormType", "clip-norm-type", "std::string", "\"2\"", "2 or inf">,
    Option<"clipValue", "clip-value", "double", "0", "the largest element of a gradient; 0: any">,
    Option<"schedule", "lr-schedule", "std::string", "\"\"", "how the learning rate depends on the step">,
    ListOption<"groups", "group", "std::string", "other options of some parameters">,
    Option<"ema", "ema", "double", "0", "the decay of moving means of the parameters; 0: none are kept">,
    Option<"lossScale", "loss-scale", "std::string", "\"\"", "a number, or dynamic(..); empty: none">,
    Option<"skipNonfinite", "skip-nonfinite", "bool", "false", "skip a step in which a gradient is not finite">
  ];
}

def LowerPrecisionPass : Pass<"lower-precision", "::mlir::ModuleOp"> {
  let summary = "Lets products of @step compute in bf16 or f16";
  let description = [{
    `precision` is fp32, which changes nothing, bf16 or fp16. In the forward and
    the backward of @step

    - products, attention and their gradients take operands of the low type, add
      in f32, and round once;
    - sums, norms, softmax, losses, exponentials and logarithms compute in f32;
    - all other ops compute in the widest type of their operands.

    Each op has a trait that says which of the three it is (Precision.h).
    Constants that are alike at each index have no say in what is the widest type,
    nor has the bias that a layer adds to its product.

    Parameters, the state of the optimizer and the update stay f32. A parameter is
    converted once in a step, before the microbatches. The gradient of a weight is
    a product with a result of f32, and gradients are added up in f32.

    `fp32` are patterns of modules, PATTERN[,PATTERN], that compute in f32. With
    `reduce-dtype` the gradients of parameters are rounded before ranks add them up:
    each part of a sum that is partial over ranks, once. `shard-updates` removes the
    conversion where there is no such sum.

    ```mlir
    %y = graph.matmul %x, %w batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
    // becomes
    %w16 = graph.convert %w : (tensor<8x3xf32>) -> tensor<8x3xbf16>
    %x16 = graph.convert %x : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %y = graph.matmul %x16, %w16 batch [] x [] contract [1] x [0] : (tensor<4x8xbf16>, tensor<8x3xbf16>) -> tensor<4x3xbf16>
    ```
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect"];
  let options = [
    Option<"precision", "precision", "std::string", "\"fp32\"", "fp32, bf16 or fp16">,
    Option<"fp32", "fp32", "std::string", "\"\"", "patterns of modules that stay f32">,
    Option<"reduceDtype", "reduce-dtype", "std::string", "\"fp32\"", "fp32, or the type of precision">
  ];
}

#endif
