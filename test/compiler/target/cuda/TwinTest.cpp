// Twins compute what their kernels compute, exchange what lanes have, and count
// what warps move.

#include "test/compiler/target/cuda/TwinFixture.h"

using namespace polyrank;
using namespace polyrank::twin;

namespace {

TEST_F(Twins, ComputeWhatTheKernelComputes) {
  expectNone(copy);
  EXPECT_EQ(y, x);
}

TEST_F(Twins, SplitVectorsThatAreAlignedLess) {
  // What PTX loads as four floats may begin at any of them.
  expectNone(R"ir(
  %c = icmp ult i32 %t, 15
  %from = getelementptr float, ptr addrspace(1) %xt, i32 1
  br i1 %c, label %wide, label %done
wide:
  %v = load <4 x float>, ptr addrspace(1) %from, align 4
  %e = extractelement <4 x float> %v, i32 3
  br label %done
done:
  %w = phi float [ 0.0, %entry ], [ %e, %wide ]
  store float %w, ptr addrspace(1) %yt, align 4
  ret void
)ir");
  EXPECT_EQ(y[3], x[7]);
}

/// Elements that a constant mask leaves out are not accessed.
TEST_F(Twins, SeeTheElementsOfMaskedVectors) {
  std::string text = kernelOf(R"ir(
  %first = getelementptr float, ptr addrspace(1) %xt, i32 -1
  %v = call <4 x float> @llvm.masked.load.v4f32.p1(ptr addrspace(1) align 4 %first, <4 x i1> <i1 false, i1 true, i1 true, i1 false>, <4 x float> zeroinitializer)
  %one = extractelement <4 x float> %v, i32 1
  %two = extractelement <4 x float> %v, i32 2
  %sum = fadd float %one, %two
  store float %sum, ptr addrspace(1) %yt, align 4
  ret void
)ir");
  compile(text + "declare <4 x float> @llvm.masked.load.v4f32.p1(ptr "
                 "addrspace(1), <4 x i1>, <4 x float>)\n");
  x.resize(65, 100);
  for (size_t size : {65, 64}) {
    const void *pointers[] = {x.data(), y.data()};
    Launch launch;
    launch.threads = 64;
    launch.parameters = {&pointers[0], &pointers[1]};
    launch.buffers = {{"x", x.data(), size * 4, 4, /*isArgument=*/true},
                      {"y", y.data(), 256, 4}};
    auto report = twin->run("k", launch);
    ASSERT_TRUE(bool(report)) << report.error().message;
    EXPECT_EQ(report->has(Fault::OutOfBounds), size == 64) << report->print();
    if (size == 65)
      EXPECT_TRUE(report->findings.empty()) << report->print();
  }
  EXPECT_EQ(y[5], x[5] + x[6]);
}

TEST_F(Twins, ExchangeWhatLanesOfAWarpHave) {
  expectNone(R"ir(
  %v = load float, ptr addrspace(1) %xt, align 4
  %a = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %v, i32 16, i32 31)
  %u = call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 %t, i32 3, i32 31)
  %low = icmp ult i32 %t, 5
  %m = call i32 @llvm.nvvm.vote.ballot.sync(i32 -1, i1 %low)
  %uf = uitofp i32 %u to float
  %mf = uitofp i32 %m to float
  %s = fadd float %a, %uf
  %r = fadd float %s, %mf
  store float %r, ptr addrspace(1) %yt, align 4
  ret void
)ir");
  for (int t = 0; t < 64; ++t) {
    int lane = t % 32, warp = t - lane;
    float down = static_cast<float>(lane + 3 < 32 ? t + 3 : t);
    EXPECT_EQ(y[t], (x[warp + (lane ^ 16)] + down) + (t < 32 ? 31.0f : 0.0f))
        << t;
  }
}

