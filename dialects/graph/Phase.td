// The part of a training step that an op is of.

#ifndef POLYRANK_GRAPH_PHASE_TD
#define POLYRANK_GRAPH_PHASE_TD

include "dialects/graph/Graph.td"
include "dialects/graph/GraphEnums.td"

def Graph_PhaseAttr : AttrDef<Graph_Dialect, "Phase"> {
  let mnemonic = "phase";
  let summary = "The part of a training step that an op is of";
  let description = [{
    `graph.phase` of an op. It follows from `graph.seed` and `graph.gradient`
    (Phase.h); `mark-phases` writes it before the second is erased. An op without
    it is of the phase of what it reads, or else of the forward.

    ```mlir
    %z = graph.mul %x, %y {graph.phase = #graph.phase<backward>} : tensor<4xf32>
    ```
  }];
  let parameters = (ins EnumParameter<Graph_Phase>:$value);
  let assemblyFormat = "`<` $value `>`";
}

#endif
