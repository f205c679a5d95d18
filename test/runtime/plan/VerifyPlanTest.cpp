// The plan verifier: each kind of lie that a plan can tell is refused, with the
// place and both values in the message.

#include "runtime/plan/VerifyPlan.h"
#include "test/runtime/PlanBuilder.h"

#include <functional>
#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

using namespace plan;

ProgramT &programOf(PlanT &plan) { return *plan.programs[0]; }
GemmT &gemmOf(PlanT &plan) {
  return *programOf(plan).segments[firstSegment]->commands[1]->body.AsGemm();
}
LaunchT &launchOf(PlanT &plan) {
  return *programOf(plan).segments[firstSegment]->commands[2]->body.AsLaunch();
}
CollectiveT &collectiveOf(PlanT &plan) {
  return *programOf(plan)
              .segments[updateSegment]
              ->commands[0]
              ->body.AsCollective();
}
ArgumentT &argumentOf(PlanT &plan, int number) {
  return *programOf(plan).arguments[number];
}

struct Lie {
  const char *name;
  std::function<void(PlanT &)> tell;
  const char *message; // a part of what the verifier must say
};

void PrintTo(const Lie &lie, std::ostream *out) { *out << lie.name; }

void move(std::unique_ptr<BufferRef> &buffer, uint64_t offset) {
  *buffer =
      BufferRef(offset, buffer->size(), buffer->stride(), buffer->step(),
                buffer->axes(), buffer->region());
}

BufferRef inRegion(const BufferRef &buffer, Region region) {
  return BufferRef(buffer.offset(), buffer.size(), buffer.stride(), buffer.step(),
                   buffer.axes(), region);
}

BufferRef asBlock(const BufferRef &buffer, uint32_t axes, uint64_t step) {
  return BufferRef(buffer.offset(), buffer.size(), buffer.stride(), step, axes,
                   buffer.region());
}

/// The plan's reduction becomes an all-gather of blocks of its buffer.
void gatherBlock(PlanT &plan, uint32_t axes, uint64_t step) {
  CollectiveT &collective = collectiveOf(plan);
  collective.kind = CollectiveKind::AllGather;
  collective.reduction = Reduction::None;
  TransferT &transfer = *collective.transfers[0];
  transfer.inner /= 2;
  const BufferRef whole = *transfer.output;
  *transfer.input = asBlock(BufferRef(whole.offset(), whole.size() / 2, 0, 0, 0,
                                      whole.region()),
                            axes, step);
}

BufferRef withStride(const BufferRef &buffer, uint64_t stride) {
  return BufferRef(buffer.offset(), buffer.size(), stride, buffer.step(),
                   buffer.axes(), buffer.region());
}

