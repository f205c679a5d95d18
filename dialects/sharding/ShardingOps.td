// The ops that change a layout. Each is the identity on the logical value.

#ifndef POLYRANK_SHARDING_OPS_TD
#define POLYRANK_SHARDING_OPS_TD

include "dialects/sharding/MovementInterface.td"
include "dialects/sharding/Sharding.td"

// One case for each op, with the op's mnemonic.
def Sharding_MovementKind : I32Enum<"MovementKind", "which op changes a layout", [
    I32EnumCase<"Slice", 0, "slice">, I32EnumCase<"ToPartial", 1, "to_partial">,
    I32EnumCase<"AllGather", 2, "all_gather">, I32EnumCase<"AllReduce", 3, "all_reduce">,
    I32EnumCase<"ReduceScatter", 4, "reduce_scatter">, I32EnumCase<"AllToAll", 5, "all_to_all">,
    I32EnumCase<"Permute", 6, "permute">, I32EnumCase<"Halo", 7, "halo">,
    I32EnumCase<"HaloAdd", 8, "halo_add">, I32EnumCase<"Repad", 9, "repad">,
    I32EnumCase<"Fill", 10, "fill">, I32EnumCase<"Reshard", 11, "reshard">]> {
  let cppNamespace = "::polyrank::sharding";
}

def Sharding_Tensor : RankedTensorOf<[AnyFloat, AnySignlessInteger]>;

// The ops are variadic, so that a bucket is one op: operand i becomes result i.
// Each op derives its movement from the layouts of its operands and results; `why`
// holds an op, two layouts and a constraint for people (print-why prints them).
class Sharding_Op<string mnemonic, string kind> : Op<Sharding_Dialect, mnemonic, [Pure, Sharding_MovementOpInterface]> {
  let arguments = (ins Variadic<Sharding_Tensor>:$inputs, Sharding_Why:$why);
  let results = (outs Variadic<Sharding_Tensor>:$outputs);
  let assemblyFormat = "$inputs attr-dict `:` functional-type($inputs, $outputs)";
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "LayoutAttr":$layout), [{
    build($_builder, $_state, withLayout(::llvm::cast<::mlir::RankedTensorType>(input.getType()), layout),
          input, nullptr);
  }]>];
  let extraClassDeclaration =
      "::polyrank::sharding::MovementKind getMovementKind() { return ::polyrank::sharding::MovementKind::" # kind # "; }";
}

def Sharding_SliceOp : Sharding_Op<"slice", "Slice"> {
  let summary = "Replicated to split: each device keeps its block; no communication";
  let description = "\n```mlir\n%y = sharding.slice %x : (tensor<8xf32, #sharding.layout<#mesh, [{}]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{\"x\"}]>>\n```\n";
}
def Sharding_ToPartialOp : Sharding_Op<"to_partial", "ToPartial"> {
  let summary = "Replicated to partial: one device keeps the value, the others the identity; no communication";
  let description = "\n```mlir\n%y = sharding.to_partial %x : (tensor<8xf32, #sharding.layout<#mesh, [{}]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {\"x\"}>>\n```\n";
}
def Sharding_AllGatherOp : Sharding_Op<"all_gather", "AllGather"> {
  let summary = "Split to replicated: the most minor axes of dims are removed";
  let description = "\n```mlir\n%y = sharding.all_gather %x : (tensor<8xf32, #sharding.layout<#mesh, [{\"x\"}]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{}]>>\n```\n";
}
def Sharding_AllReduceOp : Sharding_Op<"all_reduce", "AllReduce"> {
  let summary = "Partial to replicated";
  let description = "\n```mlir\n%y = sharding.all_reduce %x : (tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {\"x\"}>>) -> tensor<8xf32, #sharding.layout<#mesh, [{}]>>\n```\n";
}
def Sharding_ReduceScatterOp : Sharding_Op<"reduce_scatter", "ReduceScatter"> {
  let summary = "Partial to split: the axes become the most minor ones of a dim";
  let description = "\n```mlir\n%y = sharding.reduce_scatter %x : (tensor<8xf32, #sharding.layout<#mesh, [{}], partial = sum {\"x\"}>>) -> tensor<8xf32, #sharding.layout<#mesh, [{\"x\"}]>>\n```\n";
}
def Sharding_AllToAllOp : Sharding_Op<"all_to_all", "AllToAll"> {
  let summary = "The most minor axes of one dim become the most minor axes of another";
  let description = "\n```mlir\n%y = sharding.all_to_all %x : (tensor<8x8xf32, #sharding.layout<#mesh, [{\"x\"}, {}]>>) -> tensor<8x8xf32, #sharding.layout<#mesh, [{}, {\"x\"}]>>\n```\n";
}
def Sharding_PermuteOp : Sharding_Op<"permute", "Permute"> {
  let summary = "The same block shapes under other axes: every device gets its block from one other";
  let description = "\n```mlir\n%y = sharding.permute %x : (tensor<8xf32, #sharding.layout<#mesh, [{\"x\"}]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{\"y\"}]>>\n```\n";
}
def Sharding_HaloOp : Sharding_Op<"halo", "Halo"> {
  let summary = "Split to split with a halo: each block gets copies of its neighbours' borders, in one dim";
  let description = "\n```mlir\n%y = sharding.halo %x : (tensor<8xf32, #sharding.layout<#mesh, [{\"x\"}]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{\"x\"} halo 1:1]>>\n```\n";
}
def Sharding_HaloAddOp : Sharding_Op<"halo_add", "HaloAdd"> {
  let summary = "Split with sums for the neighbours (spill) to split: the transpose of halo";
  let description = "\n```mlir\n%y = sharding.halo_add %x : (tensor<8xf32, #sharding.layout<#mesh, [{\"x\"} spill 1:1]>>) -> tensor<8xf32, #sharding.layout<#mesh, [{\"x\"}]>>\n```\n";
}
def Sharding_RepadOp : Sharding_Op<"repad", "Repad"> {
  let summary = "Changes the padded extent of a dim that is not split; new padding is undefined, or has the result's fill";
  let description = "\n```mlir\n%y = sharding.repad %x : (tensor<7xf32, #sharding.layout<#mesh, [{}]>>) -> tensor<7xf32, #sharding.layout<#mesh, [{} pad 8]>>\n```\n";
}
def Sharding_FillOp : Sharding_Op<"fill", "Fill"> {
  let summary = "Writes the fill of the result's type into undefined padding; never folded away";
  let description = "\n```mlir\n%y = sharding.fill %x : (tensor<7xf32, #sharding.layout<#mesh, [{} pad 8]>>) -> tensor<7xf32, #sharding.layout<#mesh, [{} pad 8 fill zero]>>\n```\n";
}
def Sharding_ReshardOp : Sharding_Op<"reshard", "Reshard"> {
  let summary = "Any layout to any other of the same tensor; lowered to the other ops";
  let description = "\n```mlir\n%y = sharding.reshard %x : (tensor<8x8xf32, #sharding.layout<#mesh, [{\"x\"}, {}]>>) -> tensor<8x8xf32, #sharding.layout<#mesh, [{}, {\"y\"}]>>\n```\n";
}

#endif
