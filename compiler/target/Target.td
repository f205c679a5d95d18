// What the compiler asks of the devices that its programs run on.

#ifndef POLYRANK_TARGET_TD
#define POLYRANK_TARGET_TD

include "mlir/IR/OpBase.td"

def Target_TargetInterface : AttrInterface<"TargetInterface"> {
  let cppNamespace = "::polyrank::target";
  let description = [{
    An attribute that says what kernels and products run on, such as
    `#rank.cpu<"native">`: `rank.target` of a module. Passes ask it what one
    kernel can compute and costs, and let it choose how kernels and products
    run. Its methods stand with the target (compiler/target/cpu/CpuTarget.cpp)
    and become known by its own function (`cpu::registerTarget`).
  }];
  let methods = [
    InterfaceMethod<"Its name in the plan, by which the runtime knows whether it has such a device.",
      "::llvm::StringRef", "getName">,
    InterfaceMethod<"Whether code can be made for the machine; fails with the reason.",
      "::polyrank::Result<void>", "checkMachine">,
    InterfaceMethod<"Whether there is code for an op of `arith` or `math` on the types that it has.",
      "bool", "hasCode", (ins "::mlir::Operation *":$op)>,
    InterfaceMethod<"What loops cost that may become a kernel; nullopt where they are too much for one.",
      "::std::optional<::polyrank::target::KernelMeasure>", "measureKernel", (ins "::polyrank::kernel::LoopsOp":$loops)>,
    InterfaceMethod<"Of how many neighbours each part of a sum consists that adds up `count` values for each of `results` "
                    "results: one kernel sums the parts, another one their sums. 0 where one kernel sums all. How either "
                    "kernel adds is in its schedule, so that these say together in which order a long sum is formed.",
      "int64_t", "getSumPart", (ins "int64_t":$count, "int64_t":$results)>,
    InterfaceMethod<"Chooses how the loops of a kernel run, its `schedule`, and writes down what others need of that: "
                    "`range`, `grain` and `in_place`.",
      "::llvm::LogicalResult", "scheduleKernel", (ins "::polyrank::rank::KernelOp":$kernel)>,
    InterfaceMethod<"Compiles the kernels of the module, in order, for the machine. Where `dumpDirectory` is not empty, "
                    "what each kernel became on the way is written there, for people. Errors are emitted at the kernel.",
      "::llvm::FailureOr<::polyrank::target::CompiledKernels>", "compileKernels",
      (ins "::mlir::ModuleOp":$module, "::llvm::StringRef":$dumpDirectory)>,
    InterfaceMethod<"Estimate of what `products` products of m x k and k x n matrices take, in nanoseconds; for choices "
                    "among ways to compute the same, so only ratios count.",
      "double", "estimateProducts", (ins "int64_t":$m, "int64_t":$n, "int64_t":$k, "int64_t":$products)>,
    InterfaceMethod<"Estimate of what a kernel takes that copies a tensor of so many bytes in another order of its dims, "
                    "in nanoseconds, to be compared with `estimateProducts`.",
      "double", "estimateCopy", (ins "int64_t":$bytes)>,
    InterfaceMethod<"A power of two: at multiples of so many bytes buffers begin in the arena.",
      "int64_t", "getAlignment">,
    InterfaceMethod<"Chooses the library call of each product (`call`), for a team of `threads`: with `measure` large "
                    "ones are run to find the fastest.",
      "void", "chooseCalls",
      (ins "::llvm::ArrayRef<::polyrank::rank::GemmOp>":$gemms, "int64_t":$threads, "bool":$measure)>,
    InterfaceMethod<"What a rank with a team of `threads` reaches, about.",
      "::polyrank::target::Rates", "getRates", (ins "int64_t":$threads)>,
    InterfaceMethod<"Bytes of memory that a product's call asks for beside operands and result. Emits an error where "
                    "no call computes the product.",
      "::llvm::FailureOr<int64_t>", "getScratchBytes",
      (ins "::polyrank::rank::GemmOp":$gemm, "int64_t":$threads)>
  ];
}

#endif
