// What the plan verifier refuses in library calls; the message has the place
// and both values.

#include "test/runtime/plan/Lies.h"

namespace polyrank::runtime::test {
namespace {

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
/// The GEMM multiplies bf16, and each of its buffers has just the bytes that it
/// needs then.
CpuGemmT &narrow(PlanT &plan) {
  CpuGemmT &gemm = gemmOf(plan);
  gemm.operands = gemm.result = ElementType::BF16;
  gemm.accumulator = ElementType::F32;
  gemm.implementation = GemmImplementation::Widened;
  if (gemm.grouped == GemmGrouping::None) {
    aOf(callOf(plan)) = bufferAt(64, 24);
    bOf(callOf(plan)) = bufferAt(0, 12);
    cOf(callOf(plan)) = bufferAt(256, 16);
  }
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

const Lie lies[] = {
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
    {"gemmFewIds",
     [](PlanT &p) { group(p, true), idsOf(p) = bufferAt(3072, 8); },
     ", ids: 2 numbers need 16 bytes, its buffer has 8"},
    {"gemmOverItsGroups",
     [](PlanT &p) { group(p, true), move(groupsOf(p), 2048 + 56); },
     "32 bytes at offset 2104 and 64 bytes at offset 2048 overlap"},
    {"gemmOverItsIds",
     [](PlanT &p) { group(p, true), move(idsOf(p), 2048 + 16); },
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
    {"gemmAddendOfNoProduct", [](PlanT &p) { addendOf(p), gemmOf(p).beta = 0; },
     "reads 3 buffers instead of 2"},
    {"gemmOfIntegers", [](PlanT &p) { gemmOf(p).operands = ElementType::I32; },
     "element type 6 is no float"},
    {"gemmOfNoType", [](PlanT &p) { gemmOf(p).accumulator = ElementType(9); },
     "element type 9 is no float"},
    {"gemmNarrowAccumulator",
     [](PlanT &p) {
       gemmOf(p).accumulator = gemmOf(p).result = ElementType::BF16;
     },
     "adds products of F32 in BF16, which is no wider type"},
    {"gemmResultType", [](PlanT &p) { gemmOf(p).result = ElementType::BF16; },
     "gives BF16; what is multiplied is F32, and added in F32"},
    {"gemmOfWiderElements",
     [](PlanT &p) {
       CpuGemmT &gemm = gemmOf(p);
       gemm.operands = gemm.accumulator = gemm.result = ElementType::F64;
       gemm.implementation = GemmImplementation::Matmul;
     },
     ", a: 4 x 3 with leading dim 3 and its batch need 96 bytes"},
    {"gemmOfWiderElementsBySgemm",
     [](PlanT &p) {
       CpuGemmT &gemm = gemmOf(p);
       gemm.operands = gemm.accumulator = gemm.result = ElementType::F64;
       gemm.implementation = GemmImplementation::Sgemm;
     },
     "Sgemm cannot multiply F64 and add in F64"},
    {"gemmOfNarrowElementsBySgemm",
     [](PlanT &p) { narrow(p).implementation = GemmImplementation::Sgemm; },
     "Sgemm cannot multiply BF16 and add in F32"},
    {"gemmWidensF32",
     [](PlanT &p) { gemmOf(p).implementation = GemmImplementation::Widened; },
     "Widened cannot multiply F32 and add in F32"},
    {"gemmWidensToF64",
     [](PlanT &p) { narrow(p).accumulator = ElementType::F64; },
     "Widened cannot multiply BF16 and add in F64"},
    {"gemmOfNarrowGroupsByMatmul",
     [](PlanT &p) {
       group(p, true), narrow(p).implementation = GemmImplementation::Matmul;
     },
     "groups are computed by Widened, not by Matmul"},
    {"gemmNarrowA",
     [](PlanT &p) { narrow(p), aOf(callOf(p)) = bufferAt(64, 22); },
     ", a: 4 x 3 with leading dim 3 and its batch need 24 bytes, its buffer "
     "has "
     "22"},
    {"gemmNarrowB",
     [](PlanT &p) { narrow(p), bOf(callOf(p)) = bufferAt(0, 10); },
     ", b: 3 x 2 with leading dim 2 and its batch need 12 bytes, its buffer "
     "has "
     "10"},
    {"gemmNarrowC",
     [](PlanT &p) { narrow(p), cOf(callOf(p)) = bufferAt(256, 14); },
     ", c: 4 x 2 with leading dim 2 and its batch need 16 bytes, its buffer "
     "has "
     "14"},
    {"gemmWideC",
     [](PlanT &p) {
       narrow(p).result = ElementType::F32;
       cOf(callOf(p)) = bufferAt(256, 16);
     },
     ", c: 4 x 2 with leading dim 2 and its batch need 32 bytes, its buffer "
     "has "
     "16"},
    {"gemmNarrowMisaligned",
     [](PlanT &p) { narrow(p), aOf(callOf(p)) = bufferAt(65, 24); },
     ", a: offset 65"},
    {"gemmWideCMisaligned",
     [](PlanT &p) {
       narrow(p).result = ElementType::F32;
       cOf(callOf(p)) = bufferAt(258, 32);
     },
     ", c: offset 258"},
    {"callKind", [](PlanT &p) { callOf(p).kind = CallKind(9); },
     "calls of kind 9 do not exist"},
    {"callOfIntegers", [](PlanT &p) { callOf(p).factors = ElementType::I32; },
     "multiplies elements of type 6, which is no float"},
    {"callOfNoType", [](PlanT &p) { callOf(p).factors = ElementType(99); },
     "multiplies elements of type 99, which is no float"},
    {"callOfALibraryThatTakesAll",
     [](PlanT &p) { callOf(p).library_bytes = uint64_t(1) << 49; },
     "the library allocates 562949953421312 bytes for each thread"},
    {"gemmImplementation",
     [](PlanT &p) { gemmOf(p).implementation = GemmImplementation(9); },
     "implementation 9"},
    {"gemmInPlace",
     [](PlanT &p) { move(cOf(callOf(p)), aOf(callOf(p)).offset()); },
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
};

class RefusedCall : public testing::TestWithParam<Lie> {};

TEST_P(RefusedCall, NamesThePlaceAndTheValues) { expectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(VerifyCalls, RefusedCall, testing::ValuesIn(lies),
                         [](const auto &info) { return info.param.name; });

// The buffers have offsets in common, but share no byte in any microbatch on
// any rank.
TEST(VerifyCalls, AcceptsProductsWhoseBuffersDoNotMeet) {
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
  for (GemmImplementation implementation :
       {GemmImplementation::Widened, GemmImplementation::Matmul})
    for (ElementType element : {ElementType::BF16, ElementType::F16}) {
      SCOPED_TRACE(EnumNameElementType(element));
      PlanT plan = goodPlan();
      CpuGemmT &gemm = narrow(plan);
      gemm.operands = gemm.result = element;
      gemm.implementation = implementation;
      expectAccepted(plan);
      gemm.result = ElementType::F32;
      cOf(callOf(plan)) = bufferAt(256, 32);
      expectAccepted(plan);
    }
  for (bool ofRows : {true, false}) {
    SCOPED_TRACE(ofRows);
    PlanT plan = goodPlan();
    group(plan, ofRows);
    narrow(plan);
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
