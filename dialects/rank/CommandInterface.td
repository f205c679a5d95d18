// What all ops of a rank's program have that make values in its arena.

#ifndef POLYRANK_RANK_COMMAND_INTERFACE_TD
#define POLYRANK_RANK_COMMAND_INTERFACE_TD

include "mlir/IR/OpBase.td"

def Rank_CommandOpInterface : OpInterface<"CommandOp"> {
  let cppNamespace = "::polyrank::rank";
  let description = [{
    An op of a rank's program that reads its operands in the arena, and writes
    its results and its scratch there. Once buffers are assigned, `buffers` says
    where each result lies.

    1. `buffers` has one entry for each result.
  }];
  let methods = [
    InterfaceMethod<"", "::mlir::ArrayAttr", "getBuffersAttr">,
    InterfaceMethod<"", "void", "setBuffersAttr", (ins "::mlir::ArrayAttr":$buffers)>,
    InterfaceMethod<"Memory that it needs while it runs, beside operands and results; null where it needs none.",
      "::polyrank::rank::BufferAttr", "getScratchAttr", (ins), "", "return {};">,
    InterfaceMethod<"Whether its results are there since the plan was loaded.",
      "bool", "isWrittenAtLoad", (ins), "", "return false;">,
    InterfaceMethod<"Of which bytes of an operand result `result` is, where it need not be written if both lie so; nullopt "
                    "for what is written.",
      "::std::optional<::polyrank::rank::View>", "getView", (ins "unsigned":$result), "", "return ::std::nullopt;">,
    InterfaceMethod<"How result `result` may lie on operand `operand`. Apart from that they are disjoint.",
      "::polyrank::runtime::InPlace", "getInPlace", (ins "unsigned":$operand, "unsigned":$result), "",
      "return ::polyrank::runtime::InPlace::Never;">
  ];
  let extraClassDeclaration = [{
    /// Null before buffers are assigned.
    BufferAttr getBuffer(unsigned result);
    /// Where buffers are such that result `result` is bytes of an operand and
    /// is not written: the byte of the operand at which it begins, on the device
    /// of this number. nullopt for what is written.
    std::optional<int64_t> getViewOffset(unsigned result, int64_t device);
  }];
  let verify = "return ::polyrank::rank::verifyBuffers($_op);";
}

#endif
