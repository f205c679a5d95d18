// The pipeline dialect: which stage a value is on.

#ifndef POLYRANK_PIPELINE_OPS_TD
#define POLYRANK_PIPELINE_OPS_TD

include "dialects/graph/GraphInterfaces.td"
include "dialects/sharding/Sharding.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Pipeline_Dialect : Dialect {
  let name = "pipeline";
  let summary = "Which stage of a pipeline a value is on";
  let description = [{
    A model is cut into stages, which lie on the coordinates of one mesh axis,
    the *pipe axis*. It splits no tensor: a value lives at one coordinate
    (`at {"pipe" = 1}` in its layout) or, if it depends on nothing that does, on
    all of them.

    Where a value is follows from the data: an op is on the stage of its
    operands. A parameter is on the stage that its `graph.parameter` names
    (`graph.stage`), as its optimizer's state is, and only the ops of this dialect
    go from one stage to another.

    ```mlir
    module attributes {pipeline.axis = "pipe", pipeline.coordinates = array<i64: 0, 1>} {
      graph.parameter @w : tensor<4x8xf32> from unknown {graph.stage = 1 : i64}
    }
    ```

    - **P1** `pipeline.coordinates` of a module has the coordinate of each stage
      along the mesh axis that `pipeline.axis` names.
    - **P2** `pipeline.schedule` of a module is the text of a schedule. The dialect
      has no other attributes.
  }];
  let cppNamespace = "::polyrank::pipeline";
  let hasOperationAttrVerify = 1;
}

def Pipeline_Tensor : RankedTensorOf<[AnyFloat, AnySignlessInteger]>;

class Pipeline_Op<string mnemonic, list<string> methods> : Op<Pipeline_Dialect, mnemonic, [Pure,
    DeclareOpInterfaceMethods<GraphOpInterface, !listconcat(["getShardingRule", "evaluate", "buildGradient", "getCost"], methods)>]> {
  let hasVerifier = 1;
}

def Pipeline_TransferOp : Pipeline_Op<"transfer", []> {
  let summary = "A value on another stage";
  let description = [{
    The identity on the logical value. The axes of the mesh but the pipe axis
    split the result as they do the operand. Without `from` the operand is on
    all stages, and no byte moves: the result is what that stage has of it.
    Neither does one where both stages are at one coordinate.

    ```mlir
    %y = pipeline.transfer %x from 0 to 1 : tensor<4x8xf32>
    %z = pipeline.transfer %ids to 1 : tensor<4x8xi64>
    ```

    1. The result has the operand's shape and element type, and its layout but
       for the place and for what padding holds.
    2. Stages are not negative, and not the same.
  }];
  let arguments = (ins Pipeline_Tensor:$input, OptionalAttr<I64Attr>:$from, I64Attr:$to);
  let results = (outs Pipeline_Tensor:$result);
  let assemblyFormat = "$input (`from` $from^)? `to` $to attr-dict `:` custom<AlikeTypes>(type($input), type($result))";
}

def Pipeline_JoinOp : Pipeline_Op<"join", []> {
  let summary = "The sum, or the largest, of values that are on several stages";
  let description = [{
    With layouts, the operands are each at some coordinate of the pipe axis, and
    the result is partial over it: each device holds what its coordinate gives,
    or the identity.

    ```mlir
    %n = pipeline.join sum %a, %b : (tensor<f32>, tensor<f32>) -> tensor<f32>
    ```

    1. Operands and result have one shape and element type, and there is an
       operand.
    2. Layouts of the operands are the same but for their places; that of the
       result is without any, and partial over the axis of the places besides.
    3. Values of which the largest is taken are not partial sums, nor the other
       way round.
  }];
  let arguments = (ins Sharding_ReductionKind:$kind, Variadic<Pipeline_Tensor>:$inputs);
  let results = (outs Pipeline_Tensor:$result);
  let assemblyFormat = "$kind $inputs attr-dict `:` functional-type($inputs, $result)";
}

#endif
