// Elementwise ops: one scalar function applied at every index.

#ifndef POLYRANK_GRAPH_ELEMENTWISE_TD
#define POLYRANK_GRAPH_ELEMENTWISE_TD

include "dialects/graph/Graph.td"
include "dialects/graph/GraphEnums.td"

// All operands and results have one shape; broadcasting is `graph.broadcast`.
// `sum`, `max` and `min` say how operands that are partial of that kind pass
// (PartialPass), one letter per operand: n none, a alone, t together, y any.
class Graph_Elementwise<string mnemonic, Trait precision, string sum, string max, string min,
                        list<string> methods = ["buildGradient"], list<Trait> traits = []>
    : Graph_Op<mnemonic, precision, methods,
               !listconcat([Graph_IsElementwise, DeclareOpInterfaceMethods<ScalarOpInterface>], traits)> {
  let hasVerifier = 1;
  string constraints = "\n1. Operands and result have one shape.\n2. Their elements have one type.\n";
  code definition = [{
    ::polyrank::graph::ShardingRule $cppClass::getShardingRule() {
      return ::polyrank::graph::elementwiseRule(getOperation(), "}] # sum # [{", "}] # max # [{", "}] # min # [{");
    }
    ::llvm::LogicalResult $cppClass::verify() {
      return ::polyrank::graph::verifySameShapes(getOperation());
    }
  }];
}

