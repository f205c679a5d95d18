// Composites: ops with a better kernel or gradient than their parts.

#ifndef POLYRANK_GRAPH_COMPOSITE_TD
#define POLYRANK_GRAPH_COMPOSITE_TD

include "dialects/graph/Graph.td"
include "dialects/graph/GraphEnums.td"

// A composite returns the residuals that its backward needs, so that forward and
// backward can be decomposed in the same way if a layout requires it. Narrow floats
// are rounded once, at its end: its parts compute in f32 (Parts.h, decompose).
class Graph_Composite<string mnemonic, Trait precision, list<string> methods = [], list<Trait> traits = []>
    : Graph_Op<mnemonic, precision, methods, !listconcat([DeclareOpInterfaceMethods<CompositeOpInterface>], traits)> {
  let hasVerifier = 1;
}

def Graph_SoftmaxOp : Graph_Composite<"softmax", Graph_ComputesWide, ["buildGradient"]> {
  let summary = "exp(x - max) / sum(exp(x - max)) along `dim`";
  let description = [{
    ```mlir
    %y = graph.softmax %x {dim = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    ```

    1. Operands and result have one shape.
    2. Their elements have one type.
    3. `dim` is a dim of the tensors.
  }];
  let arguments = (ins Graph_FloatTensor:$input, I64Attr:$dim);
  let results = (outs Graph_FloatTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "int64_t":$dim), [{
    build($_builder, $_state, input.getType(), input, dim);
  }]>];
}

def Graph_SoftmaxGradOp : Graph_Composite<"softmax_grad", Graph_ComputesWide> {
  let summary = "y * (dy - sum(y * dy)) along `dim`";
  let description = [{
    ```mlir
    %dx = graph.softmax_grad %dy, %y {dim = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    ```

    1. Operands and result have one shape.
    2. Their elements have one type.
    3. `dim` is a dim of the tensors.
  }];
  let arguments = (ins Graph_FloatTensor:$resultGradient, Graph_FloatTensor:$result_value, I64Attr:$dim);
  let results = (outs Graph_FloatTensor:$inputGradient);
}

def Graph_LayerNormOp : Graph_Composite<"layer_norm", Graph_ComputesWide, ["buildGradient"]> {
  let summary = "Ba, Kiros, Hinton, Layer Normalization (2016), over the last dims";
  let description = [{
    y = (x - mean) * rstd * scale + bias, with mean and biased variance over the
    dims that `scale` and `bias` have, the last ones of x, and
    rstd = 1 / sqrt(variance + epsilon). `mean` and `rstd` have the other dims.

    ```mlir
    %y, %mean, %rstd = graph.layer_norm %x, %scale, %bias {epsilon = 1.0e-5 : f64}
       : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
    ```

    1. Floats have one type, and statistics that in which their sums are formed: f32
       for bf16 and f16.
    2. The result has the shape of the input.
    3. `scale` has the last dims of the input.
    4. Statistics have its other dims.
    5. `scale` and `bias` have one shape.
  }];
  let arguments = (ins Graph_FloatTensor:$input, Graph_FloatTensor:$scale,
                       Graph_FloatTensor:$bias, F64Attr:$epsilon);
  let results = (outs Graph_FloatTensor:$result, Graph_FloatTensor:$mean, Graph_FloatTensor:$rstd);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::Value":$scale, "::mlir::Value":$bias, "double":$epsilon)>];
}

def Graph_LayerNormGradOp : Graph_Composite<"layer_norm_grad", Graph_ComputesWide> {
  let summary = "Gradients of layer_norm's input, scale and bias";
  let description = [{
    ```mlir
    %dx, %dscale, %dbias = graph.layer_norm_grad %dy, %x, %scale, %mean, %rstd
       : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<8xf32>, tensor<8xf32>)
       -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
    ```

    1. Floats have one type, and statistics that in which their sums are formed: f32
       for bf16 and f16.
    2. Gradients have the shape of their values.
    3. `scale` has the last dims of the input.
    4. Statistics have its other dims.
    5. `scale` and the gradients of `scale` and `bias` have one shape.
  }];
  let arguments = (ins Graph_FloatTensor:$resultGradient, Graph_FloatTensor:$input,
                       Graph_FloatTensor:$scale, Graph_FloatTensor:$mean, Graph_FloatTensor:$rstd);
  let results = (outs Graph_FloatTensor:$inputGradient, Graph_FloatTensor:$scaleGradient,
                      Graph_FloatTensor:$biasGradient);
}

