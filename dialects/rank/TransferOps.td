// Ops that move a tensor from one rank to another one.

#ifndef POLYRANK_RANK_TRANSFER_OPS_TD
#define POLYRANK_RANK_TRANSFER_OPS_TD

include "dialects/rank/CommandInterface.td"
include "dialects/rank/Rank.td"
include "dialects/sharding/Sharding.td"
include "mlir/IR/BuiltinAttributes.td"

// The properties of both ends: the two ranks differ only in `axes`, over which the
// sender has index `from` and the receiver index `to`. `id` names the value that
// moves. It passes through a *channel*, in which `slots` such values may be on the
// way. The channel is memory of the communicator, not of the arena.
class Rank_Transfer<string mnemonic, dag operand, dag result>
    : Rank_Command<mnemonic> {
  let arguments = !con(operand, (ins Rank_AxesAttr:$axes, I64Attr:$from, I64Attr:$to, I64Attr:$id, I64Attr:$slots,
                                     Sharding_Why:$why, OptionalAttr<Rank_BufferArray>:$buffers));
  let results = result;
  let hasVerifier = 1;
}

def Rank_SendOp : Rank_Transfer<"send", (ins Rank_Tensor:$input), (outs)> {
  let summary = "Sends a tensor to another rank";
  let description = [{
    Copies the tensor to the next slot of the channel and returns. It waits only
    while no slot is free, because none of their values has been received yet.
    Values of one `id` are received in the order in which they are sent, across
    steps too.

    ```mlir
    rank.send %x over <#mesh, {"pipe"}> from 0 to 1 id 7 slots 2 : tensor<4x8xf32>
    ```

    1. `from` and `to` are different indices over the axes.
    2. There is a slot.
  }];
  let assemblyFormat = "$input `over` $axes `from` $from `to` $to `id` $id `slots` $slots attr-dict `:` type($input)";
}

def Rank_RecvOp : Rank_Transfer<"recv", (ins), (outs Rank_Tensor:$output)> {
  let summary = "Receives a tensor from another rank";
  let description = [{
    Waits until the next tensor of this `id` has arrived, copies it, and frees its
    slot.

    ```mlir
    %y = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 7 slots 2 : tensor<4x8xf32>
    ```

    1. `from` and `to` are different indices over the axes.
    2. There is a slot.
  }];
  let assemblyFormat = "`over` $axes `from` $from `to` $to `id` $id `slots` $slots attr-dict `:` type($output)";
}

#endif
