// The boundary of a model's functions: the role of each argument and result.

#ifndef POLYRANK_GRAPH_BOUNDARY_TD
#define POLYRANK_GRAPH_BOUNDARY_TD

include "dialects/graph/Graph.td"
include "dialects/graph/GraphEnums.td"
include "mlir/IR/AttrTypeBase.td"

// An attribute that states the role of an argument or a result. A function has it
// as `graph.role` on each of them.
class Graph_Role<string name, string mnemonic_> : AttrDef<Graph_Dialect, name> {
  let mnemonic = mnemonic_;
}

def Graph_ParameterAttr : Graph_Role<"Parameter", "parameter"> {
  let summary = "An argument: a tensor of the user's file, or a part of it";
  let description = [{
    The argument may have another float type than the stored tensor: elements are
    converted when they are loaded. A *logical parameter* (a slice, reshape or
    transpose of the stored tensor) has a `view`, `base, stride..`: its element `i`
    is the stored element `base + sum(i[d] * stride[d])`.

    ```mlir
    %w: tensor<768x3x12x64xf32> {graph.role = #graph.parameter<@c_attn.weight view [0, 2304, 768, 64, 1]>}
    ```
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$symbol,
                        OptionalParameter<"::mlir::DenseI64ArrayAttr">:$view);
  let assemblyFormat = "`<` $symbol (`view` $view^)? `>`";
  let builders = [AttrBuilderWithInferredContext<(ins "::mlir::FlatSymbolRefAttr":$symbol), [{
    return $_get(symbol.getContext(), symbol, nullptr);
  }]>];
}

def Graph_StateAttr : Graph_Role<"State", "state"> {
  let summary = "An argument: what the optimizer keeps from step to step";
  let description = [{
    State of a parameter (`of`), either with the view of the parameter's argument,
    or with a shape of its own for the whole stored tensor; or state of the step as
    a whole. Each element starts as `init`.

    ```mlir
    %m: tensor<8xf32> {graph.role = #graph.state<"exp_avg" of @w>}
    %r: tensor<6x1xf32> {graph.role = #graph.state<"row_var" of @u>}
    %step: tensor<i64> {graph.role = #graph.state<"step">}
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$suffix,
                        OptionalParameter<"::mlir::FlatSymbolRefAttr">:$of,
                        OptionalParameter<"::mlir::DenseI64ArrayAttr">:$view,
                        OptionalParameter<"::mlir::FloatAttr">:$init);
  let assemblyFormat = [{
    `<` $suffix (`of` $of^)? (`view` $view^)? (`init` $init^)? `>`
  }];
  let extraClassDeclaration = [{
    /// "w.exp_avg", or "step".
    std::string getName();
  }];
}

def Graph_InputAttr : Graph_Role<"Input", "input"> {
  let summary = "An argument: an input that the user feeds";
  let description = [{
    `open_batch`: the file leaves the batch size open. `labels`: the loss compares
    with this input. `range`: elements are indices into a table or classes, and are
    below `range`, or equal to `ignored`.

    Dim 0 of the argument is the batch. `batch_dim N`: in the user's model the batch
    is dim N, which the argument has before the other dims. `no_batch`: the model's
    input has no batch; dim 0 of the argument has size 1, and all samples use that
    row.

    ```mlir
    %ids: tensor<8x128xi64> {graph.role = #graph.input<"input_ids" open_batch range 256>}
    %state: tensor<8x2x16xf32> {graph.role = #graph.input<"state" batch_dim 1>}
    %mask: tensor<1x128x128xf32> {graph.role = #graph.input<"mask" no_batch>}
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "bool":$openBatch, "bool":$labels,
                        "std::optional<int64_t>":$range, "std::optional<int64_t>":$ignored,
                        DefaultValuedParameter<"int64_t", "0">:$batchDim);
  let hasCustomAssemblyFormat = 1;
  let builders = [AttrBuilderWithInferredContext<(ins "::mlir::StringAttr":$name), [{
    return $_get(name.getContext(), name, false, false, std::nullopt, std::nullopt, 0);
  }]>];
  let extraClassDeclaration = [{
    InputAttr withOpenBatch();
    InputAttr withLabels();
    InputAttr withRange(int64_t range, std::optional<int64_t> ignored);
    /// `noBatch` for none.
    InputAttr withBatchDim(int64_t dim);
    bool hasBatch() { return getBatchDim() != noBatch; }
  }];
}

def Graph_CounterAttr : Graph_Role<"Counter", "counter"> {
  let summary = "An argument: a number that random numbers depend on";
  let description = [{
    ```mlir
    %seed: tensor<i64> {graph.role = #graph.counter<seed>}
    ```
  }];
  let parameters = (ins EnumParameter<Graph_RandomCounter>:$value);
  let assemblyFormat = "`<` $value `>`";
}

def Graph_LearningRateAttr : Graph_Role<"LearningRate", "learning_rate"> {
  let summary = "An argument: the learning rate of this step";
  let description = [{
    One f64, which the runtime computes before each step from a base and the
    learning-rate schedule, a text that `support/LearningRate.h` parses (without one
    the rate is always the base). With a `scale` it is a rate of the run: its base
    is `base`, which `polyrank-run --lr` may replace, times the scale. Without a
    scale the base belongs to a group of parameters, and nothing replaces it.

    ```mlir
    %rate: tensor<f64> {graph.role = #graph.learning_rate<1.000000e-03 : f64 scale 1.000000e+00 : f64 schedule "cosine(warmup=10,total=100)">}
    %of_head: tensor<f64> {graph.role = #graph.learning_rate<1.000000e-04 : f64 schedule "cosine(warmup=10,total=100)">}
    ```
  }];
  let parameters = (ins "::mlir::FloatAttr":$base,
                        OptionalParameter<"::mlir::FloatAttr">:$scale,
                        OptionalParameter<"::mlir::StringAttr">:$schedule);
  let assemblyFormat = [{
    `<` $base (`scale` $scale^)? (`schedule` $schedule^)? `>`
  }];
  let extraClassDeclaration = [{
    /// "learning rate x0.1" if it has a scale, else "learning rate 0.0001".
    std::string getName();
    /// The rate of a step, the first of which is 0.
    double getRate(uint64_t step);
  }];
}

def Graph_OutputAttr : Graph_Role<"Output", "output"> {
  let summary = "A result: an output for the user";
  let description = [{
    The mean of a number over several steps is `arithmetic` or `geometric` (e to the
    power of the mean of its logarithms). `batch_dim` and `no_batch` are as for an
    input: an output without a batch is one row of each batch.

    ```mlir
    -> (tensor<8x128x256xf32> {graph.role = #graph.output<"logits">},
        tensor<8x2x16xf32> {graph.role = #graph.output<"state" batch_dim 1>})
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name,
                        DefaultValuedParameter<"::polyrank::graph::MeanKind",
                                               "::polyrank::graph::MeanKind::Arithmetic">:$mean,
                        DefaultValuedParameter<"int64_t", "0">:$batchDim);
  let assemblyFormat = "`<` $name `` custom<MeanKind>($mean) `` custom<BatchDim>($batchDim) `>`";
  let builders = [AttrBuilderWithInferredContext<(ins "::mlir::StringAttr":$name,
                                                      CArg<"::polyrank::graph::MeanKind", "::polyrank::graph::MeanKind::Arithmetic">:$mean,
                                                      CArg<"int64_t", "0">:$batchDim), [{
    return $_get(name.getContext(), name, mean, batchDim);
  }]>];
}

def Graph_NextAttr : Graph_Role<"Next", "next"> {
  let summary = "A result: the value of an argument in the next step";
  let description = [{
    The argument is a parameter or state.

    ```mlir
    func.func @step(%w: tensor<8xf32> {graph.role = #graph.parameter<@w>}) -> (tensor<8xf32> {graph.role = #graph.next<0>})
    ```
  }];
  let parameters = (ins "unsigned":$argument);
  let assemblyFormat = "`<` $argument `>`";
}

def Graph_MeanAttr : Graph_Role<"Mean", "mean"> {
  let summary = "A result: the sum that a mean is made of";
  let description = [{
    The sum is added over microbatches and ranks and then divided by the count that
    follows it (`count`). With a `weight` the mean is a term of the loss; otherwise
    it is only logged. For a `geometric` mean the sum is one of logarithms: the mean
    is e to the power of sum / count. A `further` result is another part of the mean
    before it: the value is the sum of the parts' quotients, each over its own
    count.

    ```mlir
    -> (tensor<f32> {graph.role = #graph.mean<"mse(b,yb)" weight 0.3>}, tensor<f32> {graph.role = #graph.count<64>})
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, OptionalParameter<"::mlir::FloatAttr">:$weight,
                        DefaultValuedParameter<"::polyrank::graph::MeanKind",
                                               "::polyrank::graph::MeanKind::Arithmetic">:$kind,
                        DefaultValuedParameter<"bool", "false">:$further);
  let assemblyFormat = "`<` $name (`weight` $weight^)? `` custom<MeanKind>($kind) `` custom<Further>($further) `>`";
}

def Graph_CountAttr : Graph_Role<"Count", "count"> {
  let summary = "A result: the count by which the sum before it is divided";
  let description = [{
    `targets` is the number of targets if none is ignored, and then equals the count
    unless targets have weights. If the sum over all microbatches is less than
    `least`, the count is `least`.
  }];
  let parameters = (ins "int64_t":$targets, OptionalParameter<"::mlir::FloatAttr">:$least);
  let assemblyFormat = "`<` $targets (`least` $least^)? `>`";
}

#endif
