// The grid dialect: a second target, for tests.

#ifndef POLYRANK_GRID_TD
#define POLYRANK_GRID_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

def Grid_Dialect : Dialect {
  let name = "grid";
  let summary = "A device with a thread for each element, as a target";
  let description = [{
    The tests' second target. It decides as a device with thousands of threads would,
    and nearly everywhere otherwise than a CPU: several threads share a row, sums of
    few values are cut into parts that do not come out even, and what has few threads
    is not fused with what has many. The evaluator runs its kernels; there is no
    machine code.
  }];
  let cppNamespace = "::polyrank::grid";
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = "void registerAttributes();";
}

class Grid_Attr<string name, list<Trait> traits = []> : AttrDef<Grid_Dialect, name, traits>;

def Grid_TargetAttr : Grid_Attr<"Target"> {
  let mnemonic = "target";
  let summary = "The threads of a grid";
}

def Grid_ScheduleAttr : Grid_Attr<"Schedule"> {
  let mnemonic = "schedule";
  let summary = "How a grid runs the loops of a kernel";
  let description = [{
    Each point of the parallel variables has `threads` threads, which share the
    points of the reduced ones.
  }];
  let parameters = (ins "int64_t":$threads);
  let assemblyFormat = "`<` `threads` `=` $threads `>`";
}

def Grid_CallAttr : Grid_Attr<"Call"> {
  let mnemonic = "call";
  let summary = "A function of the grid's library";
}

#endif
