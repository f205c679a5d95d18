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
    Functional tensor ops on static ranked tensors, at the level of a model's source
    code. Shapes in types are global; the encoding of a type says where the tensor
    lives (`sharding`). Broadcasting and type conversion are explicit ops. For an
    index value that is out of range an op gives zero (`gather`) or drops the update
    (`scatter_add`), so that the op on one device is the same op.

    Each op with layouts obeys these rules, so that every device can compute its
    parts of the results from its parts of the operands. They follow from the
    op's sharding rule alone (`LayoutVerifier.h`):

    - **L1** Either every operand and result has a layout, or none; on one mesh.
    - **L2** The uses of an axis split it into sub-axes that divide each other.
    - **L3** A dim that the op decomposes or merges is split along its factors, and
      a padded dim is one whole factor.
    - **L4** Every tensor that has a factor is split on it by the same axes.
    - **L5** An axis splits one factor of the op.
    - **L6** Factors that are composite or replicated are neither split nor
      padded; a halo factor is not padded without being split.
    - **L7** An axis over which an operand is partial splits no factor, and the op
      passes that kind of partial in the partial operands: no product of two partial
      operands, no nonlinear function of one.
    - **L8** A result is partial over exactly the axes of its partial operands
      and of the reduction factors that it lacks: no missing, no doubled
      reduction.
    - **L9** Every tensor that has a padded factor has it with the same extent (for
      a halo factor: with blocks in the ratio of its dims), and if the factor is
      reduced, every operand that has it holds the reduction's identity in the
      padding (`fill`).
    - **L10** A result's padding is undefined: only `sharding.fill`, collectives and
      arguments state what padding holds.
    - **L11** Operands are at one place or replicated over its axis, and results
      are at that place.
    - **L12** Where a halo factor is split, operands have the borders that the op
      reads (`halo`) and results those to which it adds (`spill`); no other dims
      have borders.

    `graph.role` states the role of each argument and result of a function:

    - **B1** `graph.role` is the only attribute of the dialect on an argument, and
      is one of parameter, state, input, counter and learning rate.
    - **B2** No two arguments have the same role.
    - **B3** If the module has a parameter's symbol, it is a `graph.parameter`.
    - **B4** A view has a base and a stride for each dim, none is negative, and the
      stored tensor has all elements of the view.
    - **B5** A learning rate is one f64 with numbers that are not negative and a
      schedule that can be parsed. All learning rates have the same schedule, and
      those with a scale have the same base.
    - **B6** `graph.role` is the only attribute of the dialect on a result, and is
      one of output, next, mean and count.
    - **B7** A next result replaces a parameter or state of the same shape and
      element type, and at most one result replaces each.
    - **B8** A mean is followed by its count, and a `further` part of a mean follows
      a part of the same mean.
    - **B9** The `batch_dim` of an input or output is one of its dims. With
      `no_batch`, dim 0 (in a step dim 1) has size 1.
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

// An op with the interfaces; `precision` is one of the traits Graph_Computes*, and
// `methods` are the interface methods that it overrides.
class Graph_Op<string mnemonic, Trait precision, list<string> methods = [], list<Trait> traits = []>
    : Op<Graph_Dialect, mnemonic,
         !listconcat([DeclareOpInterfaceMethods<GraphOpInterface,
                        !listconcat(["getShardingRule", "evaluate"], methods)>,
                      LayoutChecked, Pure, precision], traits)> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

#endif
