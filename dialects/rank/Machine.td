// The attribute that says what the programs of a module run on.

#ifndef POLYRANK_RANK_MACHINE_TD
#define POLYRANK_RANK_MACHINE_TD

include "dialects/rank/Rank.td"

// A number in text, 25.0, without a type.
class Rank_Number<string description>
    : AttrOrTypeParameter<"::mlir::FloatAttr", description> {
  let parser = "::polyrank::rank::parseNumber($_parser)";
  let printer = "$_printer.printFloat($_self.getValue())";
}

def Rank_LinkAttr : Rank_Attr<"Link", "link"> {
  let summary = "The links between ranks along one axis of the mesh";
  let description = [{
    The latency of one round of messages in microseconds, and the bandwidth in GB/s
    (10^9 bytes a second): the numbers of `--link data=10:25`.

    ```mlir
    #rank.link<"data", latency = 10.0, bandwidth = 25.0>
    ```

    1. The latency is 0 to 1e6 microseconds.
    2. The bandwidth is 1e-6 to 1e6 GB/s.
  }];
  let parameters = (ins "::mlir::StringAttr":$axis, Rank_Number<"microseconds">:$latency,
                        Rank_Number<"GB/s">:$bandwidth);
  let assemblyFormat = "`<` $axis `,` `latency` `=` $latency `,` `bandwidth` `=` $bandwidth `>`";
  let genVerifyDecl = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    AttrBuilder<(ins "::llvm::StringRef":$axis, "double":$latency, "double":$bandwidth), [{
      auto number = ::mlir::Float64Type::get($_ctxt);
      return $_get($_ctxt, ::mlir::StringAttr::get($_ctxt, axis), ::mlir::FloatAttr::get(number, latency),
                   ::mlir::FloatAttr::get(number, bandwidth));
    }]>
  ];
}

def Rank_RateAttr : Rank_Attr<"Rate", "rate"> {
  let summary = "How fast a rank multiplies matrices of one element type";
  let description = [{
    The FLOPs that library calls reach with all threads of a rank, in GFLOP/s (10^9 a
    second).

    ```mlir
    #rank.rate<f32, 120.0>
    ```

    1. The element type is a float or an integer.
    2. The rate is 1e-3 to 1e7 GFLOP/s.
  }];
  let parameters = (ins "::mlir::Type":$elementType, Rank_Number<"GFLOP/s">:$gigaflops);
  let assemblyFormat = "`<` $elementType `,` $gigaflops `>`";
  let genVerifyDecl = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    AttrBuilderWithInferredContext<(ins "::mlir::Type":$elementType, "double":$gigaflops), [{
      ::mlir::MLIRContext *context = elementType.getContext();
      return $_get(context, elementType, ::mlir::FloatAttr::get(::mlir::Float64Type::get(context), gigaflops));
    }]>
  ];
}

def Rank_MachineAttr : Rank_Attr<"Machine", "machine"> {
  let summary = "What the programs of a module run on";
  let description = [{
    `rank.machine` of a module, which passes ask about all that they need to know of
    the hardware (`compiler/cost/Machine.h`):

    - the target, an attribute of the target's own dialect, which says what kernels
      and library calls run on; without it that of the program (the CPU);
    - `threads` of a rank, by default 1;
    - `links` along axes of the mesh; other axes have the default link, 10
      microseconds and 10 GB/s;
    - `rates` of products by element type, and the `bandwidth` in GB/s at which
      kernels read and write memory. What is left out is what the target says of a
      rank with so many threads;
    - `memory`, the bytes that the arena of a rank may take; no limit if left out.

    Something is stated, and the target first; the rest may stand in any order.

    ```mlir
    #rank.machine<#cpu.target<"native">>
    #rank.machine<#cpu.target<"x86-64-v4">, threads = 2, rates = [<f32, 120.0>], bandwidth = 16.0>
    #rank.machine<links = [<"data", latency = 10.0, bandwidth = 25.0>], memory = 8589934592>
    ```

    1. There is at least one thread.
    2. No axis has two links.
    3. No element type has two rates.
    4. The bandwidth is 1e-3 to 1e6 GB/s.
    5. The memory is at least one byte.
    6. `rank.machine` is such an attribute, and stands on a module.
    7. If the module has a mesh (`sharding.mesh`), links lie along axes of it.
  }];
  let parameters = (ins OptionalParameter<"::mlir::Attribute">:$target, "int64_t":$threads,
                        ArrayRefParameter<"::polyrank::rank::LinkAttr">:$links,
                        ArrayRefParameter<"::polyrank::rank::RateAttr">:$rates,
                        OptionalParameter<"::mlir::FloatAttr">:$bandwidth,
                        "::std::optional<int64_t>":$memory);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    AttrBuilder<(ins "::mlir::Attribute":$target, CArg<"int64_t", "1">:$threads,
        CArg<"::llvm::ArrayRef<::polyrank::rank::LinkAttr>", "{}">:$links,
        CArg<"::llvm::ArrayRef<::polyrank::rank::RateAttr>", "{}">:$rates,
        CArg<"::std::optional<double>", "{}">:$bandwidth, CArg<"::std::optional<int64_t>", "{}">:$memory), [{
      return $_get($_ctxt, target, threads, links, rates,
                   bandwidth ? ::mlir::FloatAttr::get(::mlir::Float64Type::get($_ctxt), *bandwidth)
                             : ::mlir::FloatAttr(),
                   memory);
    }]>
  ];
  let extraClassDeclaration = [{
    /// The link along an axis, or the rate of an element type; null if the
    /// attribute states none.
    /// @{
    LinkAttr getLink(::llvm::StringRef axis) const;
    RateAttr getRate(::mlir::Type elementType) const;
    /// @}
  }];
}

#endif
