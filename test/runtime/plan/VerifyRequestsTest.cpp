// What the plan verifier refuses in collectives that are started and waited
// for.

#include "test/runtime/PlanParts.h"
#include "test/runtime/plan/Lies.h"

namespace polyrank::runtime::test {
namespace {

auto &update(PlanT &plan) {
  return programOf(plan).segments[updateSegment]->commands;
}

template <typename Body>
void insert(PlanT &plan, size_t at, Body body) {
  auto command = std::make_unique<CommandT>();
  command->body.Set(std::move(body));
  auto &commands = update(plan);
  commands.insert(commands.begin() + static_cast<ptrdiff_t>(at),
                  std::move(command));
}

WaitT waitFor(uint32_t request) {
  WaitT wait;
  wait.request = request;
  return wait;
}

CollectiveT &collectiveAt(PlanT &plan, int number) {
  return *commandOf(plan, updateSegment, number).body.AsCollective();
}

/// The update: 0 starts the gradient's reduction, in place (24 bytes at 0),
/// under request 5; 1 totals the loss (4 bytes at 64), 2 reduces it; 3 waits; 4
/// descends. All in the shared region.
PlanT startedPlan() {
  PlanT plan = goodPlan();
  programOf(plan).shared_size = 8192;
  startEarly(plan, updateSegment, 0, 3, 5);
  return plan;
}

/// The reduction becomes an all-gather of 24 bytes at 1024 to 48 at 2048.
void gather(PlanT &plan) {
  CollectiveT &collective = collectiveOf(plan);
  collective.kind = CollectiveKind::AllGather;
  collective.reduction = Reduction::None;
  *transferOf(plan).input = bufferAt(1024, 24, 0, Region::Shared);
  *transferOf(plan).output = bufferAt(2048, 48, 0, Region::Shared);
}

CopyT copyBetween(const BufferRef &from, const BufferRef &to) {
  CopyT copy;
  copy.element = 4;
  copy.inner = static_cast<int64_t>(to.size() / 4);
  copy.input = std::make_unique<BufferRef>(from);
  copy.output = std::make_unique<BufferRef>(to);
  return copy;
}
BufferRef shared(uint64_t offset, uint64_t size = 8, uint64_t stride = 0) {
  return bufferAt(offset, size, stride, Region::Shared);
}

/// A GEMM whose operands are disjoint, from 4096 on, in 64 bytes each.
CallT product() {
  CallT result = call(gemmOf(2, 2, 2), shared(4096, 16), shared(4160, 16),
                      shared(4224, 16));
  result.scratch = std::make_unique<BufferRef>(shared(4288, 64));
  return result;
}

/// Turns the two rows into a group.
CallT grouped() {
  CallT result = product();
  CpuGemmT &gemm = *result.body.AsCpuGemm();
  gemm.grouped = GemmGrouping::Rows;
  gemm.batch = {GemmBatch(1, 0, 0, 0)};
  result.reads.insert(result.reads.end(), {shared(4352, 16), shared(4416, 16)});
  return result;
}

LaunchT zeroAt(const BufferRef &input, const BufferRef &output) {
  LaunchT launch;
  launch.body.Set(cpuLaunch(1));
  launch.inputs = {input}, launch.outputs = {output};
  return launch;
}

/// Inserts a second collective, of 24 bytes, after the start of the gather.
void insertCopyOfAll(PlanT &plan, uint64_t from, uint64_t to,
                     uint32_t request = 0) {
  CollectiveT second;
  second.kind = CollectiveKind::Broadcast;
  second.id = 9;
  second.request = request;
  auto transfer = std::make_unique<TransferT>();
  transfer->inner = 6;
  transfer->input = std::make_unique<BufferRef>(shared(from, 24));
  transfer->output = std::make_unique<BufferRef>(shared(to, 24));
  second.transfers.push_back(std::move(transfer));
  insert(plan, 1, std::move(second));
}

const char *const readsWritten =
    "which no command before it has waited for, writes";
const char *const writesRead =
    "which no command before it has waited for, reads";

const Lie lies[] = {
    {"waitForNothing", [](PlanT &p) { insert(p, 1, waitFor(9)); },
     "command 1 (Wait): waits for request 9, under which no command before it"},
    {"waitForNoRequest", [](PlanT &p) { insert(p, 3, waitFor(0)); },
     "waits for request 0, under which no command"},
    {"waitBeforeTheStart",
     [](PlanT &p) { std::swap(update(p)[0], update(p)[3]); },
     "command 0 (Wait, linear.gradient): waits for request 5, under which no "
     "command"},
    {"waitTwice", [](PlanT &p) { insert(p, 4, waitFor(5)); },
     "waits for request 5 of command 0, which a command before it has waited"},
    {"startTwiceAtOnce", [](PlanT &p) { collectiveAt(p, 2).request = 5; },
     "command 2 (Collective, loss): starts a collective under request 5, as "
     "command 0 does"},
    {"startTwiceInARow",
     [](PlanT &p) {
       update(p)[2].swap(update(p)[3]);
       collectiveAt(p, 3).request = 5;
       insert(p, 4, waitFor(5));
     },
     "starts a collective under request 5, as command 0 does"},
    {"neverWaitedFor", [](PlanT &p) { update(p).erase(update(p).begin() + 3); },
     "reads 24 bytes at offset 0, and the collective of command 0 (request 5)"},
    {"inFlightAtTheEnd", [](PlanT &p) { collectiveAt(p, 2).request = 6; },
     "command 2 (Collective, loss): no command of the segment waits for its "
     "request 6"},
    {"waitInTheNextSegment",
     [](PlanT &p) {
       auto moved = std::move(update(p)[0]);
       update(p).erase(update(p).begin());
       programOf(p).segments[nextSegment]->commands.push_back(std::move(moved));
     },
     "no command of the segment waits for its request 5"},
    {"kernelReads",
     [](PlanT &p) { insert(p, 1, zeroAt(shared(8), shared(4096))); },
     readsWritten},
    {"kernelWrites",
     [](PlanT &p) { insert(p, 1, zeroAt(shared(4096), shared(8))); },
     "command 1 (Launch): writes 8 bytes at offset 8"},
    {"kernelWritesAnInput",
     [](PlanT &p) {
       gather(p);
       insert(p, 1, zeroAt(shared(4096), shared(1040)));
     },
     writesRead},
    {"productReadsA",
     [](PlanT &p) {
       CallT gemm = product();
       aOf(gemm) = shared(8, 16);
       insert(p, 1, std::move(gemm));
     },
     readsWritten},
    {"productReadsB",
     [](PlanT &p) {
       CallT gemm = product();
       bOf(gemm) = shared(8, 16);
       insert(p, 1, std::move(gemm));
     },
     readsWritten},
    {"productReadsGroups",
     [](PlanT &p) {
       CallT gemm = grouped();
       gemm.reads[2] = shared(8, 16);
       insert(p, 1, std::move(gemm));
     },
     readsWritten},
    {"productReadsIds",
     [](PlanT &p) {
       CallT gemm = grouped();
       gemm.reads[3] = shared(8, 16);
       insert(p, 1, std::move(gemm));
     },
     readsWritten},
    {"productWrites",
     [](PlanT &p) {
       gather(p);
       CallT gemm = product();
       cOf(gemm) = shared(1032, 16);
       insert(p, 1, std::move(gemm));
     },
     writesRead},
    {"productWritesScratch",
     [](PlanT &p) {
       gather(p);
       CallT gemm = product();
       *gemm.scratch = shared(1024, 64);
       insert(p, 1, std::move(gemm));
     },
     writesRead},
    {"copyReads",
     [](PlanT &p) {
       gather(p);
       insert(p, 1, copyBetween(shared(2088), shared(4096)));
     },
     readsWritten},
    {"copyWrites",
     [](PlanT &p) {
       gather(p);
       insert(p, 1, copyBetween(shared(4096), shared(1040)));
     },
     "writes 8 bytes at offset 1040, and the collective of command 0 (request "
     "5), which no command before it has waited for, reads 24 bytes at offset "
     "1024"},
    {"collectiveReads",
     [](PlanT &p) {
       gather(p);
       insertCopyOfAll(p, 2072, 4096);
     },
     readsWritten},
    {"collectiveWrites",
     [](PlanT &p) {
       gather(p);
       insertCopyOfAll(p, 4096, 1044);
     },
     writesRead},
    {"startedCollectiveReads",
     [](PlanT &p) {
       gather(p);
       insertCopyOfAll(p, 2072, 4096, 6);
       insert(p, 2, waitFor(6));
     },
     readsWritten},
    {"startedCollectiveWritesTheSame",
     [](PlanT &p) {
       gather(p);
       insertCopyOfAll(p, 4096, 2072, 6);
       insert(p, 2, waitFor(6));
     },
     readsWritten},
    {"startedBeforeAndWaitedForLater",
     [](PlanT &p) { // the other wait ends another collective
       gather(p);
       insertCopyOfAll(p, 4096, 4160, 6);
       insert(p, 2, waitFor(6));
       insert(p, 3, copyBetween(shared(2088), shared(4096)));
     },
     "command 0 (request 5)"},
    {"behindAnotherWhoseRangeIsShorter",
     [](PlanT &p) { // the first to begin ends last in microbatch 1
       gather(p);
       *transferOf(p).output = shared(2048, 48, 512);
       insertCopyOfAll(p, 4096, 2112, 6);
       insert(p, 2, copyBetween(shared(2544, 8, 16), shared(6000)));
       insert(p, 3, waitFor(6));
     },
     readsWritten},
    {"inALaterMicrobatchAlone",
     [](PlanT &p) {
       gather(p);
       *transferOf(p).output = shared(2048, 48, 512);
       insert(p, 1, copyBetween(shared(2544, 8, 16), shared(4096)));
     },
     readsWritten},
    {"aBlockOfIt",
     [](PlanT &p) {
       gather(p);
       insert(p, 1, copyBetween(asBlock(shared(2016, 8), 1, 32), shared(4096)));
     },
     readsWritten},
};

class RefusedRequest : public testing::TestWithParam<Lie> {};

TEST_P(RefusedRequest, NamesThePlaceAndTheValues) {
  expectRefused(GetParam(), startedPlan());
}

INSTANTIATE_TEST_SUITE_P(VerifyRequests, RefusedRequest,
                         testing::ValuesIn(lies),
                         [](const auto &info) { return info.param.name; });

TEST(VerifyRequests, AcceptsWhatDoesNotDisturbACollectiveInFlight) {
  auto check = [](const char *what,
                  const std::function<void(PlanT &)> &change) {
    SCOPED_TRACE(what);
    PlanT plan = startedPlan();
    change(plan);
    expectAccepted(plan);
  };
  check("a start and a wait", [](PlanT &) {});
  check("its inputs are read", [](PlanT &p) {
    gather(p);
    insert(p, 1, copyBetween(shared(1032), shared(4096)));
    insertCopyOfAll(p, 1024, 4160);
  });
  check("what lies beside it is written", [](PlanT &p) {
    gather(p);
    for (uint64_t offset : {1016, 1048, 2040, 2096})
      insert(p, 1, copyBetween(shared(4096), shared(offset)));
  });
  check("another region", [](PlanT &p) {
    insert(p, 1, copyBetween(shared(4096), bufferAt(0, 8)));
  });
  check("what it read is written once it is over", [](PlanT &p) {
    gather(p);
    insert(p, 4, copyBetween(shared(2048), shared(1024)));
  });
  check("waits in another order than starts", [](PlanT &p) {
    gather(p);
    insertCopyOfAll(p, 4096, 4160, 6);
    insert(p, 4, waitFor(6));
    std::swap(update(p)[4], update(p)[5]);
  });
  check("requests of another segment's numbers", [](PlanT &p) {
    auto &commands = programOf(p).segments[nextSegment]->commands;
    for (int number : {0, 3}) {
      auto command = std::make_unique<CommandT>(*update(p)[number]);
      commands.push_back(std::move(command));
    }
  });
  check("products that read and write elsewhere",
        [](PlanT &p) { insert(p, 1, product()); });
  check("the same microbatch lies elsewhere", [](PlanT &p) {
    gather(p);
    *transferOf(p).output = shared(2048, 48, 512);
    insert(p, 1, copyBetween(shared(2560 + 48, 8, 512), shared(4096)));
  });
}

} // namespace
} // namespace polyrank::runtime::test
