// What the plan verifier refuses in commands; the message has the place and
// both values.

#include "test/runtime/plan/Lies.h"

namespace polyrank::runtime::test {
namespace {

/// The plan's reduction becomes an all-gather of blocks of its buffer.
void gatherBlock(PlanT &plan, uint32_t axes, uint64_t step) {
  CollectiveT &collective = collectiveOf(plan);
  collective.kind = CollectiveKind::AllGather;
  collective.reduction = Reduction::None;
  TransferT &transfer = *collective.transfers[0];
  transfer.inner /= 2;
  const BufferRef whole = *transfer.output;
  *transfer.input = asBlock(BufferRef(whole.offset(), whole.size() / 2, 0, 0, 0,
                                      0, 0, whole.region()),
                            axes, step);
}

/// The plan's reduction becomes another collective, between two buffers of the
/// shared region.
TransferT &become(PlanT &plan, CollectiveKind kind, int64_t outer,
                  int64_t inner, uint64_t inputBytes, uint64_t outputBytes) {
  programOf(plan).shared_size = 4096;
  CollectiveT &collective = collectiveOf(plan);
  collective.kind = kind;
  bool reduces = kind == CollectiveKind::AllReduce ||
                 kind == CollectiveKind::ReduceScatter ||
                 kind == CollectiveKind::HaloAdd;
  collective.reduction = reduces ? Reduction::Sum : Reduction::None;
  TransferT &transfer = transferOf(plan);
  transfer.outer = outer, transfer.inner = inner;
  *transfer.input = bufferAt(1024, inputBytes, 0, Region::Shared);
  *transfer.output = bufferAt(2048, outputBytes, 0, Region::Shared);
  return transfer;
}

CopyT copyOf(const BufferRef &input, const BufferRef &output, int64_t outer,
             int64_t inner) {
  CopyT copy;
  copy.element = 4;
  copy.outer = outer, copy.inner = inner;
  copy.input = std::make_unique<BufferRef>(input);
  copy.output = std::make_unique<BufferRef>(output);
  return copy;
}

/// Copies one of two parts of two elements.
CopyT partOf(const BufferRef &input, const BufferRef &output, AxisRef axis) {
  CopyT copy = copyOf(input, output, 1, 2);
  copy.count = 2;
  copy.axes = std::make_unique<AxisListT>();
  copy.axes->axes = {axis};
  return copy;
}

template <typename Body>
void append(PlanT &plan, Body body) {
  auto command = std::make_unique<CommandT>();
  command->body.Set(std::move(body));
  programOf(plan).segments[0]->commands.push_back(std::move(command));
}

const uint64_t huge = UINT64_MAX - 63;

const Lie lies[] = {
    {"kernelNumber", [](PlanT &p) { launchOf(p).kernel = 7; }, "kernel 7 of 7"},
    {"negativeRange", [](PlanT &p) { cpuLaunchOf(p).range = -1; }, "range -1"},
    {"hugeRange",
     [](PlanT &p) { cpuLaunchOf(p).range = (int64_t(1) << 48) + 1; },
     "range 281474976710657"},
    {"noGrain", [](PlanT &p) { cpuLaunchOf(p).grain = 0; }, "grains of 0"},
    {"launchBuffer",
     [](PlanT &p) {
       launchOf(p).inputs[1] =
           BufferRef(0, 1 << 20, 0, 0, 0, 0, 0, Region::Private);
     },
     "command 2 (Launch, loss), input 1"},
    {"launchOutput",
     [](PlanT &p) { launchOf(p).outputs[0] = bufferAt(500, 32); },
     "command 2 (Launch, loss), output 0"},
    {"launchOperands",
     [](PlanT &p) { launchOf(p).inputs.resize(65537, launchOf(p).inputs[0]); },
     "65537 operands"},
    {"launchStride",
     [](PlanT &p) {
       auto &buffer = launchOf(p).inputs[1];
       buffer = withStride(buffer, 1 << 20);
     },
     "stride"},
    {"launchSlotsWithoutAStride",
     [](PlanT &p) {
       auto &buffer = launchOf(p).inputs[1];
       buffer = withSlots(withStride(buffer, 0), 2);
     },
     "2 slots without a stride"},
    {"launchSlotsBehindTheRegion",
     [](PlanT &p) {
       auto &buffer = launchOf(p).inputs[1];
       buffer = withSlots(withStride(buffer, 1 << 20), 2);
     },
     "over 2 slots"},
    {"launchMoreSlotsThanMicrobatches",
     [](PlanT &p) {
       auto &buffer = launchOf(p).inputs[1];
       buffer = withSlots(withStride(buffer, 1 << 20), 9);
     },
     "over 2 slots"},
    {"launchStrideOverflow",
     [](PlanT &p) {
       auto &buffer = launchOf(p).inputs[1];
       buffer = withStride(buffer, UINT64_MAX);
     },
     "stride"},
    {"phase", [](PlanT &p) { commandOf(p, firstSegment, 1).phase = Phase(3); },
     "segment 'first', command 1 (gemm, linear): phase 3 does not exist"},
    {"collectiveKind",
     [](PlanT &p) { collectiveOf(p).kind = CollectiveKind(8); }, "kind 8"},
    {"collectiveNegativeKind",
     [](PlanT &p) { collectiveOf(p).kind = CollectiveKind(-1); }, "kind -1"},
    {"collectiveDtype",
     [](PlanT &p) { collectiveOf(p).dtype = ElementType(9); },
     "(Collective, linear.gradient): dtype 9"},
    {"collectiveGroup", [](PlanT &p) { collectiveOf(p).group = 2; },
     "group 2 of 2"},
    {"collectiveNegativeReduction",
     [](PlanT &p) { collectiveOf(p).reduction = Reduction(-1); },
     "all_reduce with reduction -1"},
    {"collectiveUnknownReduction",
     [](PlanT &p) { collectiveOf(p).reduction = Reduction(4); },
     "all_reduce with reduction 4"},
    {"broadcastOfASum",
     [](PlanT &p) { collectiveOf(p).kind = CollectiveKind::Broadcast; },
     "broadcast with reduction 1"},
    {"collectiveReduction",
     [](PlanT &p) { collectiveOf(p).reduction = Reduction::None; },
     "all_reduce with reduction"},
    {"collectiveSize",
     [](PlanT &p) { collectiveOf(p).transfers[0]->inner += 1; }, "moves"},
    {"collectiveOutputSize",
     [](PlanT &p) { become(p, CollectiveKind::AllReduce, 1, 6, 24, 28); },
     ", output: moves 24 bytes, its buffer has 28"},
    {"scatterSize",
     [](PlanT &p) { become(p, CollectiveKind::ReduceScatter, 1, 6, 24, 24); },
     ", input: moves 48 bytes, its buffer has 24"},
    {"collectiveOfNothing",
     [](PlanT &p) { become(p, CollectiveKind::AllReduce, 1, 0, 0, 0); },
     "an extent of 0"},
    {"collectiveOfNoRows",
     [](PlanT &p) { become(p, CollectiveKind::AllGather, 0, 6, 0, 0); },
     "an extent of 0"},
    {"allToAllOfNothing",
     [](PlanT &p) {
       become(p, CollectiveKind::AllToAll, 1, 6, 0, 0).split_first = true;
       transferOf(p).x = 0;
     },
     "an extent of 0"},
    {"allToAllWithoutMiddle",
     [](PlanT &p) {
       become(p, CollectiveKind::AllToAll, 1, 6, 0, 0).y = 2;
       transferOf(p).middle = 0;
     },
     "an extent of 0"},
    {"allToAllOfNoOther",
     [](PlanT &p) {
       become(p, CollectiveKind::AllToAll, 1, 6, 0, 0).split_first = true;
       transferOf(p).x = 2, transferOf(p).y = 0;
     },
     "an extent of 0"},
    {"reduceWithX",
     [](PlanT &p) { become(p, CollectiveKind::AllReduce, 1, 3, 24, 24).x = 2; },
     "x=2 middle=1 y=1 are for an all_to_all"},
    {"reduceWithMiddle",
     [](PlanT &p) {
       become(p, CollectiveKind::AllReduce, 1, 3, 24, 24).middle = 2;
     },
     "x=1 middle=2 y=1 are for an all_to_all"},
    {"gatherWithY",
     [](PlanT &p) { become(p, CollectiveKind::AllGather, 1, 3, 24, 48).y = 2; },
     "x=1 middle=1 y=2 are for an all_to_all"},
    {"reduceOfRows",
     [](PlanT &p) { become(p, CollectiveKind::AllReduce, 2, 3, 24, 24); },
     "outer=2 instead of 1"},
    {"permuteOfRows",
     [](PlanT &p) {
       become(p, CollectiveKind::Permute, 2, 3, 24, 24);
       collectiveOf(p).permutation = {1, 0};
     },
     "outer=2 instead of 1"},
    {"collectivePrivateOutput",
     [](PlanT &p) {
       auto &buffer = *collectiveOf(p).transfers[0]->output;
       buffer = inRegion(buffer, Region::Private);
     },
     "private"},
    {"collectiveStrideMisaligned",
     [](PlanT &p) {
       auto &buffer = *collectiveOf(p).transfers[0]->input;
       buffer = withStride(buffer, 2);
     },
     "stride 2 and step 0 are not multiples of its alignment 4"},
    {"collectivePrivate",
     [](PlanT &p) {
       auto &buffer = *collectiveOf(p).transfers[0]->input;
       buffer = inRegion(buffer, Region::Private);
     },
     "private"},
    {"collectiveMisaligned",
     [](PlanT &p) { move(collectiveOf(p).transfers[0]->input, 2); },
     "alignment 4"},
    {"collectiveOverlap",
     [](PlanT &p) { move(collectiveOf(p).transfers[0]->input, 4); }, "overlap"},
    {"reduceInPlaceOfAnotherStride",
     [](PlanT &p) {
       auto &buffer = *transferOf(p).output;
       buffer = withStride(buffer, 4);
     },
     "overlap"},
    {"reduceIntoAnotherSlot",
     [](PlanT &p) {
       auto &in = *transferOf(p).input, &out = *transferOf(p).output;
       in = withSlots(withStride(in, 64), 2), out = withStride(out, 64);
     },
     "overlap"},
    {"reduceIntoASlotOfAnotherDistance",
     [](PlanT &p) {
       auto &in = *transferOf(p).input, &out = *transferOf(p).output;
       in = withSlots(withStride(in, 64), 2);
       out = withSlots(withStride(out, 32), 2);
     },
     "overlap"},
    {"reduceOfABlockIntoTheWhole",
     [](PlanT &p) {
       auto &buffer = *transferOf(p).input;
       buffer = asBlock(buffer, 1, 64);
     },
     "overlap"},
    {"reduceOfABlockOfAnotherStep",
     [](PlanT &p) {
       auto &in = *transferOf(p).input, &out = *transferOf(p).output;
       in = asBlock(in, 1, 64), out = asBlock(out, 1, 32);
     },
     "overlap"},
    {"permuteInPlace",
     [](PlanT &p) {
       become(p, CollectiveKind::Permute, 1, 6, 24, 24);
       collectiveOf(p).permutation = {1, 0};
       *transferOf(p).output = *transferOf(p).input;
     },
     "overlap"},
    {"allToAllInPlace",
     [](PlanT &p) {
       become(p, CollectiveKind::AllToAll, 1, 3, 24, 24).y = 2;
       *transferOf(p).output = *transferOf(p).input;
     },
     "overlap"},
    {"gatherOfRowsInPlace",
     [](PlanT &p) {
       gatherBlock(p, 1, 12);
       transferOf(p).outer = 3, transferOf(p).inner = 1;
     },
     "overlap"},
    {"gatherInPlaceOfABlock",
     [](PlanT &p) {
       gatherBlock(p, 1, 12);
       auto &buffer = *transferOf(p).output;
       buffer = asBlock(buffer, 1, 24);
     },
     "overlap"},
    {"gatherInPlaceWithoutABlock", [](PlanT &p) { gatherBlock(p, 0, 0); },
     "overlap"},
    {"blockOfNoGroup",
     [](PlanT &p) {
       auto &buffer = *launchOf(p).inputs.data();
       buffer = asBlock(buffer, 3, 4);
     },
     "a block over group 2 of 2"},
    {"stepOverNoAxes",
     [](PlanT &p) {
       auto &buffer = *launchOf(p).inputs.data();
       buffer = asBlock(buffer, 0, 4);
     },
     "a step of 4 over no axes"},
    {"blockOutside",
     [](PlanT &p) {
       auto &buffer = *launchOf(p).inputs.data();
       buffer = asBlock(buffer, 1, 1 << 20);
     },
     "and step 1048576 over 2 blocks end at"},
    {"blockOverflow",
     [](PlanT &p) {
       auto &buffer = *launchOf(p).inputs.data();
       buffer = asBlock(buffer, 1, huge);
     },
     "behind"},
    {"blockMisaligned",
     [](PlanT &p) {
       auto &buffer = *collectiveOf(p).transfers[0]->input;
       buffer = asBlock(buffer, 1, 2);
     },
     "and step 2 are not multiples of its alignment 4"},
    {"gatherOfAnotherGroupsBlock", [](PlanT &p) { gatherBlock(p, 2, 12); },
     "overlap"},
    {"gatherOfAnotherBlock", [](PlanT &p) { gatherBlock(p, 1, 8); }, "overlap"},
    {"gatherSize",
     [](PlanT &p) {
       collectiveOf(p).kind = CollectiveKind::AllGather;
       collectiveOf(p).reduction = Reduction::None;
     },
     "output: moves 48 bytes"},
    {"allToAllUneven",
     [](PlanT &p) {
       collectiveOf(p).kind = CollectiveKind::AllToAll;
       collectiveOf(p).reduction = Reduction::None;
     },
     "over 2 ranks"},
    {"allToAllUnevenX",
     [](PlanT &p) {
       become(p, CollectiveKind::AllToAll, 1, 1, 24, 24).split_first = true;
       transferOf(p).x = 3, transferOf(p).y = 2;
     },
     "splits an extent of 3 over 2 ranks"},
    {"allToAllUnevenY",
     [](PlanT &p) {
       become(p, CollectiveKind::AllToAll, 1, 1, 24, 24).x = 2;
       transferOf(p).y = 3;
     },
     "splits an extent of 3 over 2 ranks"},
    {"permutationTooShort",
     [](PlanT &p) {
       become(p, CollectiveKind::Permute, 1, 6, 24, 24);
       collectiveOf(p).permutation = {0};
     },
     "has sources for 1 ranks in a group of 2"},
    {"permutationTooLong",
     [](PlanT &p) {
       become(p, CollectiveKind::Permute, 1, 6, 24, 24);
       collectiveOf(p).permutation = {0, 1, 1};
     },
     "has sources for 3 ranks in a group of 2"},
    {"permutationMissing",
     [](PlanT &p) { become(p, CollectiveKind::Permute, 1, 6, 24, 24); },
     "has sources for 0 ranks in a group of 2"},
    {"permutationNegative",
     [](PlanT &p) {
       become(p, CollectiveKind::Permute, 1, 6, 24, 24);
       collectiveOf(p).permutation = {0, -1};
     },
     "takes from rank -1 of a group of 2"},
    {"permutation",
     [](PlanT &p) {
       collectiveOf(p).kind = CollectiveKind::Permute;
       collectiveOf(p).reduction = Reduction::None;
       collectiveOf(p).permutation = {0, 0};
     },
     "the permutation takes from rank 0 twice"},
    {"permutationBeyond",
     [](PlanT &p) {
       collectiveOf(p).kind = CollectiveKind::Permute;
       collectiveOf(p).reduction = Reduction::None;
       collectiveOf(p).permutation = {0, 2};
     },
     "takes from rank 2 of a group of 2"},
    {"haloSize",
     [](PlanT &p) {
       collectiveOf(p).kind = CollectiveKind::Halo;
       collectiveOf(p).reduction = Reduction::None;
       collectiveOf(p).transfers[0]->low = 1;
     },
     ", output"},
    {"haloNegativeLow",
     [](PlanT &p) { become(p, CollectiveKind::Halo, 1, 6, 24, 20).low = -1; },
     "borders of -1 and 0"},
    {"haloOfRows",
     [](PlanT &p) { become(p, CollectiveKind::Halo, 2, 3, 24, 28).low = 1; },
     ", output: moves 32 bytes, its buffer has 28"},
    {"haloAddOfRows",
     [](PlanT &p) {
       become(p, CollectiveKind::HaloAdd, 2, 3, 28, 24).high = 1;
     },
     ", input: moves 32 bytes, its buffer has 28"},
    {"haloNegative",
     [](PlanT &p) {
       collectiveOf(p).kind = CollectiveKind::HaloAdd;
       collectiveOf(p).transfers[0]->high = -1;
     },
     "borders of 0 and -1"},
    {"haloOverflow",
     [](PlanT &p) {
       collectiveOf(p).kind = CollectiveKind::HaloAdd;
       collectiveOf(p).transfers[0]->high = INT64_MAX;
     },
     "extents whose product is too large"},
    {"haloOfMaxima",
     [](PlanT &p) {
       collectiveOf(p).kind = CollectiveKind::HaloAdd;
       collectiveOf(p).reduction = Reduction::Max;
     },
     "borders are summed"},
    {"bordersOfAnAllReduce",
     [](PlanT &p) { collectiveOf(p).transfers[0]->low = 1; },
     "borders of 1 and 0"},
    {"upperBordersOfAnAllReduce",
     [](PlanT &p) { collectiveOf(p).transfers[0]->high = 1; },
     "borders of 0 and 1"},
    {"reason", [](PlanT &p) { collectiveOf(p).why = 2; }, "reason 2 of 2"},
    {"reasonOfNone",
     [](PlanT &p) {
       programOf(p).reasons.clear();
       collectiveOf(p).why = 1;
     },
     "reason 1 of 0"},
    {"copyInputSize",
     [](PlanT &p) {
       append(p, copyOf(bufferAt(0, 12), bufferAt(64, 8), 1, 2));
     },
     ", input: moves 8 bytes, its buffer has 12"},
    {"copyOutputSize",
     [](PlanT &p) {
       append(p, copyOf(bufferAt(0, 8), bufferAt(64, 12), 1, 2));
     },
     ", output: moves 8 bytes, its buffer has 12"},
    {"copyPartSize",
     [](PlanT &p) {
       append(p, partOf(bufferAt(0, 8), bufferAt(64, 8), AxisRef(1, 1, 2)));
     },
     ", input: moves 16 bytes, its buffer has 8"},
    {"copyAxes",
     [](PlanT &p) {
       append(p, partOf(bufferAt(0, 16), bufferAt(64, 8), AxisRef(2, 1, 2)));
     },
     "axis number 2"},
    {"copyInPlace",
     [](PlanT &p) { append(p, copyOf(bufferAt(0, 8), bufferAt(4, 8), 1, 2)); },
     "8 bytes at offset 0 and 8 bytes at offset 4 overlap"},
    {"copyInputOutside",
     [](PlanT &p) {
       append(p, copyOf(bufferAt(508, 8), bufferAt(0, 8), 1, 2));
     },
     ", input: 8 bytes at offset 508"},
    {"copyOutputOutside",
     [](PlanT &p) {
       append(p, copyOf(bufferAt(0, 8), bufferAt(508, 8), 1, 2));
     },
     ", output: 8 bytes at offset 508"},
    {"copyInputMisaligned",
     [](PlanT &p) { append(p, copyOf(bufferAt(2, 8), bufferAt(64, 8), 1, 2)); },
     ", input: offset 2"},
    {"copyOutputMisaligned",
     [](PlanT &p) { append(p, copyOf(bufferAt(0, 8), bufferAt(66, 8), 1, 2)); },
     ", output: offset 66"},
    {"copyOfNoRows",
     [](PlanT &p) { append(p, copyOf(bufferAt(0, 0), bufferAt(64, 0), 0, 2)); },
     "extents 0 x 1 x 2"},
    {"copyOfNothing",
     [](PlanT &p) { append(p, copyOf(bufferAt(0, 0), bufferAt(64, 0), 1, 0)); },
     "extents 1 x 1 x 0"},
    {"copyElement",
     [](PlanT &p) {
       CopyT copy = copyOf(bufferAt(0, 6), bufferAt(66, 6), 1, 2);
       copy.element = 3;
       append(p, std::move(copy));
     },
     "elements of 3 bytes"},
    {"copyCount",
     [](PlanT &p) {
       CopyT copy = copyOf(bufferAt(0, 16), bufferAt(64, 8), 1, 2);
       copy.count = 2;
       append(p, std::move(copy));
     },
     "one of 2 parts by axes with 1"},
    {"copyOfNoParts",
     [](PlanT &p) {
       CopyT copy = copyOf(bufferAt(0, 8), bufferAt(64, 8), 1, 2);
       copy.count = 0;
       append(p, std::move(copy));
     },
     "extents 1 x 0 x 2"},
    {"copyOverflow",
     [](PlanT &p) {
       append(p, copyOf(bufferAt(0, 0), bufferAt(64, 0), INT64_MAX, 4));
     },
     "moves"},
};

class RefusedCommand : public testing::TestWithParam<Lie> {};

TEST_P(RefusedCommand, NamesThePlaceAndTheValues) { expectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(VerifyCommands, RefusedCommand,
                         testing::ValuesIn(lies),
                         [](const auto &info) { return info.param.name; });

TEST(VerifyCommands, AcceptsEveryKindOfCollective) {
  auto check = [](CollectiveKind kind, int64_t outer, int64_t inner,
                  uint64_t inputBytes, uint64_t outputBytes,
                  const std::function<void(TransferT &)> &change = {}) {
    SCOPED_TRACE(EnumNameCollectiveKind(kind));
    PlanT plan = goodPlan();
    TransferT &transfer =
        become(plan, kind, outer, inner, inputBytes, outputBytes);
    if (kind == CollectiveKind::Permute)
      collectiveOf(plan).permutation = {1, 0};
    if (change)
      change(transfer);
    expectAccepted(plan);
  };
  auto inPlace = [](TransferT &t) { *t.output = *t.input; };
  for (CollectiveKind kind :
       {CollectiveKind::AllReduce, CollectiveKind::Broadcast}) {
    check(kind, 1, 6, 24, 24);
    check(kind, 1, 6, 24, 24, inPlace);
  }
  check(CollectiveKind::Permute, 1, 6, 24, 24);
  check(CollectiveKind::ReduceScatter, 3, 2, 48, 24);
  check(CollectiveKind::AllGather, 3, 2, 24, 48);
  check(CollectiveKind::AllToAll, 5, 2, 240, 240, [](TransferT &t) {
    t.split_first = true;
    t.x = 2, t.y = 3;
  });
  check(CollectiveKind::AllToAll, 5, 2, 240, 240,
        [](TransferT &t) { t.x = 3, t.y = 2; });
  check(CollectiveKind::Halo, 2, 5, 40, 64,
        [](TransferT &t) { t.low = 1, t.high = 2; });
  check(CollectiveKind::HaloAdd, 2, 5, 64, 40,
        [](TransferT &t) { t.low = 1, t.high = 2; });
}

TEST(VerifyCommands, AcceptsASlotThatIsReducedInPlace) {
  PlanT plan = goodPlan();
  auto &in = *transferOf(plan).input, &out = *transferOf(plan).output;
  // The buffers have one slot: with only a stride they would end past the
  // region.
  in = withSlots(withStride(in, 1 << 20), 1), out = in;
  expectAccepted(plan);
}

TEST(VerifyCommands, AcceptsBlocksOfWhatIsGatheredOrScattered) {
  PlanT plan = goodPlan();
  gatherBlock(plan, 1, 12);
  expectAccepted(plan);
  CollectiveT &collective = collectiveOf(plan);
  collective.kind = CollectiveKind::ReduceScatter;
  collective.reduction = Reduction::Sum;
  std::swap(collective.transfers[0]->input, collective.transfers[0]->output);
  expectAccepted(plan);
}

TEST(VerifyCommands, AcceptsAGatherOfOneRankInPlace) {
  PlanT plan = goodPlan();
  auto alone = std::make_unique<AxisListT>();
  alone->axes = {AxisRef(0, 1, 1)};
  programOf(plan).groups.push_back(std::move(alone));
  become(plan, CollectiveKind::AllGather, 1, 6, 24, 24);
  collectiveOf(plan).group = 2;
  *transferOf(plan).output = *transferOf(plan).input;
  expectAccepted(plan);
}

TEST(VerifyCommands, AcceptsCopiesOfAWholeAndOfAPart) {
  PlanT plan = goodPlan();
  append(plan, copyOf(bufferAt(0, 24), bufferAt(64, 24), 2, 3));
  append(plan, partOf(bufferAt(0, 16), bufferAt(64, 8), AxisRef(1, 1, 2)));
  for (uint32_t element : {1, 2, 8}) {
    CopyT copy = copyOf(bufferAt(0, 8), bufferAt(64, 8), 1, 8 / element);
    copy.element = element;
    append(plan, std::move(copy));
  }
  expectAccepted(plan);
}

} // namespace
} // namespace polyrank::runtime::test
