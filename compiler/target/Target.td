// The interface between the compiler and the devices that its programs run on.

#ifndef POLYRANK_TARGET_TD
#define POLYRANK_TARGET_TD

include "mlir/IR/OpBase.td"

def Target_TargetInterface : AttrInterface<"TargetInterface"> {
  let cppNamespace = "::polyrank::target";
  let description = [{
    An attribute that says what kernels and products run on, such as
    `#cpu.target<"native">`: `rank.target` of a module. Passes ask it what one kernel
    can compute and costs, and let it choose how kernels and products run. Its
    methods are implemented by the target (compiler/target/cpu/CpuTarget.cpp) and
    attached by the target's own function (`cpu::registerTarget`).
  }];
  let methods = [
    InterfaceMethod<"The target's name in the plan, by which the runtime knows whether it has such a device.",
      "::llvm::StringRef", "getName">,
    InterfaceMethod<"Checks that code can be generated for the machine; fails with the reason.",
      "::polyrank::Result<void>", "checkMachine">,
    InterfaceMethod<"Returns true if the target has code for an op of `arith` or `math` on the op's types.",
      "bool", "hasCode", (ins "::mlir::Operation *":$op)>,
    InterfaceMethod<"The costs of loops that may become a kernel; nullopt if they are too much for one.",
      "::std::optional<::polyrank::target::KernelMeasure>", "measureKernel", (ins "::polyrank::kernel::LoopsOp":$loops)>,
    InterfaceMethod<"The number of adjacent values in each part of a sum of `count` values for each of `results` results: "
                    "one kernel sums the parts, another one their sums. 0 if one kernel sums all. How each kernel adds is "
                    "in its schedule, so the part and the two schedules determine the order of a long sum.",
      "int64_t", "getSumPart", (ins "int64_t":$count, "int64_t":$results)>,
    InterfaceMethod<"Chooses how the loops of a kernel run, its `schedule`, and sets the attributes that others need: "
                    "`range`, `grain` and `in_place`.",
      "::llvm::LogicalResult", "scheduleKernel", (ins "::polyrank::rank::KernelOp":$kernel)>,
    InterfaceMethod<"Compiles the kernels of the module, in order, for the machine. Where `dumpDirectory` is not empty, "
                    "the intermediate forms of each kernel are written there, for people. Errors are emitted at the kernel.",
      "::llvm::FailureOr<::polyrank::target::CompiledKernels>", "compileKernels",
      (ins "::mlir::ModuleOp":$module, "::llvm::StringRef":$dumpDirectory)>,
    InterfaceMethod<"Estimates the time of `products` products of m x k and k x n matrices, in nanoseconds. It serves to "
                    "choose among equivalent computations, so only ratios matter.",
      "double", "estimateProducts", (ins "int64_t":$m, "int64_t":$n, "int64_t":$k, "int64_t":$products)>,
    InterfaceMethod<"Estimates the time of a kernel that copies a tensor of `bytes` bytes into another order of its dims, "
                    "in nanoseconds, to be compared with `estimateProducts`.",
      "double", "estimateCopy", (ins "int64_t":$bytes)>,
    InterfaceMethod<"The alignment of buffers in the arena, in bytes; a power of two.",
      "int64_t", "getAlignment">,
    InterfaceMethod<"Fails with the reason if no library function of the target computes the op: which element types it takes is the "
                    "target's answer.",
      "::polyrank::Result<void>", "checkCall", (ins "::polyrank::rank::LibraryCallOp":$call)>,
    InterfaceMethod<"Chooses the library function of each call (`call`), for a team of `threads`. With `measure`, large "
                    "calls are run to find the fastest.",
      "void", "chooseCalls",
      (ins "::llvm::ArrayRef<::polyrank::rank::LibraryCallOp>":$calls, "int64_t":$threads, "bool":$measure)>,
    InterfaceMethod<"The approximate rates of a rank with a team of `threads`.",
      "::polyrank::target::Rates", "getRates", (ins "int64_t":$threads)>,
    InterfaceMethod<"The bytes of scratch memory that a call needs. Emits an error if no library function computes it.",
      "::llvm::FailureOr<int64_t>", "getScratchBytes",
      (ins "::polyrank::rank::LibraryCallOp":$call, "int64_t":$threads)>,
    InterfaceMethod<"Completes a call in the plan: its `body`, which only the target's device reads, how it is computed, at the "
                    "end of `text`, and the bytes that the library allocates itself. Emits an error if no function is chosen.",
      "::llvm::LogicalResult", "writeCall",
      (ins "::polyrank::rank::LibraryCallOp":$call, "::polyrank::runtime::plan::CallT &":$written)>
  ];
}

#endif
