// The functions that a twin's code calls in place of LLVM's intrinsics.

#include "test/compiler/target/cuda/TwinCalls.h"

#include <bit>
#include <cstring>

#include "test/compiler/target/cuda/TwinMachine.h"

using namespace polyrank::twin;

static Machine &machine() { return Machine::current(); }

static void noteRead(void *address, uint32_t size, uint32_t alignment,
                     uint32_t site) {
  machine().access(address, size, alignment, /*isWrite=*/false, site);
}
static void noteWrite(void *address, uint32_t size, uint32_t alignment,
                      uint32_t site) {
  machine().access(address, size, alignment, /*isWrite=*/true, site);
}

static uint32_t getThread(uint32_t) { return machine().getThread(); }
static uint32_t getLane(uint32_t) { return machine().getThread() % warpSize; }
static uint32_t getBlock(uint32_t) { return machine().getBlock(); }
static uint32_t getThreads(uint32_t) { return machine().getNumThreads(); }
static uint32_t getBlocks(uint32_t) { return machine().getNumBlocks(); }
static uint32_t getWarpSize(uint32_t) { return warpSize; }
/// Grids and blocks have one dim.
static uint32_t getFirst(uint32_t) { return 0; }
static uint32_t getOne(uint32_t) { return 1; }

static void barrier(uint32_t number, uint32_t site) {
  machine().barrier(number, site);
}
static void barrierOfWarp(uint32_t mask, uint32_t site) {
  machine().exchange(Exchange::WarpBarrier, mask, 0, 0, 0, site);
}

template <Exchange kind>
static uint32_t shuffle(uint32_t mask, uint32_t value, uint32_t operand,
                        uint32_t form, uint32_t site) {
  return machine().exchange(kind, mask, value, operand, form, site);
}
template <Exchange kind>
static float shuffleFloat(uint32_t mask, float value, uint32_t operand,
                          uint32_t form, uint32_t site) {
  return std::bit_cast<float>(machine().exchange(
      kind, mask, std::bit_cast<uint32_t>(value), operand, form, site));
}
template <Exchange kind>
static uint32_t vote(uint32_t mask, uint32_t value, uint32_t site) {
  return machine().exchange(kind, mask, value, 0, 0, site);
}

template <typename Function>
static void *addressOf(Function *function) {
  return reinterpret_cast<void *>(function);
}

void *polyrank::twin::getReadFunction() { return addressOf(noteRead); }
void *polyrank::twin::getWriteFunction() { return addressOf(noteWrite); }

const TwinCall *polyrank::twin::findCall(const char *intrinsic) {
  static const TwinCall calls[] = {
      {"llvm.nvvm.read.ptx.sreg.tid.x", addressOf(getThread)},
      {"llvm.nvvm.read.ptx.sreg.tid.y", addressOf(getFirst)},
      {"llvm.nvvm.read.ptx.sreg.tid.z", addressOf(getFirst)},
      {"llvm.nvvm.read.ptx.sreg.ntid.x", addressOf(getThreads)},
      {"llvm.nvvm.read.ptx.sreg.ntid.y", addressOf(getOne)},
      {"llvm.nvvm.read.ptx.sreg.ntid.z", addressOf(getOne)},
      {"llvm.nvvm.read.ptx.sreg.ctaid.x", addressOf(getBlock)},
      {"llvm.nvvm.read.ptx.sreg.ctaid.y", addressOf(getFirst)},
      {"llvm.nvvm.read.ptx.sreg.ctaid.z", addressOf(getFirst)},
      {"llvm.nvvm.read.ptx.sreg.nctaid.x", addressOf(getBlocks)},
      {"llvm.nvvm.read.ptx.sreg.nctaid.y", addressOf(getOne)},
      {"llvm.nvvm.read.ptx.sreg.nctaid.z", addressOf(getOne)},
      {"llvm.nvvm.read.ptx.sreg.laneid", addressOf(getLane)},
      {"llvm.nvvm.read.ptx.sreg.warpsize", addressOf(getWarpSize)},
      {"llvm.nvvm.barrier.cta.sync.aligned.all", addressOf(barrier)},
      {"llvm.nvvm.bar.warp.sync", addressOf(barrierOfWarp)},
      {"llvm.nvvm.shfl.sync.up.i32", addressOf(shuffle<Exchange::ShuffleUp>)},
      {"llvm.nvvm.shfl.sync.down.i32",
       addressOf(shuffle<Exchange::ShuffleDown>)},
      {"llvm.nvvm.shfl.sync.bfly.i32",
       addressOf(shuffle<Exchange::ShuffleButterfly>)},
      {"llvm.nvvm.shfl.sync.idx.i32",
       addressOf(shuffle<Exchange::ShuffleIndex>)},
      {"llvm.nvvm.shfl.sync.up.f32",
       addressOf(shuffleFloat<Exchange::ShuffleUp>)},
      {"llvm.nvvm.shfl.sync.down.f32",
       addressOf(shuffleFloat<Exchange::ShuffleDown>)},
      {"llvm.nvvm.shfl.sync.bfly.f32",
       addressOf(shuffleFloat<Exchange::ShuffleButterfly>)},
      {"llvm.nvvm.shfl.sync.idx.f32",
       addressOf(shuffleFloat<Exchange::ShuffleIndex>)},
      {"llvm.nvvm.vote.ballot.sync", addressOf(vote<Exchange::Ballot>)},
      {"llvm.nvvm.vote.any.sync", addressOf(vote<Exchange::Any>)},
      {"llvm.nvvm.vote.all.sync", addressOf(vote<Exchange::All>)},
      {"llvm.nvvm.match.any.sync.i32", addressOf(vote<Exchange::MatchAny>)},
  };
  for (const TwinCall &call : calls)
    if (std::strcmp(call.intrinsic, intrinsic) == 0)
      return &call;
  return nullptr;
}
