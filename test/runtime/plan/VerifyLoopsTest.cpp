// What the plan verifier refuses in loops.

#include "test/runtime/PlanParts.h"
#include "test/runtime/plan/Lies.h"

namespace polyrank::runtime::test {
namespace {

BufferRef moving(uint64_t offset, uint64_t size, int64_t each,
                 uint64_t stride = 0, Region region = Region::Private) {
  return withEach(bufferAt(offset, size, stride, region), each);
}

LaunchT zeroAt(const BufferRef &output) {
  LaunchT launch;
  launch.kernel = 2;
  launch.body.Set(cpuLaunch(1));
  launch.outputs = {output};
  return launch;
}

template <typename Body>
std::unique_ptr<CommandT> commandWith(Body body) {
  auto command = std::make_unique<CommandT>();
  command->body.Set(std::move(body));
  return command;
}

/// Returns a plan with a loop of four iterations in two microbatches; both
/// regions have 4096 bytes. Command 0 is a product of 2 x 2 matrices, of which
/// `a` goes forwards from 1024 on, by 64 bytes, and c back from 2240 on; b is
/// at 1536, scratch at
/// 3072. Command 1 writes 4 bytes at 2560 and so on, command 2 copies 8 of a's
/// to 3584 and so on.
PlanT loopPlan() {
  PlanT plan = goodPlan();
  programOf(plan).private_size = programOf(plan).shared_size = 4096;
  LoopT loop;
  loop.count = 4;
  CallT product = call(gemmOf(2, 2, 2), moving(1024, 16, 64),
                       bufferAt(1536, 16), moving(2240, 16, -64));
  product.scratch = std::make_unique<BufferRef>(bufferAt(3072, 64));
  loop.commands.push_back(commandWith(std::move(product)));
  loop.commands.push_back(commandWith(zeroAt(moving(2560, 4, 4))));
  CopyT copy;
  copy.element = 4;
  copy.inner = 2;
  copy.input = std::make_unique<BufferRef>(moving(1024, 8, 64));
  copy.output = std::make_unique<BufferRef>(moving(3584, 8, 8));
  loop.commands.push_back(commandWith(std::move(copy)));
  auto command = commandWith(std::move(loop));
  command->origin = "lstm";
  programOf(plan).segments[firstSegment]->commands.push_back(
      std::move(command));
  return plan;
}

LoopT &loopOf(PlanT &plan) {
  return *programOf(plan)
              .segments[firstSegment]
              ->commands.back()
              ->body.AsLoop();
}
CallT &callIn(PlanT &plan) { return *loopOf(plan).commands[0]->body.AsCall(); }
BufferRef &outputIn(PlanT &plan) {
  return loopOf(plan).commands[1]->body.AsLaunch()->outputs[0];
}
template <typename Body>
void replace(PlanT &plan, Body body) {
  loopOf(plan).commands[1] = commandWith(std::move(body));
}

/// The gradient's reduction (24 shared bytes at 0, in place) is in flight while
/// a loop zeroes 4 shared bytes at a time.
void zeroInFlight(PlanT &plan, uint32_t count, uint64_t offset, int64_t each) {
  startEarly(plan, updateSegment, 0, 1, 5);
  LoopT loop;
  loop.count = count;
  loop.commands.push_back(
      commandWith(zeroAt(moving(offset, 4, each, 0, Region::Shared))));
  auto &commands = programOf(plan).segments[updateSegment]->commands;
  commands.insert(commands.begin() + 1, commandWith(std::move(loop)));
}

/// The reduction's 24 bytes lie at 1024.
void reduceElsewhere(PlanT &plan) {
  move(transferOf(plan).input, 1024), move(transferOf(plan).output, 1024);
}

const Lie lies[] = {
    {"outside",
     [](PlanT &p) {
       launchOf(p).inputs[1] = withEach(launchOf(p).inputs[1], 4);
     },
     "input 1: starts 4 bytes further in each iteration, and is in no loop"},
    {"outsideAndBack",
     [](PlanT &p) {
       *argumentOf(p, 0).buffer = withEach(*argumentOf(p, 0).buffer, -4);
     },
     "argument 'linear.weight': starts -4 bytes further in each iteration"},
    {"noIteration", [](PlanT &p) { loopOf(p).count = 0; },
     "command 5 (Loop, lstm): runs its commands 0 times; 1 is the least"},
    {"noCommand", [](PlanT &p) { loopOf(p).commands.clear(); },
     "command 5 (Loop, lstm): a loop without commands"},
    {"collective", [](PlanT &p) { replace(p, CollectiveT(collectiveOf(p))); },
     "command 1 of the loop (Collective): in a loop only"},
    {"wait", [](PlanT &p) { replace(p, WaitT()); },
     "command 1 of the loop (Wait): in a loop only"},
    {"loop", [](PlanT &p) { replace(p, LoopT(loopOf(p))); },
     "command 1 of the loop (Loop): in a loop only launches, library calls "
     "and copies"},
    {"lastBeforeTheRegion", [](PlanT &p) { outputIn(p) = moving(8, 4, -4); },
     "command 1 of the loop (Launch), output 0: offset 8 and -4 bytes in each "
     "of "
     "4 iterations: the last one starts before the private region"},
    {"farBeforeTheRegion",
     [](PlanT &p) { outputIn(p) = moving(64, 4, INT64_MIN); },
     "the last one starts before the private region"},
    {"lastBehindTheRegion", [](PlanT &p) { outputIn(p) = moving(4084, 4, 4); },
     "the last one ends behind the private region's 4096 bytes"},
    {"farBehindTheRegion",
     [](PlanT &p) {
       loopOf(p).count = UINT32_MAX;
       outputIn(p) = moving(64, 4, INT64_MAX);
       loopOf(p).commands.erase(loopOf(p).commands.begin());
       loopOf(p).commands.pop_back();
     },
     "the last one ends behind the private region's"},
    {"behindTheRegionIn2To64Bytes",
     [](PlanT &p) {
       loopOf(p).count = 5;
       outputIn(p) = moving(64, 4, int64_t(1) << 62);
       loopOf(p).commands.erase(loopOf(p).commands.begin());
       loopOf(p).commands.pop_back();
     },
     "the last one ends behind the private region's"},
    {"behindTheRegionInTheLastMicrobatch",
     [](PlanT &p) { outputIn(p) = moving(4076, 4, 4, 8); },
     "the last one ends behind the private region's"},
    {"behindTheRegionAsTheLastBlock",
     [](PlanT &p) { outputIn(p) = asBlock(moving(4076, 4, 4), 1, 8); },
     "the last one ends behind the private region's"},
    {"firstBehindTheRegion",
     [](PlanT &p) { outputIn(p) = moving(4096, 4, -4); },
     "behind the private region's 4096 bytes"},
    {"alignment", [](PlanT &p) { aOf(callIn(p)) = moving(1024, 16, 66); },
     "66 bytes further in each iteration are no multiple of its alignment 4"},
    {"phase",
     [](PlanT &p) { loopOf(p).commands[1]->phase = static_cast<Phase>(9); },
     "command 1 of the loop (Launch): phase 9 does not exist"},
    {"kernel",
     [](PlanT &p) { loopOf(p).commands[1]->body.AsLaunch()->kernel = 7; },
     "command 1 of the loop (Launch): kernel 7 of 7"},
    {"leadingDim", [](PlanT &p) { callIn(p).body.AsCpuGemm()->lda = 1; },
     "command 0 of the loop (gemm): a: leading dim 1"},
    {"extents",
     [](PlanT &p) { loopOf(p).commands[2]->body.AsCopy()->inner = 0; },
     "command 2 of the loop (Copy): extents 1 x 1 x 0"},
    {"meetsInTheLastIteration",
     [](PlanT &p) { cOf(callIn(p)) = moving(1344, 16, 64); },
     "16 bytes at offset 1536 and 16 bytes at offset 1344 overlap"},
    {"meetsInTheLastIterationFromBehind",
     [](PlanT &p) { cOf(callIn(p)) = moving(1728, 16, -64); },
     "16 bytes at offset 1536 and 16 bytes at offset 1728 overlap"},
    {"meetsInTheLastOfAll",
     [](PlanT &p) { cOf(callIn(p)) = moving(832, 16, 64, 512); },
     "16 bytes at offset 1536 and 16 bytes at offset 832 overlap"},
    {"meetsInTheLastMicrobatchOfOneIteration",
     [](PlanT &p) {
       loopOf(p).count = 1;
       cOf(callIn(p)) = moving(1024 + 24, 16, 64, 488);
     },
     "16 bytes at offset 1536 and 16 bytes at offset 1048 overlap"},
    {"writesWhatIsInFlight", [](PlanT &p) { zeroInFlight(p, 5, 36, -4); },
     "command 1 (Loop): writes 4 bytes at offset 36, and the collective of "
     "command 0 (request 5)"},
    {"writesWhatIsInFlightAhead",
     [](PlanT &p) {
       reduceElsewhere(p);
       zeroInFlight(p, 4, 1012, 4);
     },
     "command 1 (Loop): writes 4 bytes at offset 1012, and the collective of "
     "command 0 (request 5)"},
};

class RefusedLoop : public testing::TestWithParam<Lie> {};

TEST_P(RefusedLoop, NamesThePlaceAndTheValues) {
  expectRefused(GetParam(), loopPlan());
}

INSTANTIATE_TEST_SUITE_P(VerifyLoops, RefusedLoop, testing::ValuesIn(lies),
                         [](const auto &info) { return info.param.name; });

// Buffers may move as far as they fit, and past each other.
TEST(VerifyLoops, AcceptsWhatFits) {
  auto check = [](const char *what,
                  const std::function<void(PlanT &)> &change) {
    SCOPED_TRACE(what);
    PlanT plan = loopPlan();
    change(plan);
    expectAccepted(plan);
  };
  check("as it is", [](PlanT &) {});
  check("once", [](PlanT &p) { loopOf(p).count = 1; });
  check("to the first byte", [](PlanT &p) { outputIn(p) = moving(12, 4, -4); });
  check("to the last byte", [](PlanT &p) { outputIn(p) = moving(4080, 4, 4); });
  check("to the last byte of the last microbatch",
        [](PlanT &p) { outputIn(p) = moving(4072, 4, 4, 8); });
  check("from the last byte on",
        [](PlanT &p) { outputIn(p) = moving(4092, 4, -4); });
  check("both at one pace",
        [](PlanT &p) { cOf(callIn(p)) = moving(1040, 16, 64); });
  check("between two iterations",
        [](PlanT &p) { cOf(callIn(p)) = moving(1552, 16, -48); });
  check("past it in some microbatch",
        [](PlanT &p) { cOf(callIn(p)) = moving(848, 16, 64, 512); });
  check("one iteration short of it",
        [](PlanT &p) { cOf(callIn(p)) = moving(1280, 16, 64); });
  check("one iteration short of it from behind",
        [](PlanT &p) { cOf(callIn(p)) = moving(1792, 16, -64); });
  check("behind what is in flight",
        [](PlanT &p) { zeroInFlight(p, 4, 36, -4); });
  check("up to what is in flight", [](PlanT &p) {
    reduceElsewhere(p);
    zeroInFlight(p, 3, 1012, 4);
  });
}

} // namespace
} // namespace polyrank::runtime::test