CopyT copyOf(const BufferRef &buffer, int64_t outer, int64_t count,
             int64_t inner) {
  CopyT copy;
  copy.element = 4;
  copy.outer = outer, copy.count = count, copy.inner = inner;
  copy.input = std::make_unique<BufferRef>(buffer);
  copy.output = std::make_unique<BufferRef>(buffer);
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
    {"version", [](PlanT &p) { p.version = 99; }, "version 99"},
    {"mode", [](PlanT &p) { p.mode = Mode(7); }, "mode 7"},
    {"noMicrobatches", [](PlanT &p) { p.microbatches = 0; }, "0 microbatches"},
    {"manyMicrobatches", [](PlanT &p) { p.microbatches = 1u << 31; },
     "microbatches"},
    {"threads", [](PlanT &p) { p.threads = 1u << 30; }, "threads"},
    {"emptyAxis", [](PlanT &p) { p.mesh[0]->size = 0; },
     "mesh axis 'data' of size 0"},
    {"hugeMesh", [](PlanT &p) { p.mesh[0]->size = INT64_MAX; }, "more than"},
    {"axisTwice", [](PlanT &p) { p.mesh[1]->name = "data"; }, "twice"},
    {"twoStages",
     [](PlanT &p) { p.programs.push_back(std::make_unique<ProgramT>()); },
     "2 stages"},
    {"hugeArena", [](PlanT &p) { programOf(p).private_size = huge; }, "arena"},
    {"argumentOutside",
     [](PlanT &p) { move(argumentOf(p, 0).buffer, programOf(p).private_size); },
     "argument 'linear.weight'"},
    {"argumentOverflow", [](PlanT &p) { move(argumentOf(p, 0).buffer, huge); },
     "behind"},
    {"argumentRegion",
     [](PlanT &p) {
       auto &buffer = *argumentOf(p, 0).buffer;
       buffer = inRegion(buffer, Region(5));
     },
     "region 5"},
    {"argumentSize", [](PlanT &p) { argumentOf(p, 0).dims[0]->padded = 1000; },
     "needs"},
    {"argumentDtype", [](PlanT &p) { argumentOf(p, 0).dtype = DType(40); },
     "dtype 40"},
    {"negativeDim", [](PlanT &p) { argumentOf(p, 0).dims[0]->size = -3; },
     "a dim of -3"},
    {"paddingTooSmall", [](PlanT &p) { argumentOf(p, 0).dims[0]->padded = 2; },
     "padded extent 2"},
    {"unevenBlocks",
     [](PlanT &p) {
       argumentOf(p, 0).dims[1]->size = 3;
       argumentOf(p, 0).dims[1]->padded = 3;
     },
     "no multiple of its 2 blocks"},
    {"axisNumber",
     [](PlanT &p) { argumentOf(p, 0).dims[1]->axes[0] = AxisRef(9, 1, 2); },
     "axis number 9"},
    {"subAxis",
     [](PlanT &p) { argumentOf(p, 0).dims[1]->axes[0] = AxisRef(1, 1, 3); },
     "sub-axis"},
    {"subAxisZero",
     [](PlanT &p) { argumentOf(p, 0).dims[1]->axes[0] = AxisRef(1, 0, 0); },
     "sub-axis"},
    {"axisUsedTwice",
     [](PlanT &p) {
       argumentOf(p, 0).dims[0]->padded = 4;
       argumentOf(p, 0).dims[0]->axes = {AxisRef(1, 1, 2)};
     },
     "uses axis 'tensor' twice"},
    {"role", [](PlanT &p) { argumentOf(p, 0).role = Role(11); }, "role 11"},
    {"parameterWithoutView", [](PlanT &p) { argumentOf(p, 0).view.reset(); },
     "without a stored tensor"},
    {"viewOfNothing", [](PlanT &p) { argumentOf(p, 0).view->stored = 3; },
     "stored tensor 3 of 1"},
    {"viewOutside", [](PlanT &p) { argumentOf(p, 0).view->base = 1; },
     "element 1 to 12"},
    {"viewNegative", [](PlanT &p) { argumentOf(p, 0).view->strides[0] = -1; },
     "from element -2"},
    {"viewOverflow",
     [](PlanT &p) { argumentOf(p, 0).view->strides[1] = INT64_MAX; }, "view"},
    {"viewRank", [](PlanT &p) { argumentOf(p, 0).view->strides.pop_back(); },
     "2 dims and its view 1"},
    {"inputMicrobatches",
     [](PlanT &p) {
       argumentOf(p, 1).dims[0]->size = 1;
       argumentOf(p, 1).dims[0]->padded = 1;
     },
     "argument 'x'"},
    {"samplesPerStep", [](PlanT &p) { p.samples_per_step = 5; },
     "the plan has 5"},
    {"indexLimitOfFloats", [](PlanT &p) { argumentOf(p, 1).index_limit = 9; },
     "index limit 9"},
    {"storedSpan", [](PlanT &p) { p.stored[0]->source->length = 8; },
     "needs 48 bytes"},
    {"storedShape", [](PlanT &p) { p.stored[0]->shape[0] = INT64_MAX; },
     "stored tensor 'linear.weight'"},
    {"constantSize",
     [](PlanT &p) { programOf(p).constants[0]->data.resize(9); },
     "9 bytes for a buffer of 8"},
    {"groupAxis",
     [](PlanT &p) { programOf(p).groups[0]->axes[0] = AxisRef(2, 1, 2); },
     "group"},
    {"kernelNumber", [](PlanT &p) { launchOf(p).kernel = 77; }, "kernel 77"},
    {"negativeRange", [](PlanT &p) { launchOf(p).range = -1; }, "range -1"},
    {"noGrain", [](PlanT &p) { launchOf(p).grain = 0; }, "grains of 0"},
    {"launchBuffer",
     [](PlanT &p) {
       launchOf(p).inputs[1] = BufferRef(0, 1 << 20, 0, 0, 0, Region::Private);
     },
     "command 2 (Launch, loss), input 1"},
    {"launchStride",
     [](PlanT &p) {
       auto &buffer = launchOf(p).inputs[1];
       buffer = withStride(buffer, 1 << 20);
     },
     "stride"},
    {"launchStrideOverflow",
     [](PlanT &p) {
       auto &buffer = launchOf(p).inputs[1];
       buffer = withStride(buffer, UINT64_MAX);
     },
     "stride"},
    {"gemmSize", [](PlanT &p) { gemmOf(p).k = 4, gemmOf(p).lda = 4; },
     "command 1 (Gemm, linear), a"},
    {"gemmNegative", [](PlanT &p) { gemmOf(p).m = -1; }, "m=-1"},
    {"gemmPieces", [](PlanT &p) { gemmOf(p).pieces = 1000; },
     "cut into 1000 pieces"},
    {"gemmOverflow", [](PlanT &p) { gemmOf(p).m = INT64_MAX; }, "Gemm"},
    {"gemmLeading", [](PlanT &p) { gemmOf(p).ldb = 1; }, "leading dim 1"},
    {"gemmLeadingHuge", [](PlanT &p) { gemmOf(p).ldc = INT64_MAX / 2; }, ", c"},
    {"gemmTransposed", [](PlanT &p) { gemmOf(p).transpose_b = true; }, ", b"},
    {"gemmBatch", [](PlanT &p) { gemmOf(p).batch.emplace_back(3, 0, 0, 4); },
     ", c"},
    {"gemmBatchNegative",
     [](PlanT &p) { gemmOf(p).batch.emplace_back(2, -8, 0, 4); }, ", a"},
    {"gemmBatchSameResult",
     [](PlanT &p) { gemmOf(p).batch.emplace_back(2, 0, 0, 0); },
     "0 elements apart"},
    {"gemmImplementation",
     [](PlanT &p) { gemmOf(p).implementation = GemmImplementation(9); },
     "implementation 9"},
    {"gemmInPlace", [](PlanT &p) { move(gemmOf(p).c, gemmOf(p).a->offset()); },
     "overlap"},
    {"gemmScratch",
     [](PlanT &p) {
       gemmOf(p).scratch =
           std::make_unique<BufferRef>(0, 1 << 20, 0, 0, 0, Region::Private);
     },
     "scratch"},
    {"gemmScratchOfNoGroup",
     [](PlanT &p) {
       gemmOf(p).scratch =
           std::make_unique<BufferRef>(448, 64, 0, 64, 3, Region::Private);
     },
     ", scratch: a block over group 2 of 2"},
    {"collectiveKind",
     [](PlanT &p) { collectiveOf(p).kind = CollectiveKind(9); }, "kind 9"},
    {"collectiveGroup", [](PlanT &p) { collectiveOf(p).group = 4; },
     "group 4 of 2"},
    {"collectiveReduction",
     [](PlanT &p) { collectiveOf(p).reduction = Reduction::None; },
     "AllReduce with reduction"},
    {"collectiveSize",
     [](PlanT &p) { collectiveOf(p).transfers[0]->inner += 1; }, "moves"},
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
    {"permutation",
     [](PlanT &p) {
       collectiveOf(p).kind = CollectiveKind::Permute;
       collectiveOf(p).reduction = Reduction::None;
       collectiveOf(p).permutation = {0, 0};
     },
     "permutation"},
    {"permutationBeyond",
     [](PlanT &p) {
       collectiveOf(p).kind = CollectiveKind::Permute;
       collectiveOf(p).reduction = Reduction::None;
       collectiveOf(p).permutation = {0, 2};
     },
     "rank 2 of 2"},
    {"haloSize",
     [](PlanT &p) {
       collectiveOf(p).kind = CollectiveKind::Halo;
       collectiveOf(p).reduction = Reduction::None;
       collectiveOf(p).transfers[0]->low = 1;
     },
     ", output"},
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
     ", input"},
    {"haloOfMaxima",
     [](PlanT &p) {
       collectiveOf(p).kind = CollectiveKind::HaloAdd;
       collectiveOf(p).reduction = Reduction::Max;
     },
     "borders are summed"},
    {"bordersOfAnAllReduce",
     [](PlanT &p) { collectiveOf(p).transfers[0]->low = 1; },
     "borders of 1 and 0"},
    {"reason", [](PlanT &p) { collectiveOf(p).why = 8; }, "reason 8 of 2"},
    {"copySize",
     [](PlanT &p) {
       append(p, copyOf(BufferRef(0, 8, 0, 0, 0, Region::Private), 3, 1, 1));
     },
     "moves 12 bytes"},
    {"copyElement",
     [](PlanT &p) {
       CopyT copy = copyOf(BufferRef(0, 8, 0, 0, 0, Region::Private), 1, 1, 2);
       copy.element = 3;
       append(p, std::move(copy));
     },
     "elements of 3 bytes"},
    {"copyCount",
     [](PlanT &p) {
       append(p, copyOf(BufferRef(0, 8, 0, 0, 0, Region::Private), 1, 2, 1));
     },
     "one of 2 parts by axes with 1"},
    {"copyOverflow",
     [](PlanT &p) {
       append(p, copyOf(BufferRef(0, 0, 0, 0, 0, Region::Private), INT64_MAX, 1,
                        4));
     },
     "moves"},
    {"schedule", [](PlanT &p) { programOf(p).schedule[0] = Action(3, 0); },
     "segment 3 of 3"},
    {"scheduleMicrobatch",
     [](PlanT &p) { programOf(p).schedule[0] = Action(0, 2); },
     "microbatch 2 of 2"},
    {"metricSize",
     [](PlanT &p) { programOf(p).outputs[0]->dtype = DType::F64; },
     "output 'loss'"},
};