/// Adjacent floats are read in 4 sectors a warp, and every eighth in 32.
TEST_F(Twins, CountSectors) {
  Report report = run(copy);
  EXPECT_EQ(report.traffic.accesses, 4);
  EXPECT_EQ(report.traffic.bytesRead, 256);
  EXPECT_EQ(report.traffic.bytesWritten, 256);
  EXPECT_EQ(report.traffic.idealSectors, 16);
  // Up to one more for each access, by where the buffers begin.
  EXPECT_GE(report.traffic.sectors, 16);
  EXPECT_LE(report.traffic.sectors, 20);
  x.resize(32 * 8);
  report = run(R"ir(
  %t8 = mul i32 %t, 8
  %from = getelementptr float, ptr addrspace(1) %x, i32 %t8
  %v = load float, ptr addrspace(1) %from, align 4
  store float %v, ptr addrspace(1) %yt, align 4
  %yh = getelementptr float, ptr addrspace(1) %yt, i32 32
  store float %v, ptr addrspace(1) %yh, align 4
  ret void
)ir",
               32);
  EXPECT_EQ(report.traffic.bytesRead, 128);
  EXPECT_GE(report.traffic.sectors, 32 + 8);
  EXPECT_EQ(report.traffic.idealSectors, 4 + 8);
  // All lanes read one float: its bytes count once.
  report = run(R"ir(
  %v = load float, ptr addrspace(1) %x, align 4
  store float %v, ptr addrspace(1) %yt, align 4
  ret void
)ir");
  EXPECT_EQ(report.traffic.bytesRead, 8);
}

TEST_F(Twins, FlushDenormalsIfTheKernelDoes) {
  compile(kernelOf(R"ir(
  %v = load float, ptr addrspace(1) %xt, align 4
  %h = fmul float %v, 5.0e-01
  store float %h, ptr addrspace(1) %yt, align 4
  ret void
)ir"));
  x.assign(64, 0x1p-126f);
  const void *pointers[] = {x.data(), y.data()};
  Launch launch;
  launch.threads = 64;
  launch.parameters = {&pointers[0], &pointers[1]};
  launch.buffers = {{"x", x.data(), 256, 4, true}, {"y", y.data(), 256, 4}};
  for (bool flushes : {false, true}) {
    launch.flushesDenormals = flushes;
    ASSERT_TRUE(bool(twin->run("k", launch)));
    EXPECT_EQ(y[5], flushes ? 0 : 0x1p-127f);
  }
}

TEST_F(Twins, ContractNothing) {
  x.assign(64, 1 + 0x1p-12f);
  expectNone(R"ir(
  %v = load float, ptr addrspace(1) %xt, align 4
  %p = fmul float %v, %v
  %d = fadd float %p, -1.0
  store float %d, ptr addrspace(1) %yt, align 4
  ret void
)ir");
  EXPECT_EQ(y[0], 0x1p-11f);
}

TEST_F(Twins, SayWhatTheyCannotSee) {
  compile(kernelOf(R"ir(
  %v = atomicrmw add ptr addrspace(1) %y, i32 1 monotonic
  ret void
)ir"),
          "has an atomic access");
  compile(std::string(prelude) + R"ir(
declare void @other()
define ptx_kernel void @k() {
  call void @other()
  ret void
})ir",
          "calls other, which the twin cannot see into");
  compile(std::string(prelude) + R"ir(
define ptx_kernel void @k(ptr %f) {
  call void %f()
  ret void
})ir",
          "calls a function by its address");
  compile(std::string(prelude) + R"ir(
declare i32 @llvm.nvvm.read.ptx.sreg.clock()
define ptx_kernel void @k(ptr addrspace(1) %x) {
  %c = call i32 @llvm.nvvm.read.ptx.sreg.clock()
  store i32 %c, ptr addrspace(1) %x
  ret void
})ir",
          "for which the twin has no function");
  compile(std::string(prelude) + R"ir(
declare void @llvm.memcpy.p1.p1.i64(ptr addrspace(1), ptr addrspace(1), i64, i1)
define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
  call void @llvm.memcpy.p1.p1.i64(ptr addrspace(1) %x, ptr addrspace(1) %y, i64 64, i1 false)
  ret void
})ir",
          "which the twin cannot see into");
  compile(std::string(prelude) + R"ir(
@dynamic = external addrspace(3) global [0 x float]
define ptx_kernel void @k(ptr addrspace(1) %x) {
  store float 1.0, ptr addrspace(3) @dynamic
  ret void
})ir",
          "shared memory dynamic has no size");
}

TEST_F(Twins, RunKernelsAsTheyAreLaunched) {
  compile(kernelOf(copy));
  Launch launch;
  auto message = [&](const char *kernel) {
    auto report = twin->run(kernel, launch);
    return report ? std::string() : report.error().message;
  };
  EXPECT_NE(message("l").find("there is no kernel l"), std::string::npos);
  EXPECT_NE(message("k").find("has 2 parameters; it is launched with 0"),
            std::string::npos);
  launch.parameters.resize(2);
  for (int threads : {0, 33, 2048}) {
    launch.threads = threads;
    EXPECT_NE(message("k").find("in warps of 32"), std::string::npos);
  }
}

} // namespace
