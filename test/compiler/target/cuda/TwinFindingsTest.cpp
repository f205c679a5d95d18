// What twins find: for each finding one kernel that has it, and one that does
// not.

#include "test/compiler/target/cuda/TwinFixture.h"

using namespace polyrank;
using namespace polyrank::twin;

namespace {

TEST_F(Twins, FindAccessesOutsideOfBuffers) {
  x.resize(63);
  expectOnly(Fault::OutOfBounds, copy,
             "thread 63 of block 0 reads 4 bytes outside of every buffer");
  x.resize(64);
  y.resize(60);
  expectOnly(Fault::OutOfBounds, copy, "of the 240 of y");
}

TEST_F(Twins, FindMisalignedVectors) {
  auto copyFrom = [](const char *element) {
    return std::string(R"ir(
  %t4 = mul i32 %t, 4
  %t5 = add i32 %t4, 1
  %isLast = icmp eq i32 %t, 31
  %odd = select i1 %isLast, i32 %t4, i32 %t5
  %to = getelementptr float, ptr addrspace(1) %y, i32 %t4
  %from = getelementptr float, ptr addrspace(1) %x, i32 )ir") +
           element + R"ir(
  %v = load <4 x float>, ptr addrspace(1) %from, align 16
  store <4 x float> %v, ptr addrspace(1) %to, align 16
  ret void
)ir";
  };
  // Memory of a std::vector begins at a multiple of 16.
  x.resize(128), y.resize(128);
  expectNone(copyFrom("%t4"), 32);
  expectOnly(Fault::Misaligned, copyFrom("%odd"), "which is no multiple of 16",
             32);
}

TEST_F(Twins, FindReadsOfWhatNobodyHasWritten) {
  expectOnly(Fault::Uninitialised, R"ir(
  %v = load float, ptr addrspace(3) %st, align 4
  store float %v, ptr addrspace(1) %yt, align 4
  ret void
)ir",
             "of shared memory tile, which nobody has written");
  expectOnly(Fault::Uninitialised, R"ir(
  %v = load float, ptr addrspace(1) %yt, align 4
  store float %v, ptr addrspace(1) %yt, align 4
  ret void
)ir",
             "of y, which nobody has written");
}

/// What a block leaves in shared memory is no other block's.
TEST_F(Twins, BeginBlocksWithSharedMemoryThatIsNan) {
  expectOnly(Fault::Uninitialised, R"ir(
  %first = icmp eq i32 %b, 0
  br i1 %first, label %fill, label %use
fill:
  store float 1.0, ptr addrspace(3) %st, align 4
  store float 1.0, ptr addrspace(1) %yt, align 4
  ret void
use:
  %v = load float, ptr addrspace(3) %st, align 4
  %nan = fcmp uno float %v, %v
  br i1 %nan, label %done, label %other
other:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  ret void
done:
  ret void
)ir",
             "shared memory tile", 64, 2);
}

TEST_F(Twins, FindResultsThatAreNotWritten) {
  expectOnly(Fault::NotWritten, R"ir(
  %c = icmp ult i32 %t, 63
  br i1 %c, label %write, label %done
write:
  store float 1.0, ptr addrspace(1) %yt, align 4
  br label %done
done:
  ret void
)ir",
             "4 bytes of y are not written, the first of them byte 252");
}

/// Thread t writes, and reads what thread 63 - t has written.
std::string reversed(const std::string &between) {
  return R"ir(
  %v = load float, ptr addrspace(1) %xt, align 4
  store float %v, ptr addrspace(3) %st, align 4
)ir" + between +
         R"ir(
  %o = xor i32 %t, 63
  %so = getelementptr float, ptr addrspace(3) @tile, i32 %o
  %w = load float, ptr addrspace(3) %so, align 4
  store float %w, ptr addrspace(1) %yt, align 4
  ret void
)ir";
}

TEST_F(Twins, FindReadsThatNoBarrierOrders) {
  expectNone(
      reversed("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"));
  EXPECT_EQ(y[0], x[63]);
  // Whether it has been written depends on the order, too.
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Report report = run(reversed(""), 64, 1, seed);
    EXPECT_TRUE(report.has(Fault::Race)) << report.print();
  }
  // A barrier of each warp is none between warps.
  Report report = run(reversed("call void @llvm.nvvm.bar.warp.sync(i32 -1)"));
  EXPECT_TRUE(report.has(Fault::Race)) << report.print();
}

/// Lane t reads what lane 31 - t of its warp has written.
std::string reversedInWarp(const std::string &between) {
  std::string text = reversed(between);
  return text.replace(text.find("xor i32 %t, 63"), 14, "xor i32 %t, 31");
}

TEST_F(Twins, AShuffleOrdersNoMemoryAndABarrierOfTheWarpDoes) {
  expectNone(reversedInWarp("call void @llvm.nvvm.bar.warp.sync(i32 -1)"));
  expectOnly(Fault::Race,
             reversedInWarp("%s = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 "
                            "-1, float %v, i32 1, i32 31)"),
             "write-read race on byte");
}

