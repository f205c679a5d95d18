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

/// Turns the 4 x 3 times 3 x 2 GEMM into two groups of rows, or of elements of
/// its inner dim.
CpuGemmT &group(PlanT &plan, bool ofRows) {
  programOf(plan).private_size = programOf(plan).shared_size = 4096;
  CpuGemmT &gemm = gemmOf(plan);
  gemm.grouped = ofRows ? GemmGrouping::Rows : GemmGrouping::Inner;
  gemm.implementation = GemmImplementation::Sgemm;
  gemm.batch = {GemmBatch(2, 0, ofRows ? 6 : 0, ofRows ? 0 : 8)};
  callOf(plan).reads = {bufferAt(1024, 48), bufferAt(1536, 48),
                        bufferAt(2560, ofRows ? 32 : 24), bufferAt(3072, 16)};
  callOf(plan).writes = {bufferAt(2048, 64)};
  return gemm;
}
/// The numbers of the groups, and the groups' ids.
BufferRef &groupsOf(PlanT &plan) { return callOf(plan).reads[2]; }
BufferRef &idsOf(PlanT &plan) { return callOf(plan).reads[3]; }

/// The GEMM adds to what c holds.
BufferRef &addendOf(PlanT &plan) {
  gemmOf(plan).beta = 1;
  callOf(plan).reads.push_back(cOf(callOf(plan)));
  return callOf(plan).reads.back();
}

