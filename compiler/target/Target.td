// The interfaces between the compiler and the devices that its programs run on.

#ifndef POLYRANK_TARGET_TD
#define POLYRANK_TARGET_TD

include "mlir/IR/OpBase.td"

def Target_TargetInterface : AttrInterface<"TargetInterface"> {
  let cppNamespace = "::polyrank::target";
  let description = [{
    An attribute that says what programs run on, such as `#cpu.target<"native">`:
    the target in `rank.machine` of a module. A target that computes kernels also has
    the interface `KernelTarget`, one whose libraries compute ops such as GEMMs has
    `LibraryTarget`, and one that can run on several ranks has `CommunicationTarget`. All
    are implemented in the target's folder
    (compiler/target/cpu/CpuTarget.cpp) and attached by the target's own function
    (`cpu::registerTarget`).
  }];
  let methods = [
    InterfaceMethod<"The target's name in the plan, by which the runtime knows whether it has such a device.",
      "::llvm::StringRef", "getName">,
    InterfaceMethod<"Checks that code can be generated for the machine; fails with the reason.",
      "::polyrank::Result<void>", "checkMachine">,
    InterfaceMethod<"The alignment of buffers in the arena, in bytes; a power of two.",
      "int64_t", "getAlignment">,
    InterfaceMethod<"The approximate rates of a rank with a team of `threads`.",
      "::polyrank::target::Rates", "getRates", (ins "int64_t":$threads)>,
    InterfaceMethod<"How many times as fast as products of f32 products of elements of this type are.",
      "double", "getProductSpeed", (ins "::mlir::Type":$elementType)>
  ];
}

def Target_KernelTarget : AttrInterface<"KernelTarget", [Target_TargetInterface]> {
  let cppNamespace = "::polyrank::target";
  let description = [{
    A target that has code for kernels. Codegen asks it what one kernel can compute,
    which ops are better as one kernel, and how its loops run.
  }];
  let methods = [
    InterfaceMethod<"Returns true if the target has code for an op of `arith` or `math` on the op's types.",
      "bool", "hasCode", (ins "::mlir::Operation *":$op)>,
    InterfaceMethod<"What the target has to know of loops that may become a kernel, to compare them with others "
                    "(`isBetterAsOne`); null if no kernel can compute them.",
      "::polyrank::target::KernelMeasurePtr", "measureKernel", (ins "::polyrank::kernel::LoopsOp":$loops)>,
    InterfaceMethod<"Returns true if the ops of two kernels are better computed by one, `merged`, than by `first` and then "
                    "`second`. Both choices have the same bits.",
      "bool", "isBetterAsOne",
      (ins "const ::polyrank::target::KernelMeasure &":$merged, "const ::polyrank::target::KernelMeasure &":$first,
           "const ::polyrank::target::KernelMeasure &":$second)>,
    InterfaceMethod<"How far apart in a block two ops may be that become one kernel, counted in ops. Fusion keeps the values "
                    "between them alive.",
      "int64_t", "getFusionDistance">,
    InterfaceMethod<"The most values that one partial result of a long sum adds, from 1 to the number of values in the sum; 0 "
                    "if one kernel sums all. One kernel adds the values of each part, in the order of the summed dims, and "
                    "another one the partial results. How each kernel adds is in its schedule, so the part and the two "
                    "schedules determine the order of a long sum.",
      "int64_t", "getSumPart", (ins "::polyrank::graph::ReduceOp":$sum)>,
    InterfaceMethod<"Chooses how the loops of a kernel run, their `schedule`, and sets the kernel's `in_place`.",
      "::llvm::LogicalResult", "scheduleKernel", (ins "::polyrank::rank::KernelOp":$kernel)>,
    InterfaceMethod<"Compiles the kernels of the module, in order, for the machine. Errors are emitted at the kernel.",
      "::llvm::FailureOr<::polyrank::target::CompiledKernels>", "compileKernels",
      (ins "::mlir::ModuleOp":$module, "const ::polyrank::target::CompileSettings &":$settings)>,
    InterfaceMethod<"Completes a launch of a compiled kernel in the plan: its `body`, which only the target's device reads.",
      "::llvm::LogicalResult", "writeLaunch",
      (ins "::polyrank::rank::KernelOp":$kernel, "::polyrank::runtime::plan::LaunchT &":$written)>
  ];
}

def Target_LibraryTarget : AttrInterface<"LibraryTarget", [Target_TargetInterface]> {
  let cppNamespace = "::polyrank::target";
  let description = [{
    A target with libraries whose calls compute ops (`rank::LibraryCallOp`). Lowering
    asks it which calls compute an op, what they need, and what they cost.
  }];
  let methods = [
    InterfaceMethod<"Fails with the reason if no library function of the target computes the op: which element types it takes is the "
                    "target's answer.",
      "::polyrank::Result<void>", "checkCall", (ins "::polyrank::rank::LibraryCallOp":$call)>,
    InterfaceMethod<"Returns true if a call that `checkCall` accepts is faster than the products and kernels of the op's parts.",
      "bool", "isFasterThanParts", (ins "::polyrank::rank::LibraryCallOp":$call)>,
    InterfaceMethod<"Chooses the library function of each call (`call`), for a team of `threads`. With `measure`, large "
                    "calls are run to find the fastest.",
      "void", "chooseCalls",
      (ins "::llvm::ArrayRef<::polyrank::rank::LibraryCallOp>":$calls, "int64_t":$threads, "bool":$measure)>,
    InterfaceMethod<"The bytes of scratch memory that a call needs. Emits an error if no library function computes it.",
      "::llvm::FailureOr<int64_t>", "getScratchBytes",
      (ins "::polyrank::rank::LibraryCallOp":$call, "int64_t":$threads)>,
    InterfaceMethod<"Completes a call in the plan: its `body`, which only the target's device reads, how it is computed, at the "
                    "end of `text`, and the bytes that the library allocates itself. Emits an error if no function is chosen.",
      "::llvm::LogicalResult", "writeCall",
      (ins "::polyrank::rank::LibraryCallOp":$call, "::polyrank::runtime::plan::CallT &":$written)>,
    InterfaceMethod<"Estimates the time of `products` products of m x k and k x n matrices, in nanoseconds. It serves to "
                    "choose among equivalent computations, so only ratios matter.",
      "double", "estimateProducts", (ins "int64_t":$m, "int64_t":$n, "int64_t":$k, "int64_t":$products)>,
    InterfaceMethod<"Estimates the time of a kernel that copies a tensor of `bytes` bytes into another order of its dims, "
                    "in nanoseconds, to be compared with `estimateProducts`.",
      "double", "estimateCopy", (ins "int64_t":$bytes)>,
    InterfaceMethod<"Returns true if the right factor of a product, a matrix that all iterations of a loop multiply with, is "
                    "better transposed once, before the loop.",
      "bool", "isBetterTransposed", (ins "::polyrank::graph::MatmulOp":$product, "int64_t":$iterations)>
  ];
}

def Target_CommunicationTarget : AttrInterface<"CommunicationTarget", [Target_TargetInterface]> {
  let cppNamespace = "::polyrank::target";
  let description = [{
    A target whose ranks communicate. Lowering asks it what their communicator has.
  }];
  let methods = [
    InterfaceMethod<"What the communicator of such ranks has and promises.",
      "const ::polyrank::runtime::CommunicatorProperties &", "getCommunicator">
  ];
}

#endif
