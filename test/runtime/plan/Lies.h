// Invalid plans for tests of the verifier: each is one change of a valid plan,
// and most are detected by only one check.

#pragma once

#include "runtime/plan/VerifyPlan.h"
#include "test/runtime/PlanBuilder.h"
#include "test/runtime/PlanParts.h"

#include <functional>
#include <gtest/gtest.h>

namespace polyrank::runtime::test {

using namespace plan;

/// A valid plan on 2 x 2 ranks, with two microbatches. The private region has,
/// from byte 0 on and aligned to 64 bytes: weight (24 bytes), inputs (2 x 48,
/// to byte 192), labels, y, d (32 each), squares, row count; to byte 512. The
/// shared region has the gradient (24 bytes) and, at 64, loss; to byte 128.
inline PlanT goodPlan() {
  LinearModel model;
  model.data = 2, model.tensor = 2, model.microbatches = 2, model.batch = 8;
  model.weights = "weights.bin";
  return linearPlan(model);
}

inline ProgramT &programOf(PlanT &plan) { return *plan.programs[0]; }
inline CommandT &commandOf(PlanT &plan, int segment, int number) {
  return *programOf(plan).segments[segment]->commands[number];
}
inline CallT &callOf(PlanT &plan) {
  return *commandOf(plan, firstSegment, 1).body.AsCall();
}
inline CpuGemmT &gemmOf(PlanT &plan) { return *callOf(plan).body.AsCpuGemm(); }
/// The operands and the result of a GEMM.
inline BufferRef &aOf(CallT &call) { return call.reads[0]; }
inline BufferRef &bOf(CallT &call) { return call.reads[1]; }
inline BufferRef &cOf(CallT &call) { return call.writes[0]; }
inline LaunchT &launchOf(PlanT &plan) {
  return *commandOf(plan, firstSegment, 2).body.AsLaunch();
}
inline CpuLaunchT &cpuLaunchOf(PlanT &plan) {
  return *launchOf(plan).body.AsCpuLaunch();
}
inline CollectiveT &collectiveOf(PlanT &plan) {
  return *commandOf(plan, updateSegment, 0).body.AsCollective();
}
inline TransferT &transferOf(PlanT &plan) {
  return *collectiveOf(plan).transfers[0];
}
inline ArgumentT &argumentOf(PlanT &plan, int number) {
  return *programOf(plan).arguments[number];
}

inline BufferRef bufferAt(uint64_t offset, uint64_t size, uint64_t stride = 0,
                          Region region = Region::Private) {
  return BufferRef(offset, size, stride, 0, 0, 0, 0, region);
}
inline void move(BufferRef &buffer, uint64_t offset) {
  buffer =
      BufferRef(offset, buffer.size(), buffer.stride(), buffer.step(),
                buffer.each(), buffer.slots(), buffer.axes(), buffer.region());
}
inline void move(std::unique_ptr<BufferRef> &buffer, uint64_t offset) {
  move(*buffer, offset);
}
inline BufferRef ofSize(const BufferRef &buffer, uint64_t size) {
  return BufferRef(buffer.offset(), size, buffer.stride(), buffer.step(),
                   buffer.each(), buffer.slots(), buffer.axes(),
                   buffer.region());
}
inline BufferRef withStride(const BufferRef &buffer, uint64_t stride) {
  return BufferRef(buffer.offset(), buffer.size(), stride, buffer.step(),
                   buffer.each(), buffer.slots(), buffer.axes(),
                   buffer.region());
}
inline BufferRef asBlock(const BufferRef &buffer, uint32_t axes,
                         uint64_t step) {
  return BufferRef(buffer.offset(), buffer.size(), buffer.stride(), step,
                   buffer.each(), buffer.slots(), axes, buffer.region());
}
inline BufferRef withSlots(const BufferRef &buffer, uint32_t slots) {
  return BufferRef(buffer.offset(), buffer.size(), buffer.stride(),
                   buffer.step(), buffer.each(), slots, buffer.axes(),
                   buffer.region());
}
inline BufferRef inRegion(const BufferRef &buffer, Region region) {
  return BufferRef(buffer.offset(), buffer.size(), buffer.stride(),
                   buffer.step(), buffer.each(), buffer.slots(), buffer.axes(),
                   region);
}
inline BufferRef withEach(const BufferRef &buffer, int64_t each) {
  return BufferRef(buffer.offset(), buffer.size(), buffer.stride(),
                   buffer.step(), each, buffer.slots(), buffer.axes(),
                   buffer.region());
}

struct Lie {
  const char *name;
  std::function<void(PlanT &)> tell;
  const char *message; // a part of the verifier's message
};

inline void PrintTo(const Lie &lie, std::ostream *out) { *out << lie.name; }

/// `plan` is valid, except for the lie, which is about no queue: all commands
/// get the right ones afterwards, unless it `isAboutQueues`.
inline void expectRefused(const Lie &lie, PlanT plan = goodPlan(),
                          bool isAboutQueues = false) {
  lie.tell(plan);
  if (!isAboutQueues)
    assignQueues(plan);
  auto verified = verifyPlan(serialise(plan));
  ASSERT_FALSE(verified);
  EXPECT_NE(verified.error().message.find(lie.message), std::string::npos)
      << verified.error().message;
}

/// Accepted with the right queues.
inline void expectAccepted(PlanT plan) {
  assignQueues(plan);
  auto verified = verifyPlan(serialise(plan));
  EXPECT_TRUE(verified) << verified.error().message;
}

} // namespace polyrank::runtime::test
