// Small kernels as LLVM IR that a GPU's compiler could have left, and their
// twins.

#pragma once

#include <gtest/gtest.h>

#include "test/compiler/target/cuda/TwinModule.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"

namespace polyrank::twin {

/// What all kernels of these tests may use: tid, shared memory of 64 floats.
inline constexpr const char *prelude = R"ir(
target triple = "nvptx64-nvidia-cuda"
@tile = internal addrspace(3) global [64 x float] undef, align 16
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare void @llvm.nvvm.bar.warp.sync(i32)
declare float @llvm.nvvm.shfl.sync.bfly.f32(i32, float, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.down.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.vote.ballot.sync(i32, i1)
)ir";

/// A kernel of (x, y), where %t is the thread's number, %b the block's.
inline std::string kernelOf(const std::string &body) {
  return std::string(prelude) + R"ir(
define ptx_kernel void @k(ptr addrspace(1) noalias %x, ptr addrspace(1) %y) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %xt = getelementptr float, ptr addrspace(1) %x, i32 %t
  %yt = getelementptr float, ptr addrspace(1) %y, i32 %t
  %st = getelementptr float, ptr addrspace(3) @tile, i32 %t
)ir" + body +
         "}\n";
}

class Twins : public testing::Test {
protected:
  /// Compiles the module; fails the test unless `problem` is empty and it does,
  /// or it does not for that reason.
  void compile(const std::string &text, const std::string &problem = "") {
    llvm::LLVMContext context;
    llvm::SMDiagnostic diagnostic;
    std::unique_ptr<llvm::Module> module =
        llvm::parseAssemblyString(text, diagnostic, context);
    ASSERT_TRUE(module) << diagnostic.getMessage().str() << ": "
                        << diagnostic.getLineContents().str();
    auto created = TwinModule::create(*module);
    if (!problem.empty()) {
      ASSERT_FALSE(created);
      EXPECT_NE(created.error().message.find(problem), std::string::npos)
          << created.error().message;
      return;
    }
    ASSERT_TRUE(bool(created)) << created.error().message;
    twin = std::move(*created);
  }
  /// Runs a kernel on x and y, in an order of its own for each seed. y is no
  /// argument.
  Report run(const std::string &body, int threads = 64, int64_t blocks = 1,
             uint64_t seed = 1) {
    if (body != last) {
      last = body;
      twin = nullptr;
      compile(kernelOf(body));
    }
    if (!twin)
      return {};
    Launch launch;
    const void *pointers[] = {x.data(), y.data()};
    launch.parameters = {&pointers[0], &pointers[1]};
    launch.buffers = {
        {"x", x.data(), x.size() * 4, 4, /*isArgument=*/true, false, false},
        {"y", y.data(), y.size() * 4, 4, false, /*isResult=*/true, false}};
    launch.threads = threads;
    launch.blocks = blocks;
    launch.seed = seed;
    auto report = twin->run("k", launch);
    EXPECT_TRUE(bool(report)) << report.error().message;
    return report ? *report : Report();
  }
  /// Expects this finding and no other, in several orders.
  void expectOnly(Fault fault, const std::string &body, const char *text,
                  int threads = 64, int64_t blocks = 1) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      Report report = run(body, threads, blocks, seed);
      ASSERT_TRUE(report.has(fault)) << report.print();
      EXPECT_EQ(report.findings.size(), 1u) << report.print();
      EXPECT_NE(report.print().find(text), std::string::npos) << report.print();
    }
  }
  /// Expects no finding, and results that do not depend on the order.
  void expectNone(const std::string &body, int threads = 64,
                  int64_t blocks = 1) {
    std::vector<float> before;
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      std::fill(y.begin(), y.end(), -1.0f);
      Report report = run(body, threads, blocks, seed);
      EXPECT_TRUE(report.findings.empty()) << report.print();
      if (seed > 1) {
        EXPECT_EQ(y, before);
      }
      before = y;
    }
  }

  Twins() : x(64), y(64) {
    for (int i = 0; i < 64; ++i)
      x[i] = 1 + i * 0.25f;
  }
  std::vector<float> x, y;
  std::unique_ptr<TwinModule> twin;
  std::string last;
};

/// y = x.
inline constexpr const char *copy = R"ir(
  %v = load float, ptr addrspace(1) %xt, align 4
  store float %v, ptr addrspace(1) %yt, align 4
  ret void
)ir";

} // namespace polyrank::twin