void setScratch(PlanT &plan, uint64_t offset) {
  callOf(plan).scratch = std::make_unique<BufferRef>(bufferAt(offset, 64));
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
    {"negativeRange", [](PlanT &p) { launchOf(p).range = -1; }, "range -1"},
    {"hugeRange",
     [](PlanT &p) { launchOf(p).range = (int64_t(1) << 48) + 1; },
     "range 281474976710657"},
    {"noGrain", [](PlanT &p) { launchOf(p).grain = 0; }, "grains of 0"},
    {"launchBuffer",
     [](PlanT &p) {
       launchOf(p).inputs[1] = BufferRef(0, 1 << 20, 0, 0, 0, 0, 0, Region::Private);
     },
     "command 2 (Launch, loss), input 1"},
    {"launchOutput",
     [](PlanT &p) { launchOf(p).outputs[0] = bufferAt(500, 32); },
     "command 2 (Launch, loss), output 0"},
    {"launchOperands",
     [](PlanT &p) {
       launchOf(p).inputs.resize(65537, launchOf(p).inputs[0]);
     },
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
    {"gemmSize", [](PlanT &p) { gemmOf(p).k = 4, gemmOf(p).lda = 4; },
     "command 1 (gemm, linear), a"},
    {"gemmNegative", [](PlanT &p) { gemmOf(p).m = -1; }, "m=-1"},
    {"gemmWithoutColumns", [](PlanT &p) { gemmOf(p).n = 0; }, "n=0"},
    {"gemmWithoutTerms", [](PlanT &p) { gemmOf(p).k = 0; }, "k=0"},
    {"gemmPieces", [](PlanT &p) { gemmOf(p).pieces = 5; },
     "cut into 5 pieces, but its sides are 4 and 2"},
    {"gemmMisaligned", [](PlanT &p) { move(aOf(callOf(p)), 66); },
     ", a: offset 66"},
    {"gemmOutside", [](PlanT &p) { move(bOf(callOf(p)), 508); },
     ", b: 24 bytes at offset 508"},
    {"gemmWideRows", [](PlanT &p) { gemmOf(p).lda = 4; },
     ", a: 4 x 3 with leading dim 4 and its batch need 60 bytes"},
    {"gemmWideRowsOfB", [](PlanT &p) { gemmOf(p).ldb = 3; },
     ", b: 3 x 2 with leading dim 3"},
    {"gemmWideRowsOfC", [](PlanT &p) { gemmOf(p).ldc = 3; },
     ", c: 4 x 2 with leading dim 3"},
    {"gemmTransposedA", [](PlanT &p) { gemmOf(p).transpose_a = true; },
     ": a: leading dim 3 is less than its 4 columns"},
    {"gemmOverflow", [](PlanT &p) { gemmOf(p).m = INT64_MAX; }, ", a: "},
    {"gemmLeading", [](PlanT &p) { gemmOf(p).ldb = 1; }, "leading dim 1"},
    {"gemmLeadingHuge", [](PlanT &p) { gemmOf(p).ldc = INT64_MAX / 2; }, ", c"},
    {"gemmTransposed", [](PlanT &p) { gemmOf(p).transpose_b = true; },
     ": b: leading dim 2"},
    {"gemmBatch", [](PlanT &p) { gemmOf(p).batch.emplace_back(3, 0, 0, 4); },
     ", c"},
    {"gemmBatchNegative",
     [](PlanT &p) { gemmOf(p).batch.emplace_back(2, -8, 0, 4); }, ", a"},
    {"gemmBatchSameResult",
     [](PlanT &p) { gemmOf(p).batch.emplace_back(2, 0, 0, 0); },
     "0 elements apart"},
    {"gemmBatchOfNothing",
     [](PlanT &p) { gemmOf(p).batch.emplace_back(0, 0, 0, 8); },
     "a batch dim of 0 products"},
    {"gemmBatchOfB",
     [](PlanT &p) {
       cOf(callOf(p)) = bufferAt(256, 64);
       gemmOf(p).batch.emplace_back(2, 0, 6, 8);
     },
     ", b: 3 x 2 with leading dim 2 and its batch need 48 bytes"},
    {"gemmBatchDims",
     [](PlanT &p) { gemmOf(p).batch.resize(33, GemmBatch(1, 0, 0, 0)); },
     "33 batch dims"},
    {"gemmBatchProducts",
     [](PlanT &p) {
       programOf(p).private_size = 1 << 20;
       cOf(callOf(p)) = bufferAt(512, 1 << 19);
       gemmOf(p).batch.emplace_back(1 << 16, 0, 0, 1);
       gemmOf(p).batch.emplace_back(1 << 15, 0, 0, 1);
     },
     "a batch of 2147483648 products"},
    {"phase",
     [](PlanT &p) { commandOf(p, firstSegment, 1).phase = Phase(3); },
     "segment 'first', command 1 (gemm, linear): phase 3 does not exist"},
    // They overlap in no microbatch, but the rule for different slots is
    // simpler.
    {"gemmBetweenSlotsAtAnotherDistance",
     [](PlanT &p) {
       programOf(p).private_size = 4096;
       aOf(callOf(p)) = BufferRef(1024, 48, 96, 0, 0, 2, 0, Region::Private);
       cOf(callOf(p)) = BufferRef(1072, 32, 112, 0, 0, 2, 0, Region::Private);
     },
     "48 bytes at offset 1024 and 32 bytes at offset 1072 overlap"},
    {"gemmGroupsOfNoKind",
     [](PlanT &p) { group(p, false).grouped = GemmGrouping(7); },
     "groups of kind 7 do not exist"},
    {"gemmGroupsOfNone",
     [](PlanT &p) { group(p, false).grouped = GemmGrouping::None; },
     "reads 4 buffers instead of 2"},
    {"gemmGroupsWithoutProducts", [](PlanT &p) { group(p, true).batch = {}; },
     "groups are of one batch dim"},
    {"gemmGroupsOfTwoDims",
     [](PlanT &p) { group(p, true).batch.emplace_back(1, 0, 0, 0); },
     "groups are of one batch dim"},
    {"gemmWithoutIds",
     [](PlanT &p) { group(p, true), callOf(p).reads.pop_back(); },
     "reads 3 buffers instead of 4"},
    {"gemmOfTwoResults",
     [](PlanT &p) { callOf(p).writes.push_back(bufferAt(448, 32)); },
     "writes 2 buffers instead of 1"},
    {"gemmGroupsByMatmul",
     [](PlanT &p) {
       group(p, true).implementation = GemmImplementation::Matmul;
     },
     "groups are computed by Sgemm, not by Matmul"},
    {"gemmRowsOfGroupsApart",
     [](PlanT &p) { group(p, true).batch = {GemmBatch(2, 0, 6, 8)}; },
     "rows in groups whose results are 8 elements apart"},
    {"gemmInnerGroupsInOnePlace",
     [](PlanT &p) { group(p, false).batch = {GemmBatch(2, 0, 0, 0)}; },
     "a batch dim of 2 products whose results are 0 elements apart"},
    {"gemmGroupsMisaligned",
     [](PlanT &p) { group(p, true), move(groupsOf(p), 2564); },
     ", groups: offset 2564"},
    {"gemmFewGroups",
     [](PlanT &p) { group(p, true), groupsOf(p) = bufferAt(2560, 24); },
     ", groups: 4 numbers need 32 bytes, its buffer has 24"},
    {"gemmFewInnerGroups",
     [](PlanT &p) { group(p, false), groupsOf(p) = bufferAt(2560, 16); },
     ", groups: 3 numbers need 24 bytes, its buffer has 16"},
    {"gemmFewIds", [](PlanT &p) { group(p, true), idsOf(p) = bufferAt(3072, 8); },
     ", ids: 2 numbers need 16 bytes, its buffer has 8"},
    {"gemmOverItsGroups",
     [](PlanT &p) { group(p, true), move(groupsOf(p), 2048 + 56); },
     "32 bytes at offset 2104 and 64 bytes at offset 2048 overlap"},
    {"gemmOverItsIds", [](PlanT &p) { group(p, true), move(idsOf(p), 2048 + 16); },
     "16 bytes at offset 2064 and 64 bytes at offset 2048 overlap"},
    {"gemmInTheWholeOfItsOperand",
     [](PlanT &p) { cOf(callOf(p)) = aOf(callOf(p)); },
     "48 bytes at offset 64 and 48 bytes at offset 64 overlap"},
    {"gemmAddendElsewhere", [](PlanT &p) { move(addendOf(p), 448); },
     "adds to 32 bytes at offset 448, and writes the sum of 32 bytes to offset "
     "256"},
    {"gemmAddendInAnotherMicrobatch",
     [](PlanT &p) {
       BufferRef &addend = addendOf(p);
       addend = withStride(addend, 32);
     },
     "adds to 32 bytes at offset 256"},
    {"gemmAddendOfNoProduct",
     [](PlanT &p) { addendOf(p), gemmOf(p).beta = 0; },
     "reads 3 buffers instead of 2"},
    {"gemmOfIntegers", [](PlanT &p) { gemmOf(p).operands = ElementType::I32; },
     "element type 6 is no float"},
    {"gemmOfNoType", [](PlanT &p) { gemmOf(p).accumulator = ElementType(9); },
     "element type 9 is no float"},
    {"gemmNarrowAccumulator",
     [](PlanT &p) { gemmOf(p).accumulator = gemmOf(p).result = ElementType::BF16; },
     "adds products of F32 in BF16, which is no wider type"},
    {"gemmResultType", [](PlanT &p) { gemmOf(p).result = ElementType::BF16; },
     "gives BF16; what is multiplied is F32, and added in F32"},
    {"gemmOfWiderElements",
     [](PlanT &p) {
       CpuGemmT &gemm = gemmOf(p);
       gemm.operands = gemm.accumulator = gemm.result = ElementType::F64;
     },
     ", a: 4 x 3 with leading dim 3 and its batch need 96 bytes"},
    {"callKind", [](PlanT &p) { callOf(p).kind = CallKind(9); },
     "calls of kind 9 do not exist"},
    {"callOfALibraryThatTakesAll",
     [](PlanT &p) { callOf(p).library_bytes = uint64_t(1) << 49; },
     "the library allocates 562949953421312 bytes for each thread"},
    {"gemmImplementation",
     [](PlanT &p) { gemmOf(p).implementation = GemmImplementation(9); },
     "implementation 9"},
    {"gemmInPlace", [](PlanT &p) { move(cOf(callOf(p)), aOf(callOf(p)).offset()); },
     "48 bytes at offset 64 and 32 bytes at offset 64 overlap"},
    {"gemmInPlaceOfB",
     [](PlanT &p) { move(cOf(callOf(p)), bOf(callOf(p)).offset() + 20); },
     "24 bytes at offset 0 and 32 bytes at offset 20 overlap"},
    {"gemmOverALaterMicrobatch",
     [](PlanT &p) { move(cOf(callOf(p)), aOf(callOf(p)).offset() + 92); },
     "48 bytes at offset 64 and 32 bytes at offset 156 overlap"},
    {"gemmInALaterMicrobatchOverB",
     [](PlanT &p) {
       move(bOf(callOf(p)), 480);
       cOf(callOf(p)) = bufferAt(384, 32, 68);
     },
     "24 bytes at offset 480 and 32 bytes at offset 384 overlap"},
    {"gemmOverAnotherBlock",
     [](PlanT &p) {
       auto &buffer = bOf(callOf(p));
       buffer = asBlock(bufferAt(384, 24), 1, 96);
       move(cOf(callOf(p)), 500 - 32);
     },
     "24 bytes at offset 384 and 32 bytes at offset 468 overlap"},
    {"gemmInAnotherBlock",
     [](PlanT &p) {
       auto &buffer = cOf(callOf(p));
       move(bOf(callOf(p)), 484);
       buffer = asBlock(bufferAt(384, 32), 1, 72);
     },
     "24 bytes at offset 484 and 32 bytes at offset 384 overlap"},
    {"gemmScratchOutside", [](PlanT &p) { setScratch(p, 512); },
     ", scratch: 64 bytes at offset 512 with stride 0 over 2"},
    {"gemmScratchMisaligned", [](PlanT &p) { setScratch(p, 416); },
     ", scratch: offset 416, stride 0 and step 0 are not multiples of its "
     "alignment 64"},
    {"gemmScratchOfNoGroup",
     [](PlanT &p) {
       setScratch(p, 448);
       *callOf(p).scratch = asBlock(*callOf(p).scratch, 3, 64);
     },
     ", scratch: a block over group 2 of 2"},
    {"gemmScratchOverA", [](PlanT &p) { setScratch(p, 64); },
     ", scratch: 48 bytes at offset 64 and 64 bytes at offset 64 overlap"},
    {"gemmScratchOverB", [](PlanT &p) { setScratch(p, 0); },
     ", scratch: 24 bytes at offset 0 and 64 bytes at offset 0 overlap"},
    {"gemmScratchOverC", [](PlanT &p) { setScratch(p, 256); },
     ", scratch: 32 bytes at offset 256 and 64 bytes at offset 256 overlap"},
    {"collectiveKind",
     [](PlanT &p) { collectiveOf(p).kind = CollectiveKind(8); }, "kind 8"},
    {"collectiveNegativeKind",
     [](PlanT &p) { collectiveOf(p).kind = CollectiveKind(-1); }, "kind -1"},
    {"collectiveDtype", [](PlanT &p) { collectiveOf(p).dtype = ElementType(9); },
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
    {"gatherOfAnotherBlock", [](PlanT &p) { gatherBlock(p, 1, 8); },
     "overlap"},
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
     [](PlanT &p) { append(p, copyOf(bufferAt(0, 12), bufferAt(64, 8), 1, 2)); },
     ", input: moves 8 bytes, its buffer has 12"},
    {"copyOutputSize",
     [](PlanT &p) { append(p, copyOf(bufferAt(0, 8), bufferAt(64, 12), 1, 2)); },
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
     [](PlanT &p) { append(p, copyOf(bufferAt(508, 8), bufferAt(0, 8), 1, 2)); },
     ", input: 8 bytes at offset 508"},
    {"copyOutputOutside",
     [](PlanT &p) { append(p, copyOf(bufferAt(0, 8), bufferAt(508, 8), 1, 2)); },
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
  auto gathers = verifyPlan(serialise(plan));
  EXPECT_TRUE(gathers) << gathers.error().message;
  CollectiveT &collective = collectiveOf(plan);
  collective.kind = CollectiveKind::ReduceScatter;
  collective.reduction = Reduction::Sum;
  std::swap(collective.transfers[0]->input, collective.transfers[0]->output);
  auto scatters = verifyPlan(serialise(plan));
  EXPECT_TRUE(scatters) << scatters.error().message;
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

// The buffers have offsets in common, but share no byte in any microbatch on
// any rank.
TEST(VerifyCommands, AcceptsProductsWhoseBuffersDoNotMeet) {
  auto check = [](const char *what,
                  const std::function<void(CallT &)> &change) {
    SCOPED_TRACE(what);
    PlanT plan = goodPlan();
    programOf(plan).private_size = programOf(plan).shared_size = 4096;
    change(callOf(plan));
    expectAccepted(plan);
  };
  check("in another region",
        [](CallT &call) { cOf(call) = bufferAt(64, 32, 0, Region::Shared); });
  check("beside each other", [](CallT &call) { move(cOf(call), 24); });
  check("before the first microbatch",
        [](CallT &call) { move(cOf(call), 32); });
  check("after the last microbatch", [](CallT &call) { move(cOf(call), 160); });
  check("past it between two microbatches", [](CallT &call) {
    move(bOf(call), 1024);
    cOf(call) = bufferAt(960, 32, 88);
  });
  check("not as far as it in two microbatches", [](CallT &call) {
    move(bOf(call), 1024);
    cOf(call) = bufferAt(900, 32, 64);
  });
  check("one after another", [](CallT &call) {
    aOf(call) = bufferAt(1024, 48, 48);
    cOf(call) = bufferAt(1072, 32, 48);
  });
  check("between two blocks' ends", [](CallT &call) {
    bOf(call) = asBlock(bufferAt(1024, 24), 1, 32);
    move(cOf(call), 1080);
  });
  for (bool ofRows : {true, false}) {
    SCOPED_TRACE(ofRows);
    PlanT plan = goodPlan();
    group(plan, ofRows);
    expectAccepted(plan);
  }
  check("in as many pieces as rows",
        [](CallT &call) { call.body.AsCpuGemm()->pieces = 4; });
  check("scratch behind all", [](CallT &call) {
    call.scratch = std::make_unique<BufferRef>(bufferAt(4032, 64));
  });
}

} // namespace
} // namespace polyrank::runtime::test