def Graph_RmsNormOp : Graph_Composite<"rms_norm", Graph_ComputesWide, ["buildGradient"]> {
  let summary = "Zhang, Sennrich, Root Mean Square Layer Normalization (2019), over the last dims";
  let description = [{
    y = x * rstd * scale with rstd = 1 / sqrt(mean(x^2) + epsilon), the mean
    over the dims that `scale` has, the last ones of x. `rstd` has the other
    dims.

    ```mlir
    %y, %rstd = graph.rms_norm %x, %scale {epsilon = 1.0e-5 : f64}
       : (tensor<8x4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
    ```

    1. Floats have one type, and statistics that in which their sums are formed: f32
       for bf16 and f16.
    2. The result has the shape of the input.
    3. `scale` has the last dims of the input.
    4. Statistics have its other dims.
  }];
  let arguments = (ins Graph_FloatTensor:$input, Graph_FloatTensor:$scale, F64Attr:$epsilon);
  let results = (outs Graph_FloatTensor:$result, Graph_FloatTensor:$rstd);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::Value":$scale, "double":$epsilon)>];
}

def Graph_RmsNormGradOp : Graph_Composite<"rms_norm_grad", Graph_ComputesWide> {
  let summary = "Gradients of rms_norm's input and scale";
  let description = [{
    ```mlir
    %dx, %dscale = graph.rms_norm_grad %dy, %x, %scale, %rstd
       : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<8xf32>) -> (tensor<8x4xf32>, tensor<4xf32>)
    ```

    1. Floats have one type, and statistics that in which their sums are formed: f32
       for bf16 and f16.
    2. Gradients have the shape of their values.
    3. `scale` has the last dims of the input.
    4. Statistics have its other dims.
    5. `scale` and its gradient have one shape.
  }];
  let arguments = (ins Graph_FloatTensor:$resultGradient, Graph_FloatTensor:$input,
                       Graph_FloatTensor:$scale, Graph_FloatTensor:$rstd);
  let results = (outs Graph_FloatTensor:$inputGradient, Graph_FloatTensor:$scaleGradient);
}

def Graph_GeluOp : Graph_Composite<"gelu", Graph_ComputesWidest, ["buildGradient"], [Graph_IsElementwise]> {
  let summary = "Hendrycks, Gimpel, Gaussian Error Linear Units (2016)";
  let description = [{
    `erf`: x/2 (1 + erf(x / sqrt 2)). `tanh`: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).

    ```mlir
    %y = graph.gelu tanh %x : tensor<4x3xf32>
    ```

    1. Operands and result have one shape.
    2. Their elements have one type.
  }];
  let arguments = (ins Graph_FloatTensor:$input, Graph_GeluForm:$form);
  let results = (outs Graph_FloatTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "GeluForm":$form), [{
    build($_builder, $_state, input.getType(), input, form);
  }]>];
  let assemblyFormat = "$form $input attr-dict `:` custom<AlikeTypes>(type($input), type($result))";
}

def Graph_GeluGradOp : Graph_Composite<"gelu_grad", Graph_ComputesWidest> {
  let summary = "dy * gelu'(x)";
  let description = [{
    ```mlir
    %dx = graph.gelu_grad erf %dy, %x : tensor<4x3xf32>
    ```

    1. Operands and result have one shape.
    2. Their elements have one type.
  }];
  let arguments = (ins Graph_FloatTensor:$resultGradient, Graph_FloatTensor:$input, Graph_GeluForm:$form);
  let results = (outs Graph_FloatTensor:$inputGradient);
  let assemblyFormat = [{
    $form $resultGradient `,` $input attr-dict
    `:` custom<AlikeTypes>(type($resultGradient), type($input), type($inputGradient))
  }];
}

