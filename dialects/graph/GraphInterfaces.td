// The interfaces that every graph op implements, next to the op itself.

#ifndef POLYRANK_GRAPH_INTERFACES_TD
#define POLYRANK_GRAPH_INTERFACES_TD

include "mlir/IR/OpBase.td"

def GraphOpInterface : OpInterface<"GraphOp"> {
  let cppNamespace = "::polyrank::graph";
  let description = [{
    An op on global tensors that defines how it is sharded, what one device runs,
    its gradient, its cost and its reference semantics.
  }];
  let methods = [
    InterfaceMethod<[{
        The dims of operands and results that share a factor, each factor's kind,
        and which operands may be partial. Depends on shapes and attributes only,
        never on layouts.
      }], "::polyrank::graph::ShardingRule", "getShardingRule">,
    InterfaceMethod<[{
        Builds the ops that one device runs on its blocks `operands`, and
        returns its blocks of the results. The layouts are those of this op's
        types. The default is this op on local types.
      }], "::llvm::LogicalResult", "localize",
      (ins "::polyrank::graph::LocalContext &":$context,
           "::mlir::ValueRange":$operands,
           "::llvm::SmallVectorImpl<::mlir::Value> &":$results), "", [{
        return ::polyrank::graph::localizeByCloning($_op, context, operands, results);
      }]>,
    InterfaceMethod<[{
        The vector-Jacobian product: for each operand its gradient (null if `needed`
        is false), given the gradients of the results (null if a result has none).
        Emits an error if the op has no gradient.
      }], "::llvm::FailureOr<::llvm::SmallVector<::mlir::Value>>", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder,
           "::llvm::ArrayRef<::mlir::Value>":$resultGradients,
           "::llvm::ArrayRef<bool>":$needed), "", [{
        return $_op->emitOpError("has no gradient"), ::mlir::failure();
      }]>,
    InterfaceMethod<[{
        FLOPs and bytes of one execution on tensors of the op's global shapes.
      }], "::polyrank::graph::Cost", "getCost", (ins), "", [{
        return ::polyrank::graph::elementwiseCost($_op);
      }]>,
    InterfaceMethod<[{
        The reference implementation: `results` come with types and zeros. The
        shapes are those of the given tensors, which may be local.
      }], "::llvm::LogicalResult", "evaluate",
      (ins "::llvm::ArrayRef<::polyrank::graph::Tensor>":$operands,
           "::llvm::MutableArrayRef<::polyrank::graph::Tensor>":$results)>
  ];
}

def CompositeOpInterface : OpInterface<"CompositeOp"> {
  let cppNamespace = "::polyrank::graph";
  let description = [{
    An op that has a better kernel or a better gradient than its parts.
  }];
  let methods = [
    InterfaceMethod<[{
        Builds the parts and returns the values of the results. The parts have
        no layouts yet. Passes call graph::decompose (Parts.h), which makes
        narrow floats wide first.
      }], "::llvm::SmallVector<::mlir::Value>", "decompose",
      (ins "::mlir::OpBuilder &":$builder)>
  ];
}

def DroppingOpInterface : OpInterface<"DroppingOp"> {
  let cppNamespace = "::polyrank::graph";
  let description = [{
    An op that may set some of its values to zero at random (Srivastava et al. 2014)
    while a model is trained.
  }];
  let methods = [
    InterfaceMethod<"The probability with which it drops a value; nullopt if this op drops none.",
      "::std::optional<double>", "getDropRate">,
    InterfaceMethod<[{
        Builds what inference computes instead, on what `mapping` has for the
        operands, and returns the values of the results.
      }], "::llvm::SmallVector<::mlir::Value>", "buildWithoutDropout",
      (ins "::mlir::OpBuilder &":$builder, "const ::mlir::IRMapping &":$mapping)>
  ];
}

def ScalarOpInterface : OpInterface<"ScalarOp"> {
  let cppNamespace = "::polyrank::graph";
  let description = [{
    An elementwise op: element i of the result is one function of element i of
    each operand.
  }];
  let methods = [
    InterfaceMethod<[{
        Builds that function as ops of `arith` and `math` (Scalar.h). If it has no
        such form on these types, returns null and sets the builder's `reason`.
      }], "::mlir::Value", "buildScalar",
      (ins "::polyrank::graph::ScalarBuilder &":$builder,
           "::llvm::ArrayRef<::mlir::Value>":$operands)>
  ];
}

// The verifier of every graph op: each device can compute its part alone, given the
// op's rule and its layouts (LayoutVerifier.h).
def LayoutChecked : NativeOpTrait<"LayoutChecked"> {
  let cppNamespace = "::polyrank::graph";
}

// Element i of the result depends on element i of each operand alone, so operands
// and result share one index space, whatever its shape.
def Graph_IsElementwise : NativeOpTrait<"Elementwise"> {
  let cppNamespace = "::polyrank::graph";
}

// In what `lower-precision` lets an op compute (Precision.h); each op has one of
// these. The low type: products, which devices multiply faster in it.
def Graph_ComputesLow : NativeOpTrait<"ComputesLow"> {
  let cppNamespace = "::polyrank::graph";
}
// f32: sums, and functions that lose too many of the digits of a narrow float.
def Graph_ComputesWide : NativeOpTrait<"ComputesWide"> {
  let cppNamespace = "::polyrank::graph";
}
// The widest type of its operands.
def Graph_ComputesWidest : NativeOpTrait<"ComputesWidest"> {
  let cppNamespace = "::polyrank::graph";
}

// An elementwise op of a few instructions, which cost less than reading the result
// from memory.
def Graph_IsCheap : NativeOpTrait<"Cheap"> {
  let cppNamespace = "::polyrank::graph";
}

#endif
