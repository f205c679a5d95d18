// The graph dialect: what is computed, on global tensors of static shapes.

#ifndef POLYRANK_GRAPH_TD
#define POLYRANK_GRAPH_TD

include "dialects/graph/GraphInterfaces.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Graph_Dialect : Dialect {
  let name = "graph";
  let summary = "What a model computes";
  let description = [{
    Functional tensor ops on static ranked tensors, at the level at which people
    think. Shapes in types are global; the encoding of a type says where the
    tensor lives (`sharding`). Broadcasting and type conversion are explicit ops.
    Ops on index values that are out of range give zero (`gather`) or drop the
    update (`scatter_add`), so that the op of one device is the same op.
  }];
  let cppNamespace = "::polyrank::graph";
  let hasConstantMaterializer = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = "void registerAttributes(); void registerOps();";
}

def Graph_Tensor : RankedTensorOf<[AnyFloat, AnySignlessInteger]>;
def Graph_FloatTensor : RankedTensorOf<[AnyFloat]>;
def Graph_IntegerTensor : RankedTensorOf<[AnySignlessInteger]>;
def Graph_BoolTensor : RankedTensorOf<[I1]>;
def Graph_Scalar : RankedTensorOf<[AnyFloat, AnySignlessInteger]>;

// An op with the interfaces; `methods` are those it does not take by default.
class Graph_Op<string mnemonic, list<string> methods = [], list<Trait> traits = []>
    : Op<Graph_Dialect, mnemonic,
         !listconcat([DeclareOpInterfaceMethods<GraphOpInterface,
                        !listconcat(["getShardingRule", "evaluate"], methods)>,
                      LayoutChecked, Pure], traits)> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

#endif
