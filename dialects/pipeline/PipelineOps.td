// The pipeline dialect: the stages of values.

#ifndef POLYRANK_PIPELINE_OPS_TD
#define POLYRANK_PIPELINE_OPS_TD

include "dialects/graph/GraphInterfaces.td"
include "dialects/sharding/Sharding.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Pipeline_Dialect : Dialect {
  let name = "pipeline";
  let summary = "The pipeline stages of values";
  let description = [{
    A model is cut into stages, which lie on the coordinates of one mesh axis, the
    *pipe axis*. This axis splits no tensor: a value lives at one coordinate (`at
    {"pipe" = 1}` in its layout) or, if it depends on no such value, on all of them.

    The stage of a value follows from the data: an op is on the stage of its
    operands. A parameter and its optimizer state are on the stage that its
    `graph.parameter` names (`graph.stage`), and only the ops of this dialect move
    values from one stage to another.

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

class Pipeline_Op<string mnemonic, list<string> methods> : Op<Pipeline_Dialect, mnemonic, [Pure, Graph_ComputesWidest,
    DeclareOpInterfaceMethods<GraphOpInterface, !listconcat(["getShardingRule", "evaluate", "buildGradient", "getCost"], methods)>]> {
  let hasVerifier = 1;
}

def Pipeline_TransferOp : Pipeline_Op<"transfer", []> {
  let summary = "Moves a value to another stage";
  let description = [{
    The op is the identity on the logical value. All axes of the mesh except the
    pipe axis split the result as they do the operand. Without `from` the operand is
    on all stages, and no byte moves: the result is the copy of stage `to`. No byte
    moves either if both stages are at one coordinate.

    ```mlir
    %y = pipeline.transfer %x from 0 to 1 : tensor<4x8xf32>
    %z = pipeline.transfer %ids to 1 : tensor<4x8xi64>
    ```

    1. The result has the operand's shape and element type, and its layout except
       for the place and the contents of padding.
    2. Stages are not negative, and not the same.
  }];
  let arguments = (ins Pipeline_Tensor:$input, OptionalAttr<I64Attr>:$from, I64Attr:$to);
  let results = (outs Pipeline_Tensor:$result);
  let assemblyFormat = "$input (`from` $from^)? `to` $to attr-dict `:` custom<AlikeTypes>(type($input), type($result))";
}

def Pipeline_JoinOp : Pipeline_Op<"join", []> {
  let summary = "The sum, or the maximum, of values on several stages";
  let description = [{
    With layouts, each operand is at some coordinate of the pipe axis, and the
    result is partial over that axis: each device holds the sum (or maximum) of the
    operands at its coordinate, or the identity.

    ```mlir
    %n = pipeline.join sum %a, %b : (tensor<f32>, tensor<f32>) -> tensor<f32>
    ```

    1. Operands and result have one shape and element type, and there is an
       operand.
    2. The layouts of the operands are the same except for their places; the
       result's layout has no place and is also partial over the axis of the places.
    3. Operands of a maximum are not partial sums, and operands of a sum are not
       partial maxima.
  }];
  let arguments = (ins Sharding_ReductionKind:$kind, Variadic<Pipeline_Tensor>:$inputs);
  let results = (outs Pipeline_Tensor:$result);
  let assemblyFormat = "$kind $inputs attr-dict `:` functional-type($inputs, $result)";
}

#endif
