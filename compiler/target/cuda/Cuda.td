// The cuda dialect: what runs on NVIDIA's GPUs, and how.

#ifndef POLYRANK_CUDA_TD
#define POLYRANK_CUDA_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Cuda_Dialect : Dialect {
  let name = "cuda";
  let summary = "NVIDIA's GPUs as a target";
  let description = [{
    Attributes by which the CUDA target says how kernels run. Other code sees them as
    attributes of unknown kind, through the target's interface
    (compiler/target/Target.td). There are no ops.
  }];
  let cppNamespace = "::polyrank::cuda";
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = "void registerAttributes();";
}

class Cuda_Attr<string name, list<Trait> traits = []> : AttrDef<Cuda_Dialect, name, traits>;

def Cuda_TargetAttr : Cuda_Attr<"Target"> {
  let mnemonic = "target";
  let summary = "NVIDIA's GPUs of some architectures";
  let description = [{
    The target in `rank.machine` of a module: the architectures for which the plan has
    machine code, by `ptxas`'s names. A GPU of another one compiles the plan's PTX.

    ```mlir
    #cuda.target<["sm_90a", "sm_100a"]>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$architectures);
  let assemblyFormat = "`<` `[` $architectures `]` `>`";
}

def Cuda_Library : I32EnumAttr<"Library", "a library for CUDA", [
  I32EnumAttrCase<"CublasLt", 0, "cublaslt">]> {
  let cppNamespace = "::polyrank::cuda";
  let genSpecializedAttr = 0;
}

def Cuda_CallAttr : Cuda_Attr<"Call"> {
  let mnemonic = "call";
  let summary = "Which library computes a product";
  let description = [{
    `call` of a `rank.gemm`. The library chooses its algorithm on the device.

    ```mlir
    #cuda.call<cublaslt>
    ```
  }];
  let parameters = (ins EnumParameter<Cuda_Library>:$library);
  let assemblyFormat = "`<` $library `>`";
}

def Cuda_LoopKind : I32EnumAttr<"LoopKind", "how the threads of a kernel share its loops", [
  I32EnumAttrCase<"Map", 0, "map">, I32EnumAttrCase<"Row", 1, "row">,
  I32EnumAttrCase<"Column", 2, "column">, I32EnumAttrCase<"Scatter", 3, "scatter">]> {
  let cppNamespace = "::polyrank::cuda";
  let genSpecializedAttr = 0;
}

def Cuda_ScheduleAttr : Cuda_Attr<"Schedule"> {
  let mnemonic = "schedule";
  let summary = "How a GPU runs the loops of a kernel";
  let description = [{
    `schedule` of a `kernel.loops`. Variables are named by their numbers. Numbers that
    have the value of their absence (`vector` and `tiled` -1, `lanes`, `vectors` and
    `sharing` 1, `part` and `kept` 0) are left out of the text.

    ```mlir
    #cuda.schedule<map, items = [0], vector = 1, lanes = 4, threads = 256>
    #cuda.schedule<map, items = [0], vector = 1, tiled = 0, threads = 256>
    #cuda.schedule<map, items = [0, 1, 2], vector = 3, tiled = 1, inside = [2], threads = 288>
    #cuda.schedule<row, items = [0], vector = 1, lanes = 4, threads = 192, sharing = 192, kept = 1>
    #cuda.schedule<column, vector = 1, reductions = [0], threads = 256, sharing = 8>
    ```

    A block has `threads` threads. The vector variable runs in vectors of `lanes`
    adjacent values, which one thread computes.

    A thread of a `map` computes `vectors` vectors, a block's number of threads apart,
    for one point of the `items`. With `tiled`, one of the items, a block has 32 x 32
    values of this variable and the vector variable: what lies along `tiled` is read
    along it into shared memory, and results are written along the vector variable.
    With `inside`, a list of items, a block has 32 values of `tiled` with all points of
    these items and of the vector variable, which lie inside of it in the results: the
    windows of a convolution, for example.

    In a `row` the vector variable is reduced: `sharing` threads with adjacent numbers
    share each point of the items. Thread i takes the vectors i, i + sharing, ..,
    counted through the `reductions`, outermost first, and the vector variable. If
    `kept` is not 0, a thread has so many vectors, whose values it keeps in registers
    from one pass to the next.

    In a `column` the vector variable is parallel and a block has 32 of its values, one
    for each thread of a warp. `sharing` warps share them: warp i takes the points i, i +
    sharing, .. of the reductions.

    In a `scatter` a warp takes one update and, with `lanes` of them at a time, the
    columns of the vector variable.

    A sum is added as follows, and in no other order, so that equal schedules give
    equal bits. A thread adds its values one after another for each lane, in a column
    in parts of `part` (0: one part), and the parts likewise. Then lane i is added to
    lane i + half until one is left; then the threads of a warp are, by shuffles over
    16, 8, 4, 2, 1 threads (from half of `sharing` if that is less than 32); then
    warp i to warp i + half, where half is half of the next power of two and a warp
    that does not exist adds nothing. A row of 1,024 values with `lanes = 4` and
    `sharing = 128`, so that each of four warps has 256 values in two vectors:

    ```
    value  0  512 | 1  513 | 2  514 | 3  515     thread 0 of warp 0, four lanes
            \ /      \ /      \ /      \ /
             a        b        c        d        values of a lane, in order
             (a + c) + (b + d)                   lanes, two and two
             thread t + thread (t xor 16), then xor 8, 4, 2, 1
             (warp 0 + warp 2) + (warp 1 + warp 3)
    ```
  }];
  let parameters = (ins EnumParameter<Cuda_LoopKind>:$kind, ArrayRefParameter<"int64_t">:$items,
                        "int64_t":$vector, "int64_t":$lanes, "int64_t":$vectors, "int64_t":$tiled,
                        ArrayRefParameter<"int64_t">:$inside,
                        ArrayRefParameter<"int64_t">:$reductions, "int64_t":$threads,
                        "int64_t":$sharing, "int64_t":$part, "int64_t":$kept);
  let hasCustomAssemblyFormat = 1;
}

#endif
