// The cpu dialect: what runs on the cores of a CPU, and how.

#ifndef POLYRANK_CPU_TD
#define POLYRANK_CPU_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Cpu_Dialect : Dialect {
  let name = "cpu";
  let summary = "The cores of a CPU as a target";
  let description = [{
    Attributes by which the CPU target says how kernels and library calls run. Other
    code sees them as attributes of unknown kind, through the target's interface
    (compiler/target/Target.td). There are no ops.
  }];
  let cppNamespace = "::polyrank::cpu";
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = "void registerAttributes();";
}

class Cpu_Attr<string name, list<Trait> traits = []> : AttrDef<Cpu_Dialect, name, traits>;

def Cpu_TargetAttr : Cpu_Attr<"Target"> {
  let mnemonic = "target";
  let summary = "The cores of a CPU";
  let description = [{
    The target in `rank.machine` of a module: LLVM's name of a CPU, one of the levels
    `x86-64-v3` and `x86-64-v4`, or `native`: the highest level that this machine has.

    ```mlir
    #cpu.target<"x86-64-v4">
    ```
  }];
  let parameters = (ins StringRefParameter<>:$machine);
  let assemblyFormat = "`<` $machine `>`";
}

def Cpu_GemmLibrary : I32EnumAttr<"GemmLibrary", "a function of oneDNN", [
  I32EnumAttrCase<"Sgemm", 0, "sgemm">, I32EnumAttrCase<"Matmul", 1, "matmul">,
  I32EnumAttrCase<"Widened", 2, "widened">]> {
  let cppNamespace = "::polyrank::cpu";
  let genSpecializedAttr = 0;
}

def Cpu_CallAttr : Cpu_Attr<"Call"> {
  let mnemonic = "call";
  let summary = "How a CPU computes a product";
  let description = [{
    `call` of a `rank.gemm`: oneDNN's BLAS function (`sgemm`) or its primitive
    (`matmul`), or for bf16 and f16 the BLAS function on blocks that are widened to
    f32 (`widened`); and the number of pieces into which the result is cut, each
    computed by one thread. With 0 pieces the runtime chooses.

    ```mlir
    #cpu.call<sgemm>
    #cpu.call<matmul, pieces = 4>
    ```
  }];
  let parameters = (ins EnumParameter<Cpu_GemmLibrary>:$library,
                        DefaultValuedParameter<"int64_t", "0">:$pieces);
  let assemblyFormat = "`<` $library (`,` `pieces` `=` $pieces^)? `>`";
}

def Cpu_TileProducts : I32EnumAttr<"TileProducts", "how tiles are multiplied", [
  I32EnumAttrCase<"Float32", 0, "float32">, I32EnumAttrCase<"BFloat16", 1, "bfloat16">,
  I32EnumAttrCase<"Widened", 2, "widened">]> {
  let cppNamespace = "::polyrank::cpu";
  let genSpecializedAttr = 0;
}

def Cpu_AttentionAttr : Cpu_Attr<"Attention"> {
  let mnemonic = "attention";
  let summary = "How a CPU computes attention";
  let description = [{
    `call` of a `rank.attention` and its gradient: the most queries and keys of a
    tile, and how tiles are multiplied: as f32 (`float32`, the default), as bf16 with
    sums in f32 (`bfloat16`), or as bf16 or f16 that are widened to f32 first
    (`widened`). Other tiles and products may give other bits.

    ```mlir
    #cpu.attention<queries = 128, keys = 512>
    #cpu.attention<queries = 128, keys = 256, products = bfloat16>
    ```
  }];
  let parameters = (ins "int64_t":$queries, "int64_t":$keys,
      DefaultValuedParameter<"::polyrank::cpu::TileProducts", "::polyrank::cpu::TileProducts::Float32">:$products);
  let assemblyFormat = "`<` `queries` `=` $queries `,` `keys` `=` $keys (`,` `products` `=` $products^)? `>`";
}

def Cpu_LoopKind : I32EnumAttr<"LoopKind", "how the loops of a kernel nest", [
  I32EnumAttrCase<"Map", 0, "map">, I32EnumAttrCase<"Row", 1, "row">,
  I32EnumAttrCase<"Column", 2, "column">, I32EnumAttrCase<"Scatter", 3, "scatter">]> {
  let cppNamespace = "::polyrank::cpu";
  let genSpecializedAttr = 0;
}

def Cpu_ScheduleAttr : Cpu_Attr<"Schedule"> {
  let mnemonic = "schedule";
  let summary = "How a CPU runs the loops of a kernel";
  let description = [{
    `schedule` of a `kernel.loops`. Variables are named by their numbers. Numbers
    that are 0, and variables that are -1, are left out of the text.

    ```mlir
    #cpu.schedule<map, items = [0], vector = 1, lanes = 16, block = 4096>
    #cpu.schedule<row, items = [0], vector = 1, lanes = 64, kept = [3]>
    ```

    An item of the kernel's range fixes the parallel variables `items`, one of them
    in tiles of `tile`, and a block of `vector` if that has blocks. The vector
    variable runs in vectors of `lanes`. The other variables, `reductions`, run one
    value at a time.

    A sum in a `row` has `lanes` partial sums, of which number i adds every lanes-th
    value; then partial sums i and i + half are added, until one is left. A sum in a
    `column` is added value by value, in parts of `part` (0: one part), and the
    parts likewise. Equal schedules give equal bits on any machine.

    `scatter` writes `rows` rows of the destination per item. `kept` are the numbers
    of ops in the body whose values the first pass that needs them keeps for later
    passes. A thread takes a multiple of `grain` items (absent: 1).
  }];
  let parameters = (ins EnumParameter<Cpu_LoopKind>:$kind, ArrayRefParameter<"int64_t">:$items,
                        "int64_t":$vector, "int64_t":$lanes, "int64_t":$block, "int64_t":$tileVariable,
                        "int64_t":$tile, ArrayRefParameter<"int64_t">:$reductions, "int64_t":$part,
                        "int64_t":$scatterRows, ArrayRefParameter<"int64_t">:$kept, "int64_t":$grain);
  let hasCustomAssemblyFormat = 1;
}

#endif