PlanT goodPlan() {
  LinearModel model;
  model.data = 2, model.tensor = 2, model.microbatches = 2, model.batch = 8;
  model.weights = "weights.bin";
  return linearPlan(model);
}

class RefusedPlan : public testing::TestWithParam<Lie> {};

TEST_P(RefusedPlan, NamesThePlaceAndTheValues) {
  PlanT plan = goodPlan();
  GetParam().tell(plan);
  auto verified = verifyPlan(serialise(plan));
  ASSERT_FALSE(verified);
  EXPECT_NE(verified.error().message.find(GetParam().message),
            std::string::npos)
      << verified.error().message;
}

INSTANTIATE_TEST_SUITE_P(VerifyPlan, RefusedPlan, testing::ValuesIn(lies),
                         [](const auto &info) { return info.param.name; });

TEST(VerifyPlan, AcceptsWhatTheBuilderMakes) {
  for (int64_t tensor : {1, 2, 4})
    for (int64_t microbatches : {1, 3}) {
      LinearModel model;
      model.data = 2, model.tensor = tensor, model.batch = 8;
      model.microbatches = microbatches;
      auto train = serialise(linearPlan(model));
      auto forward = serialise(linearForwardPlan(model));
      for (const auto &bytes : {train, forward}) {
        auto verified = verifyPlan(bytes);
        EXPECT_TRUE(verified) << verified.error().message;
      }
    }
}