def Graph_SiluOp : Graph_Composite<"silu", Graph_ComputesWidest, ["buildGradient"], [Graph_IsElementwise]> {
  let summary = "x / (1 + e^-x): Elfwing, Uchibe, Doya, Sigmoid-weighted linear units (2017); swish";
  let description = [{
    ```mlir
    %y = graph.silu %x : tensor<4x3xf32>
    ```

    1. Operands and result have one shape.
    2. Their elements have one type.
  }];
  let arguments = (ins Graph_FloatTensor:$input);
  let results = (outs Graph_FloatTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input), [{
    build($_builder, $_state, input.getType(), input);
  }]>];
  let assemblyFormat = "$input attr-dict `:` custom<AlikeTypes>(type($input), type($result))";
}

def Graph_SiluGradOp : Graph_Composite<"silu_grad", Graph_ComputesWidest> {
  let summary = "dy * s (1 + x (1 - s)) with s = 1 / (1 + e^-x)";
  let description = [{
    ```mlir
    %dx = graph.silu_grad %dy, %x : tensor<4x3xf32>
    ```

    1. Operands and result have one shape.
    2. Their elements have one type.
  }];
  let arguments = (ins Graph_FloatTensor:$resultGradient, Graph_FloatTensor:$input);
  let results = (outs Graph_FloatTensor:$inputGradient);
  let assemblyFormat = [{
    $resultGradient `,` $input attr-dict
    `:` custom<AlikeTypes>(type($resultGradient), type($input), type($inputGradient))
  }];
}

def Graph_CrossEntropyOp : Graph_Composite<"cross_entropy", Graph_ComputesWide, ["buildGradient"]> {
  let summary = "Per row, lse(logits) - logits[label]; 0 where the label is ignored";
  let description = [{
    The classes are dim `axis` of the logits; labels, loss and lse (the
    logarithm of the sum of the exponentials) have the other dims. Labels equal
    to `ignore_index` are ignored.

    ```mlir
    %loss, %lse = graph.cross_entropy %logits, %labels {axis = 1 : i64, ignore_index = -100 : i64}
       : (tensor<4x6xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
    ```

    1. Floats have one type, and lse that in which its sum is formed: f32 for bf16
       and f16.
    2. `axis` is a dim of the logits.
    3. Labels, loss and lse have its other dims.
  }];
  let arguments = (ins Graph_FloatTensor:$logits, Graph_IntegerTensor:$labels, I64Attr:$axis, I64Attr:$ignore_index);
  let results = (outs Graph_FloatTensor:$loss, Graph_FloatTensor:$lse);
  let builders = [OpBuilder<(ins "::mlir::Value":$logits, "::mlir::Value":$labels, "int64_t":$axis, "int64_t":$ignoreIndex)>];
}

def Graph_CrossEntropyGradOp : Graph_Composite<"cross_entropy_grad", Graph_ComputesWide> {
  let summary = "dloss * (softmax(logits) - onehot(label)); 0 where the label is ignored";
  let description = [{
    ```mlir
    %dlogits = graph.cross_entropy_grad %dloss, %logits, %labels, %lse {axis = 1 : i64, ignore_index = -100 : i64}
       : (tensor<4xf32>, tensor<4x6xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x6xf32>
    ```

    1. Floats have one type, and lse that in which its sum is formed: f32 for bf16
       and f16.
    2. `axis` is a dim of the logits.
    3. Labels, the loss's gradient and lse have its other dims.
    4. The gradient has the shape of the logits.
  }];
  let arguments = (ins Graph_FloatTensor:$lossGradient, Graph_FloatTensor:$logits,
                       Graph_IntegerTensor:$labels, Graph_FloatTensor:$lse, I64Attr:$axis, I64Attr:$ignore_index);
  let results = (outs Graph_FloatTensor:$logitsGradient);
}

#endif
