// The phase of an op in a training step.

#ifndef POLYRANK_GRAPH_PHASE_TD
#define POLYRANK_GRAPH_PHASE_TD

include "dialects/graph/Graph.td"
include "dialects/graph/GraphEnums.td"

def Graph_PhaseAttr : AttrDef<Graph_Dialect, "Phase"> {
  let mnemonic = "phase";
  let summary = "The phase of a training step that an op belongs to";
  let description = [{
    `graph.phase` of an op. It follows from `graph.seed` and `graph.gradient`
    (Phase.h); `mark-phases` writes it before `graph.gradient` is erased. An
    unmarked op has the phase of the values that it reads, or else is in the
    forward.

    ```mlir
    %z = graph.mul %x, %y {graph.phase = #graph.phase<backward>} : tensor<4xf32>
    ```
  }];
  let parameters = (ins EnumParameter<Graph_Phase>:$value);
  let assemblyFormat = "`<` $value `>`";
}

#endif