TEST_F(Twins, FindWritesAfterReadsThatNoBarrierOrders) {
  auto twice = [](const std::string &between) {
    std::string text =
        reversed("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)");
    return text.insert(text.find("ret void"),
                       between + "\n  store float %w, ptr addrspace(3) %st, "
                                 "align 4\n  ");
  };
  expectNone(twice("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"));
  // The reader comes first or second.
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Report report = run(twice(""), 64, 1, seed);
    EXPECT_TRUE(report.has(Fault::Race)) << report.print();
  }
}

TEST_F(Twins, FindWritesOfEqualValues) {
  expectOnly(Fault::Race, R"ir(
  store float 0.0, ptr addrspace(1) %yt, align 4
  store float 1.0, ptr addrspace(3) @tile, align 4
  ret void
)ir",
             "write-write race on byte 0 of shared memory tile");
}

/// No barrier orders blocks.
TEST_F(Twins, FindRacesBetweenBlocks) {
  expectOnly(Fault::Race, copy, "write-write race on byte", 64, 2);
  // Both blocks may read the same bytes.
  expectNone(R"ir(
  %b32 = mul i32 %b, 32
  %at = add i32 %t, %b32
  %to = getelementptr float, ptr addrspace(1) %y, i32 %at
  %v = load float, ptr addrspace(1) %xt, align 4
  store float %v, ptr addrspace(1) %to, align 4
  ret void
)ir",
             32, 2);
  // One writes what the other reads.
  expectOnly(Fault::Race, R"ir(
  %first = icmp eq i32 %b, 0
  br i1 %first, label %one, label %two
one:
  %v = load float, ptr addrspace(1) %xt, align 4
  store float %v, ptr addrspace(1) %yt, align 4
  ret void
two:
  store float 1.0, ptr addrspace(1) %xt, align 4
  ret void
)ir",
             " of x: thread", 64, 2);
}

/// Several blocks have read before one of them writes what it has read itself.
TEST_F(Twins, RememberReadsOfAllBlocks) {
  expectOnly(Fault::Race, R"ir(
  %v = load float, ptr addrspace(1) %xt, align 4
  %b32 = mul i32 %b, 32
  %at = add i32 %t, %b32
  %to = getelementptr float, ptr addrspace(1) %y, i32 %at
  store float %v, ptr addrspace(1) %to, align 4
  %first = icmp eq i32 %b, 1
  br i1 %first, label %again, label %done
again:
  store float %v, ptr addrspace(1) %xt, align 4
  br label %done
done:
  ret void
)ir",
             "race on byte", 32, 2);
}

TEST_F(Twins, FindBarriersThatSomeThreadsNeverReach) {
  expectOnly(Fault::Divergence, R"ir(
  store float 1.0, ptr addrspace(1) %yt, align 4
  %c = icmp ult i32 %t, 40
  br i1 %c, label %wait, label %done
wait:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %done
done:
  ret void
)ir",
             "40 threads wait at a barrier that 24 others never reach");
}

TEST_F(Twins, FindBarriersAtDifferentPlaces) {
  std::string text = R"ir(
  store float 1.0, ptr addrspace(1) %yt, align 4
  %c = icmp ult i32 %t, LIMIT
  br i1 %c, label %one, label %two
one:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %done
two:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %done
done:
  ret void
)ir";
  auto with = [&](const char *limit) {
    std::string result = text;
    return result.replace(result.find("LIMIT"), 5, limit);
  };
  expectNone(with("32")); // whole warps
  expectOnly(Fault::Divergence, with("40"), "wait at different barriers");
}

TEST_F(Twins, FindExchangesThatSomeLanesNeverReach) {
  auto with = [](const char *limit) {
    return std::string("  %c = icmp ult i32 %t, ") + limit + R"ir(
  store float 1.0, ptr addrspace(1) %yt, align 4
  br i1 %c, label %wait, label %done
wait:
  %s = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float 1.0, i32 1, i32 31)
  br label %done
done:
  ret void
)ir";
  };
  expectNone(with("32"));
  expectOnly(Fault::Divergence, with("40"),
             "8 threads wait for an exchange that other lanes never reach");
}

TEST_F(Twins, FindExchangesOfDifferentForms) {
  expectOnly(Fault::Divergence, R"ir(
  store float 1.0, ptr addrspace(1) %yt, align 4
  %c = icmp ult i32 %t, 40
  br i1 %c, label %one, label %two
one:
  %s = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float 1.0, i32 1, i32 31)
  br label %done
two:
  %v = call i32 @llvm.nvvm.vote.ballot.sync(i32 -1, i1 true)
  br label %done
done:
  ret void
)ir",
             "the lanes of warp 1 wait for different exchanges");
  expectOnly(Fault::Divergence, R"ir(
  store float 1.0, ptr addrspace(1) %yt, align 4
  %s = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 1, float 1.0, i32 1, i32 31)
  ret void
)ir",
             "an exchange of some of its lanes alone");
}

} // namespace