// `scalar` is the op's function as a C++ expression of a number x, or of numbers x
// and y. Both the reference and the kernels are built from it (Scalar.h).
class Graph_Unary<string mnemonic, string scalar, Trait precision, string sum = "n", string max = "n",
                  string min = max, list<string> methods = ["buildGradient"], list<Trait> traits = []>
    : Graph_Elementwise<mnemonic, precision, sum, max, min, methods, traits> {
  let description = "\n```mlir\n%y = graph." # mnemonic # " %x : tensor<4x3x"
                    # !if(!eq(mnemonic, "not"), "i1", "f32") # ">\n```\n" # constraints;
  let arguments = (ins Graph_Tensor:$input);
  let results = (outs Graph_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` custom<AlikeTypes>(type($input), type($result))";
  let builders = [OpBuilder<(ins "::mlir::Value":$input), [{
    build($_builder, $_state, input.getType(), input);
  }]>];
  let extraClassDefinition = definition # [{
    ::llvm::LogicalResult $cppClass::evaluate(::llvm::ArrayRef<::polyrank::graph::Tensor> operands,
                                              ::llvm::MutableArrayRef<::polyrank::graph::Tensor> results) {
      for (int64_t i = 0, n = results[0].size(); i < n; ++i) {
        double x = operands[0].at(i);
        results[0].set(i, }] # scalar # [{);
      }
      return ::mlir::success();
    }
    ::mlir::Value $cppClass::buildScalar(::polyrank::graph::ScalarBuilder &builder,
                                         ::llvm::ArrayRef<::mlir::Value> operands) {
      ::polyrank::graph::Scalar x(builder, operands[0]);
      return ::polyrank::graph::asResult(}] # scalar # [{, getType().getElementType());
    }
  }];
}

class Graph_Binary<string mnemonic, string scalar, Trait precision, string sum = "nn", string max = "nn",
                   string min = max, list<string> methods = ["buildGradient"], list<Trait> traits = []>
    : Graph_Elementwise<mnemonic, precision, sum, max, min, methods, traits> {
  let description = "\n```mlir\n%z = graph." # mnemonic # " %x, %y : tensor<4x3x"
                    # !cond(!eq(mnemonic, "and"): "i1", !eq(mnemonic, "or"): "i1", !eq(mnemonic, "bit_and"): "i64",
                            true: "f32") # ">\n```\n" # constraints;
  let arguments = (ins Graph_Tensor:$lhs, Graph_Tensor:$rhs);
  let results = (outs Graph_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` custom<AlikeTypes>(type($lhs), type($rhs), type($result))";
  let builders = [OpBuilder<(ins "::mlir::Value":$lhs, "::mlir::Value":$rhs), [{
    build($_builder, $_state, lhs.getType(), lhs, rhs);
  }]>];
  let extraClassDefinition = definition # [{
    ::llvm::LogicalResult $cppClass::evaluate(::llvm::ArrayRef<::polyrank::graph::Tensor> operands,
                                              ::llvm::MutableArrayRef<::polyrank::graph::Tensor> results) {
      auto compute = [](auto x, auto y) { return }] # scalar # [{; };
      for (int64_t i = 0, n = results[0].size(); i < n; ++i) {
        if (results[0].isFloat())
          results[0].floats[i] = compute(operands[0].floats[i], operands[1].floats[i]);
        else
          results[0].integers[i] = compute(operands[0].integers[i], operands[1].integers[i]);
      }
      return ::mlir::success();
    }
    ::mlir::Value $cppClass::buildScalar(::polyrank::graph::ScalarBuilder &builder,
                                         ::llvm::ArrayRef<::mlir::Value> operands) {
      ::polyrank::graph::Scalar x(builder, operands[0]), y(builder, operands[1]);
      return ::polyrank::graph::asResult(}] # scalar # [{, getType().getElementType());
    }
  }];
}

def Graph_NegOp : Graph_Unary<"neg", "-x", Graph_ComputesWidest, "t", traits = [Graph_IsCheap]> { let summary = "-x"; }
def Graph_ExpOp : Graph_Unary<"exp", "exp(x)", Graph_ComputesWide, "n", "y"> { let summary = "e^x"; }
// The parts of a partial maximum may lie outside the domain of log, sqrt and acosh.
def Graph_LogOp : Graph_Unary<"log", "log(x)", Graph_ComputesWide, "n", "n", "y"> { let summary = "Natural logarithm"; }
def Graph_SqrtOp : Graph_Unary<"sqrt", "sqrt(x)", Graph_ComputesWidest, "n", "n", "y"> { let summary = "Square root"; }
def Graph_RsqrtOp : Graph_Unary<"rsqrt", "1 / sqrt(x)", Graph_ComputesWide> { let summary = "1 / sqrt(x)"; }
def Graph_TanhOp : Graph_Unary<"tanh", "tanh(x)", Graph_ComputesWidest, "n", "y"> { let summary = "Hyperbolic tangent"; }
def Graph_ErfOp : Graph_Unary<"erf", "erf(x)", Graph_ComputesWidest, "n", "y"> { let summary = "Gauss error function"; }
def Graph_SigmoidOp : Graph_Unary<"sigmoid", "1 / (1 + exp(-x))", Graph_ComputesWidest, "n", "y"> { let summary = "1 / (1 + e^-x)"; }
def Graph_ReluOp : Graph_Unary<"relu", "select(x < 0, 0, x)", Graph_ComputesWidest, "n", "y", traits = [Graph_IsCheap]> { let summary = "max(x, 0)"; }
def Graph_AbsOp : Graph_Unary<"abs", "abs(x)", Graph_ComputesWidest, traits = [Graph_IsCheap]> { let summary = "|x|"; }
def Graph_SinOp : Graph_Unary<"sin", "sin(x)", Graph_ComputesWidest> { let summary = "Sine"; }
def Graph_CosOp : Graph_Unary<"cos", "cos(x)", Graph_ComputesWidest> { let summary = "Cosine"; }
def Graph_AtanOp : Graph_Unary<"atan", "atan(x)", Graph_ComputesWidest, "n", "y"> { let summary = "Arc tangent"; }
def Graph_AsinOp : Graph_Unary<"asin", "asin(x)", Graph_ComputesWide> { let summary = "Arc sine; NaN outside of [-1, 1]"; }
def Graph_AcosOp : Graph_Unary<"acos", "acos(x)", Graph_ComputesWide> { let summary = "Arc cosine; NaN outside of [-1, 1]"; }
def Graph_AsinhOp : Graph_Unary<"asinh", "asinh(x)", Graph_ComputesWide, "n", "y"> { let summary = "Inverse hyperbolic sine"; }
def Graph_AcoshOp : Graph_Unary<"acosh", "acosh(x)", Graph_ComputesWide, "n", "n", "y"> { let summary = "Inverse hyperbolic cosine; NaN below 1"; }
def Graph_AtanhOp : Graph_Unary<"atanh", "atanh(x)", Graph_ComputesWide> { let summary = "Inverse hyperbolic tangent; NaN outside of [-1, 1]"; }
def Graph_FloorOp : Graph_Unary<"floor", "floor(x)", Graph_ComputesWidest, "n", "y"> { let summary = "Largest integer not above x; gradient zero"; }
def Graph_DetachOp : Graph_Unary<"detach", "x", Graph_ComputesWidest, "t", "y", "y", []> {
  let summary = "x, through which no gradient passes";
  let description = [{
    PyTorch's `Tensor.detach()`. `build-step` erases it once the step has its
    gradients, or if there are none.

    ```mlir
    %y = graph.detach %x : tensor<4x3xf32>
    ```

    1. Operands and result have one shape.
    2. Their elements have one type.
  }];
}
def Graph_NotOp : Graph_Unary<"not", "x == 0", Graph_ComputesWidest, "n", "n", "n", [], traits = [Graph_IsCheap]> { let summary = "Logical negation of booleans"; }

def Graph_AddOp : Graph_Binary<"add", "x + y", Graph_ComputesWidest, "tt", "aa", traits = [Graph_IsCheap]> { let summary = "x + y"; }
def Graph_SubOp : Graph_Binary<"sub", "x - y", Graph_ComputesWidest, "tt", "an", traits = [Graph_IsCheap]> { let summary = "x - y"; }
def Graph_MulOp : Graph_Binary<"mul", "x * y", Graph_ComputesWidest, "aa", traits = [Graph_IsCheap]> {
  let summary = "x * y";
  let hasFolder = 1;
}
def Graph_DivOp : Graph_Binary<"div", "divide(x, y)", Graph_ComputesWidest, "an"> {
  let summary = "x / y; on integers it truncates, and is 0 where y is 0";
  let hasFolder = 1;
}
def Graph_MaxOp : Graph_Binary<"max", "maximum(x, y)", Graph_ComputesWidest, "nn", "yy", "aa", traits = [Graph_IsCheap]> { let summary = "Larger of x and y; NaN if either is"; }
def Graph_MinOp : Graph_Binary<"min", "minimum(x, y)", Graph_ComputesWidest, "nn", "aa", "yy", traits = [Graph_IsCheap]> { let summary = "Smaller of x and y; NaN if either is"; }
def Graph_PowOp : Graph_Binary<"pow", "power(x, y)", Graph_ComputesWide> {
  let summary = "x to the power of y; on integers it truncates, and is 0 where x is 0 and y is negative";
}
def Graph_AndOp : Graph_Binary<"and", "x && y", Graph_ComputesWidest, "nn", "aa", "yy", [], traits = [Graph_IsCheap]> {
  let summary = "Logical conjunction of booleans";
  let hasFolder = 1;
}
def Graph_OrOp : Graph_Binary<"or", "x || y", Graph_ComputesWidest, "nn", "yy", "aa", [], traits = [Graph_IsCheap]> {
  let summary = "Logical disjunction of booleans";
  let hasFolder = 1;
}

def Graph_BitAndOp : Graph_Binary<"bit_and", "conjunction(x, y)", Graph_ComputesWidest, "nn", "nn", "nn", []> {
  let summary = "The bits that are set in both of two integers";
  let arguments = (ins Graph_IntegerTensor:$lhs, Graph_IntegerTensor:$rhs);
}

def Graph_CompareOp : Graph_Elementwise<"compare", Graph_ComputesWidest, "nn", "nn", "nn", [], traits = [Graph_IsCheap]> {
  let summary = "Compares x with y, giving booleans; NaN is unequal to everything";
  let description = [{
    ```mlir
    %z = graph.compare lt %x, %y : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>
    ```

    1. Operands and result have one shape.
    2. The operands have one element type.
  }];
  let arguments = (ins Graph_Tensor:$lhs, Graph_Tensor:$rhs, Graph_Comparison:$comparison);
  let results = (outs Graph_BoolTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$lhs, "::mlir::Value":$rhs, "Comparison":$comparison)>];
  let extraClassDefinition = definition;
  let assemblyFormat = "$comparison $lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
}

def Graph_SelectOp : Graph_Elementwise<"select", Graph_ComputesWidest, "ntt", "nyy", "nyy", traits = [Graph_IsCheap]> {
  let summary = "x where the condition holds, else y";
  let description = [{
    ```mlir
    %z = graph.select %condition, %x, %y : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    ```

    1. Operands and result have one shape.
    2. All but the condition have one element type.
  }];
  let arguments = (ins Graph_BoolTensor:$condition, Graph_Tensor:$onTrue, Graph_Tensor:$onFalse);
  let results = (outs Graph_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$condition, "::mlir::Value":$onTrue, "::mlir::Value":$onFalse), [{
    build($_builder, $_state, onTrue.getType(), condition, onTrue, onFalse);
  }]>];
  let extraClassDefinition = definition;
}

def Graph_ConvertOp : Graph_Elementwise<"convert", Graph_ComputesWidest, "n", "y", "y", traits = [Graph_IsCheap]> {
  let summary = "Converts the element type; floats to integers truncate towards zero";
  let description = [{
    A float that the integer type cannot hold becomes the nearest integer that it
    holds, and NaN becomes 0; integers keep their lower bits. A boolean is x != 0. A
    partial sum does not pass, since each part would be rounded; a pass that needs
    the conversion reduces first. With `parts` it passes: the parts are rounded
    before they are sent and added up.

    A number becomes the nearest of the new type, ties to even, in one rounding, and
    NaN a quiet NaN (support/Float16.h has the bits). What a conversion rounds off
    stays away: no pass removes a conversion and its inverse.

    ```mlir
    %y = graph.convert %x : (tensor<4x3xi64>) -> tensor<4x3xf32>
    %z = graph.convert %y {parts} : (tensor<4x3xf32>) -> tensor<4x3xbf16>
    ```

    1. Operand and result have one shape.
    2. With `parts` the elements are floats and become narrower ones.
  }];
  let arguments = (ins Graph_Tensor:$input, UnitAttr:$parts);
  let results = (outs Graph_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::Type":$elementType,
                             CArg<"bool", "false">:$parts)>];
  let extraClassDefinition = definition;
}

#endif