// Wherever its length comes to lie.
TEST(VerifyPlan, AcceptsAGroupWithoutAxes) {
  PlanT plan = goodPlan();
  for (int more = 0; more < 3; ++more) {
    programOf(plan).groups.push_back(std::make_unique<AxisListT>());
    auto verified = verifyPlan(serialise(plan));
    EXPECT_TRUE(verified) << verified.error().message;
  }
}

TEST(VerifyPlan, AcceptsBlocksOfWhatIsGatheredOrScattered) {
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

TEST(VerifyPlan, SurvivesEveryDamagedByte) {
  // Whatever a damaged byte makes of a plan: refused or verified, never a
  // crash. The kernels, most of the bytes, are not looked at here.
  PlanT plan = goodPlan();
  plan.kernels->object.clear();
  std::vector<uint8_t> good = serialise(plan);
  for (size_t i = 0; i < good.size(); ++i)
    for (uint8_t flip : {0x01, 0x80, 0xff}) {
      std::vector<uint8_t> bytes = good;
      bytes[i] ^= flip;
      (void)verifyPlan(bytes);
    }
  for (size_t size = 0; size < good.size(); size += 7)
    (void)verifyPlan({good.data(), size});
}

class PlanFileTest : public testing::Test {
protected:
  TemporaryDirectory directory;
  std::string path = directory / "model.plan";

  void SetUp() override { ASSERT_TRUE(writePlan(path, serialise(goodPlan()))); }
  std::string refusal() {
    auto plan = loadPlan(path);
    return plan ? "" : plan.error().message;
  }
};

TEST_F(PlanFileTest, ReadsWhatItWrote) {
  auto plan = loadPlan(path);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->plan->model()->str(), "linear");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(plan->bytes.memory.get()) % 64, 0u);
}

TEST_F(PlanFileTest, RefusesAChangedByteAnywhere) {
  std::string good = readFile(path);
  for (size_t i = 0; i < good.size(); i += 101) {
    std::string bad = good;
    bad[i] ^= 0x10;
    writeFile(path, bad.data(), bad.size());
    EXPECT_NE(refusal(), "") << "byte " << i;
  }
}

TEST_F(PlanFileTest, RefusesATruncatedFile) {
  std::string good = readFile(path);
  for (size_t size : {size_t(0), size_t(10), size_t(63), size_t(64),
                      good.size() / 2, good.size() - 1}) {
    writeFile(path, good.data(), size);
    EXPECT_NE(refusal(), "") << size << " bytes";
  }
}

TEST_F(PlanFileTest, RefusesAFileThatIsNoPlan) {
  std::string text(200, 'x');
  writeFile(path, text.data(), text.size());
  EXPECT_NE(refusal().find("is not a plan"), std::string::npos) << refusal();
}

TEST_F(PlanFileTest, SaysThatAnotherVersionNeedsANewCompile) {
  std::string file = readFile(path);
  file[8] = 77;
  writeFile(path, file.data(), file.size());
  EXPECT_NE(refusal().find("has version 77"), std::string::npos) << refusal();
}

} // namespace
} // namespace polyrank::runtime::test
