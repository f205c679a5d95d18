// The plan verifier: each kind of invalid plan is refused; the message has the
// place and both values.

#include "test/runtime/GuardedMemory.h"
#include "test/runtime/plan/Lies.h"

#include <cmath>

namespace polyrank::runtime::test {
namespace {

/// The inputs become `count` seeds of a type of 8 bytes.
void seedOf(PlanT &plan, ElementType type, int64_t count) {
  ArgumentT &argument = argumentOf(plan, 1);
  argument.role = Role::Seed;
  argument.dtype = type;
  argument.dims.resize(1);
  argument.dims[0]->size = argument.dims[0]->padded = count;
  *argument.buffer = ofSize(*argument.buffer, 8 * count);
}

/// The inputs become a learning rate of a type of 8 bytes.
void rateOf(PlanT &plan, ElementType type, double rate) {
  seedOf(plan, type, 1);
  argumentOf(plan, 1).role = Role::LearningRate;
  argumentOf(plan, 1).rate = rate;
}

void addAxisIndex(PlanT &plan, const BufferRef &buffer,
                  AxisRef axis = AxisRef(1, 1, 2)) {
  auto index = std::make_unique<AxisIndexT>();
  index->buffer = std::make_unique<BufferRef>(buffer);
  index->axes = std::make_unique<AxisListT>();
  index->axes->axes = {axis};
  programOf(plan).axis_indices.push_back(std::move(index));
}

const uint64_t huge = UINT64_MAX - 63;

const Lie lies[] = {
    {"version", [](PlanT &p) { p.version = 99; }, "version 99"},
    {"mode", [](PlanT &p) { p.mode = Mode(7); }, "mode 7"},
    {"noMicrobatches", [](PlanT &p) { p.microbatches = 0; }, "0 microbatches"},
    {"negativeMode", [](PlanT &p) { p.mode = Mode(-1); }, "mode -1"},
    {"manyMicrobatches", [](PlanT &p) { p.microbatches = (1u << 20) + 1; },
     "1048577 microbatches"},
    {"noThreads", [](PlanT &p) { p.threads = 0; }, "0 threads"},
    {"threads", [](PlanT &p) { p.threads = 4097; }, "4097 threads"},
    {"emptyAxis", [](PlanT &p) { p.mesh[0]->size = 0; },
     "mesh axis 'data' of size 0"},
    {"axisWithoutName", [](PlanT &p) { p.mesh[1]->name = ""; },
     "mesh axis '' of size 2"},
    {"hugeMesh", [](PlanT &p) { p.mesh[0]->size = INT64_MAX; }, "more than"},
    {"manyRanks", [](PlanT &p) { p.mesh[0]->size = 1 << 16; },
     "more than 65536 ranks"},
    {"manyAxes",
     [](PlanT &p) {
       while (p.mesh.size() <= 64) {
         p.mesh.push_back(std::make_unique<AxisT>());
         p.mesh.back()->name = std::to_string(p.mesh.size());
         p.mesh.back()->size = 1;
       }
     },
     "the mesh has 65 axes"},
    {"manySubAxes",
     [](PlanT &p) {
       programOf(p).groups[0]->axes.resize(65, AxisRef(0, 2, 1));
     },
     "group: names more than 64 sub-axes"},
    {"manyGroups",
     [](PlanT &p) {
       while (programOf(p).groups.size() <= 1024) {
         programOf(p).groups.push_back(std::make_unique<AxisListT>());
         programOf(p).groups.back()->axes = {AxisRef(0, 1, 2)};
       }
     },
     "has 1025 groups of ranks"},
    {"axisTwice", [](PlanT &p) { p.mesh[1]->name = "data"; },
     "mesh axis 'data' occurs twice"},
    {"negativeRate", [](PlanT &p) { p.learning_rate = -1; },
     "a learning rate of -1"},
    {"rateWithoutEnd", [](PlanT &p) { p.learning_rate = INFINITY; },
     "a learning rate of inf"},
    {"rateSchedule", [](PlanT &p) { p.lr_schedule = "cosine"; },
     "the learning rate's schedule 'cosine': cosine: give total=N"},
    {"negativeRateOfAGroup",
     [](PlanT &p) { rateOf(p, ElementType::F64, -0.5); },
     "argument 'x': a learning rate of -0.5"},
    {"integerRate", [](PlanT &p) { rateOf(p, ElementType::I64, 1); },
     "argument 'x': a learning rate is one F64, not 8 bytes of I64"},
    {"twoRates",
     [](PlanT &p) {
       seedOf(p, ElementType::F64, 2);
       argumentOf(p, 1).role = Role::LearningRate;
     },
     "argument 'x': a learning rate is one F64, not 16 bytes of F64"},
    {"rateOfAForwardPlan",
     [](PlanT &p) {
       rateOf(p, ElementType::F64, 1);
       p.mode = Mode::Forward;
     },
     "argument 'x': a forward plan has no learning rate"},
    {"noStage", [](PlanT &p) { p.programs.clear(); }, "has 0 programs"},
    {"twoStages",
     [](PlanT &p) { p.programs.push_back(std::make_unique<ProgramT>()); },
     "programs 0 and 1 are both for the ranks at all coordinates"},
    {"hugeArena", [](PlanT &p) { programOf(p).private_size = huge; },
     "an arena of"},
    {"largeArena",
     [](PlanT &p) { programOf(p).private_size = uint64_t(1) << 48; },
     "an arena of 128 + 281474976710656 bytes"},
    {"argumentTwice", [](PlanT &p) { argumentOf(p, 2).name = "x"; },
     "argument 'x' occurs twice"},
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
    {"argumentMisaligned", [](PlanT &p) { move(argumentOf(p, 0).buffer, 2); },
     "alignment 4"},
    {"argumentStride",
     [](PlanT &p) {
       auto &buffer = *argumentOf(p, 0).buffer;
       buffer = withStride(buffer, 64);
     },
     "a stride of 64 instead of 0"},
    {"argumentSize", [](PlanT &p) { argumentOf(p, 0).dims[0]->padded = 1000; },
     "a shard needs 8000 bytes, its buffer has 24"},
    {"argumentDtype",
     [](PlanT &p) { argumentOf(p, 0).dtype = ElementType(40); }, "dtype 40"},
    {"negativeDtype",
     [](PlanT &p) { argumentOf(p, 0).dtype = ElementType(-1); }, "dtype -1"},
    {"manyDims",
     [](PlanT &p) {
       for (int d = 2; d < 33; ++d) {
         argumentOf(p, 0).dims.push_back(std::make_unique<DimT>());
         argumentOf(p, 0).dims.back()->size = 1;
         argumentOf(p, 0).dims.back()->padded = 1;
         argumentOf(p, 0).view->strides.push_back(1);
       }
     },
     "has 33 dims"},
    {"negativeDim", [](PlanT &p) { argumentOf(p, 0).dims[0]->size = -3; },
     "a dim of -3"},
    {"hugeDim",
     [](PlanT &p) { argumentOf(p, 0).dims[0]->padded = int64_t(1) << 49; },
     "a dim of 3 with padded extent 562949953421312"},
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
    {"negativeAxisNumber",
     [](PlanT &p) { argumentOf(p, 0).dims[1]->axes[0] = AxisRef(-1, 1, 2); },
     "axis number -1"},
    {"subAxis",
     [](PlanT &p) { argumentOf(p, 0).dims[1]->axes[0] = AxisRef(1, 1, 3); },
     "sub-axis (1)3"},
    {"subAxisOfNothing",
     [](PlanT &p) { argumentOf(p, 0).dims[1]->axes[0] = AxisRef(1, 1, 0); },
     "sub-axis (1)0"},
    {"subAxisAfterNothing",
     [](PlanT &p) { argumentOf(p, 0).dims[1]->axes[0] = AxisRef(1, 0, 2); },
     "sub-axis (0)2"},
    {"subAxisThatDoesNotDivide",
     [](PlanT &p) {
       p.mesh[1]->size = 8;
       programOf(p).groups[1]->axes[1] = AxisRef(1, 1, 3);
     },
     "group: sub-axis (1)3 of axis 'tensor', whose size is 8"},
    {"subAxisUsedTwice",
     [](PlanT &p) {
       p.mesh[1]->size = 8;
       programOf(p).groups[0]->axes = {AxisRef(1, 2, 2), AxisRef(1, 1, 4)};
     },
     "group: uses axis 'tensor' twice: (2)2 and (1)4"},
    {"subAxesThatDoNotNest",
     [](PlanT &p) {
       p.mesh[1]->size = 12;
       programOf(p).groups[0]->axes = {AxisRef(1, 1, 2), AxisRef(1, 3, 2)};
     },
     "sub-axes (1)2 and (3)2 of axis 'tensor' do not nest"},
    {"axisUsedTwice",
     [](PlanT &p) {
       argumentOf(p, 0).dims[0]->padded = 4;
       argumentOf(p, 0).dims[0]->axes = {AxisRef(1, 1, 2)};
     },
     "uses axis 'tensor' twice"},
    {"role", [](PlanT &p) { argumentOf(p, 0).role = Role(11); }, "role 11"},
    {"parameterWithoutView", [](PlanT &p) { argumentOf(p, 0).view.reset(); },
     "without a stored tensor"},
    {"viewOfNothing", [](PlanT &p) { argumentOf(p, 0).view->stored = 1; },
     "stored tensor 1 of 1"},
    {"viewOutside", [](PlanT &p) { argumentOf(p, 0).view->base = 1; },
     "element 1 to 12"},
    {"viewNegative", [](PlanT &p) { argumentOf(p, 0).view->strides[0] = -1; },
     "from element -2"},
    {"viewOverflow",
     [](PlanT &p) { argumentOf(p, 0).view->strides[1] = INT64_MAX; }, "view"},
    {"viewRank", [](PlanT &p) { argumentOf(p, 0).view->strides.pop_back(); },
     "2 dims and its view 1"},
    {"inputWithoutBatch",
     [](PlanT &p) {
       auto &dims = argumentOf(p, 1).dims;
       dims.resize(1);
       dims[0]->size = dims[0]->padded = 24;
     },
     "needs dims for microbatch and batch, has 1"},
    {"inputMicrobatches",
     [](PlanT &p) {
       auto &dims = argumentOf(p, 1).dims;
       dims[0]->size = dims[0]->padded = 1;
       dims[1]->size = dims[1]->padded = 16;
     },
     "argument 'x': dim 0 is the microbatch"},
    {"inputMicrobatchesPadded",
     [](PlanT &p) {
       auto &buffer = *argumentOf(p, 1).buffer;
       buffer = ofSize(buffer, 2 * buffer.size());
       argumentOf(p, 1).dims[0]->padded = 4;
     },
     "and has 2 (padded 4)"},
    {"inputMicrobatchesSplit",
     [](PlanT &p) {
       auto &buffer = *argumentOf(p, 1).buffer;
       buffer = ofSize(buffer, buffer.size() / 2);
       argumentOf(p, 1).dims[0]->axes = {AxisRef(1, 1, 2)};
     },
     "elements, unsplit, and has 2 (padded 2)"},
    {"labelMicrobatches",
     [](PlanT &p) {
       auto &dims = argumentOf(p, 2).dims;
       dims[0]->size = dims[0]->padded = 1;
       dims[1]->size = dims[1]->padded = 16;
     },
     "argument 'labels': dim 0 is the microbatch"},
    {"labelsOfOneRow",
     [](PlanT &p) {
       ArgumentT &labels = argumentOf(p, 2);
       labels.dims[1]->size = labels.dims[1]->padded = 1;
       labels.dims[1]->axes.clear();
       *labels.buffer = ofSize(*labels.buffer, 2 * sizeof(int64_t));
     },
     "argument 'labels': holds 2 samples a step, the plan has"},
    {"batchlessRows", [](PlanT &p) { argumentOf(p, 1).batch_dim = -1; },
     "argument 'x': has no batch, but 8 rows"},
    {"samplesInNoDim", [](PlanT &p) { argumentOf(p, 1).batch_dim = 2; },
     "argument 'x': has the samples in dim 2 of 2"},
    {"samplesInANegativeDim", [](PlanT &p) { argumentOf(p, 1).batch_dim = -2; },
     "argument 'x': has the samples in dim -2 of 2"},
    {"seedOfFloats", [](PlanT &p) { seedOf(p, ElementType::F64, 1); },
     "the seed is one I64, not 8 bytes of F64"},
    {"twoSeeds", [](PlanT &p) { seedOf(p, ElementType::I64, 2); },
     "the seed is one I64, not 16 bytes of I64"},
    {"samplesPerStep", [](PlanT &p) { p.samples_per_step = 5; },
     "the plan has 5"},
    {"indexLimitOfFloats", [](PlanT &p) { argumentOf(p, 1).index_limit = 9; },
     "index limit 9"},
    {"negativeIndexLimit", [](PlanT &p) { argumentOf(p, 1).index_limit = -1; },
     "index limit -1"},
    {"storedSpan", [](PlanT &p) { p.stored[0]->source->length = 8; },
     "needs 48 bytes"},
    {"storedSpanBeyondAnyFile",
     [](PlanT &p) { p.stored[0]->source->offset = INT64_MAX - 47; },
     "its span starts at 9223372036854775760"},
    {"storedDtype", [](PlanT &p) { p.stored[0]->dtype = ElementType(40); },
     "stored tensor 'linear.weight': dtype 40"},
    {"storedRank", [](PlanT &p) { p.stored[0]->shape.resize(33, 1); },
     "has 33 dims"},
    {"storedDigests", [](PlanT &p) { p.stored[0]->source->digests = {1, 2}; },
     "its 48 bytes have 2 digests instead of 1"},
    {"storedShape", [](PlanT &p) { p.stored[0]->shape[0] = INT64_MAX; },
     "its shape has more than 281474976710656 elements"},
    {"storedElements",
     [](PlanT &p) {
       p.stored[0]->shape[0] = int64_t(1) << 47;
       p.stored[0]->source->length = uint64_t(12) << 47;
     },
     "its shape has more than 281474976710656 elements"},
    {"storedTransposed",
     [](PlanT &p) {
       p.stored[0]->shape = {12};
       p.stored[0]->transposed = true;
     },
     "is transposed, but no matrix"},
    {"storedComplexType",
     [](PlanT &p) {
       p.stored[0]->shape = {6, 2};
       p.stored[0]->dtype = ElementType::I32;
       p.stored[0]->complex = true;
     },
     "has complex numbers of parts of I32"},
    {"storedComplexShape", [](PlanT &p) { p.stored[0]->complex = true; },
     "has complex numbers, and no last dim of 2 for their parts"},
    {"storedComplexScalar",
     [](PlanT &p) {
       p.stored[0]->shape.clear();
       p.stored[0]->complex = true;
     },
     "has complex numbers, and no last dim of 2 for their parts"},
    {"storedComplexTransposed",
     [](PlanT &p) {
       p.stored[0]->shape = {6, 2};
       p.stored[0]->transposed = p.stored[0]->complex = true;
     },
     "has complex numbers and is transposed"},
    {"storedData",
     [](PlanT &p) {
       p.stored[0]->source.reset();
       p.stored[0]->data.resize(44);
     },
     "its shape needs 48 bytes, its data has 44"},
    {"constantSize",
     [](PlanT &p) { programOf(p).constants[0]->data.resize(9); },
     "9 bytes for a buffer of 8"},
    {"constantOutside",
     [](PlanT &p) { move(programOf(p).constants[0]->buffer, 505); },
     "constant: 8 bytes at offset 505"},
    {"constantStride",
     [](PlanT &p) {
       auto &buffer = *programOf(p).constants[0]->buffer;
       buffer = withStride(buffer, 8);
     },
     "for a buffer of 8 with stride 8"},
    {"axisIndexOutside", [](PlanT &p) { addAxisIndex(p, bufferAt(512, 8)); },
     "axis index: 8 bytes at offset 512"},
    {"axisIndexMisaligned", [](PlanT &p) { addAxisIndex(p, bufferAt(4, 8)); },
     "alignment 8"},
    {"axisIndexSize", [](PlanT &p) { addAxisIndex(p, bufferAt(0, 16)); },
     "its buffer has 16 with stride 0"},
    {"axisIndexStride", [](PlanT &p) { addAxisIndex(p, bufferAt(0, 8, 8)); },
     "its buffer has 8 with stride 8"},
    {"axisIndexAxes",
     [](PlanT &p) { addAxisIndex(p, bufferAt(0, 8), AxisRef(2, 1, 2)); },
     "axis index: axis number 2"},
    {"groupAxis",
     [](PlanT &p) { programOf(p).groups[0]->axes[0] = AxisRef(2, 1, 2); },
     "group: axis number 2 of a mesh of 2 axes"},
    {"schedule", [](PlanT &p) { programOf(p).schedule[0] = Action(3, 0); },
     "segment 3 of 3"},
    {"scheduleMicrobatch",
     [](PlanT &p) { programOf(p).schedule[0] = Action(0, 2); },
     "microbatch 2 of 2"},
    {"outputSize",
     [](PlanT &p) {
       auto &buffer = *programOf(p).outputs[0]->buffer;
       buffer = ofSize(buffer, 8);
     },
     "output 'loss': a shard needs 4 bytes, its buffer has 8"},
    {"metricSize",
     [](PlanT &p) {
       OutputT &output = *programOf(p).outputs[0];
       output.dims.push_back(std::make_unique<DimT>());
       output.dims[0]->size = output.dims[0]->padded = 2;
       *output.buffer = ofSize(*output.buffer, 8);
     },
     "output 'loss': a metric is a scalar, its buffer has 8 bytes"},
    {"outputWithoutBatch",
     [](PlanT &p) { programOf(p).outputs[0]->kind = OutputKind::Tensor; },
     "output 'loss': needs dims for microbatch and batch, has 0"},
    {"outputKind",
     [](PlanT &p) { programOf(p).outputs[0]->kind = OutputKind(2); },
     "output 'loss': kind 2 does not exist"},
};

class RefusedPlan : public testing::TestWithParam<Lie> {};

TEST_P(RefusedPlan, NamesThePlaceAndTheValues) { expectRefused(GetParam()); }

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

TEST(VerifyPlan, AcceptsSubAxesThatNestInAnyOrder) {
  for (std::vector<AxisRef> axes : {std::vector<AxisRef>{{1, 1, 2}, {1, 2, 2}},
                                    {{1, 2, 2}, {1, 1, 2}},
                                    {{1, 1, 3}, {1, 6, 2}},
                                    {{1, 6, 2}, {0, 1, 2}, {1, 1, 3}}}) {
    PlanT plan = goodPlan();
    plan.mesh[1]->size = 12;
    programOf(plan).groups[0]->axes = axes;
    expectAccepted(plan);
  }
}

TEST(VerifyPlan, AcceptsASeedStateAndTheIndexOfARank) {
  PlanT plan = goodPlan();
  seedOf(plan, ElementType::I64, 1);
  argumentOf(plan, 0).role = Role::State;
  argumentOf(plan, 0).view.reset();
  addAxisIndex(plan, bufferAt(504, 8));
  expectAccepted(plan);
}

TEST(VerifyPlan, AcceptsALearningRateWithItsSchedule) {
  PlanT plan = goodPlan();
  rateOf(plan, ElementType::F64, 0);
  plan.learning_rate = 1e-3;
  plan.lr_schedule = "cosine(warmup=1,total=10)";
  expectAccepted(plan);
}

// The list is accepted at any alignment of its length.
TEST(VerifyPlan, AcceptsAGroupWithoutAxes) {
  for (const char *model : {"linear", "a linear"}) {
    PlanT plan = goodPlan();
    plan.model = model;
    for (int more = 0; more < 3; ++more) {
      programOf(plan).groups.push_back(std::make_unique<AxisListT>());
      expectAccepted(plan);
    }
  }
}

std::string refusalOf(std::span<const uint8_t> bytes) {
  auto verified = verifyPlan(bytes);
  return verified ? "" : verified.error().message;
}

TEST(VerifyPlan, RefusesWhatIsNoFlatbufferOfAPlan) {
  std::vector<uint8_t> good = serialise(goodPlan()), bytes = good;
  EXPECT_NE(refusalOf(std::span(good).first(15)).find("have 15 bytes"),
            std::string::npos);
  bytes[4] ^= 1; // of the identifier
  EXPECT_NE(refusalOf(bytes).find("are not a plan"), std::string::npos);
}

/// Returns the offset of a field of a table in the flatbuffer.
template <typename Table>
size_t placeOf(const std::vector<uint8_t> &bytes, const Table &table,
               flatbuffers::voffset_t field) {
  auto &fields = reinterpret_cast<const flatbuffers::Table &>(table);
  return fields.GetAddressOf(field) - bytes.data();
}

// Structures of a flatbuffer are aligned to 8 bytes; its own verifier checks
// only the length before them.
TEST(VerifyPlan, RefusesElementsThatAreMisaligned) {
  PlanT plan = goodPlan();
  gemmOf(plan).batch.emplace_back(1, 0, 0, 0);
  const std::vector<uint8_t> good = serialise(plan);
  ASSERT_EQ(refusalOf(good), "");
  const Plan &root = *GetPlan(good.data());
  const Program &program = *root.programs()->Get(0);
  const auto &commands = *program.segments()->Get(0)->commands();
  const Argument &weight = *program.arguments()->Get(0);
  struct Elements {
    size_t place, bytes;
    const char *message;
  };
  for (auto [place, element, what] :
       {Elements{placeOf(good, *program.groups()->Get(0), AxisList::VT_AXES),
                 sizeof(AxisRef), "group"},
        {placeOf(good, *root.stored()->Get(0), StoredTensor::VT_SHAPE), 8,
         "stored tensor"},
        {placeOf(good, *weight.view(), View::VT_STRIDES), 8,
         "argument 'linear.weight'"},
        {placeOf(good, *commands[1]->body_as_Call()->body_as_CpuGemm(),
                 CpuGemm::VT_BATCH),
         sizeof(GemmBatch), "gemm"},
        {placeOf(good, *commands[1]->body_as_Call(), Call::VT_READS),
         sizeof(BufferRef), "gemm"},
        {placeOf(good, *commands[1]->body_as_Call(), Call::VT_WRITES),
         sizeof(BufferRef), "gemm"},
        {placeOf(good, *commands[2]->body_as_Launch(), Launch::VT_INPUTS),
         sizeof(BufferRef), "Launch"},
        {placeOf(good, *commands[2]->body_as_Launch(), Launch::VT_OUTPUTS),
         sizeof(BufferRef), "Launch"}}) {
    // Appends a copy of the elements.
    std::vector<uint8_t> bytes = good;
    bytes.resize((bytes.size() + 7) / 8 * 8);
    size_t from = place + flatbuffers::ReadScalar<uint32_t>(&good[place]);
    size_t size = 4 + element * flatbuffers::ReadScalar<uint32_t>(&good[from]);
    flatbuffers::WriteScalar<uint32_t>(&bytes[place], bytes.size() - place);
    bytes.insert(bytes.end(), good.begin() + from, good.begin() + from + size);
    std::string message = refusalOf(bytes);
    EXPECT_EQ(message.find(what) == std::string::npos, false) << message;
    EXPECT_NE(message.find("are not aligned to 8 bytes"), std::string::npos)
        << what << ": " << message;
  }
}

TEST(VerifyPlan, RefusesACommandOfAnUnknownType) {
  std::vector<uint8_t> bytes = serialise(goodPlan());
  const Program &program = *GetPlan(bytes.data())->programs()->Get(0);
  const Command &command = *program.segments()->Get(0)->commands()->Get(1);
  bytes[placeOf(bytes, command, Command::VT_BODY_TYPE)] = 9;
  EXPECT_NE(refusalOf(bytes).find("command type 9 does not exist"),
            std::string::npos)
      << refusalOf(bytes);
}

TEST(VerifyPlan, RefusesACallOfAnUnknownType) {
  std::vector<uint8_t> bytes = serialise(goodPlan());
  const Program &program = *GetPlan(bytes.data())->programs()->Get(0);
  const Command &command = *program.segments()->Get(0)->commands()->Get(1);
  bytes[placeOf(bytes, *command.body_as_Call(), Call::VT_BODY_TYPE)] = 9;
  EXPECT_NE(refusalOf(bytes).find("a call of type 9 does not exist"),
            std::string::npos)
      << refusalOf(bytes);
}

/// Every buffer that a plan names.
std::vector<const BufferRef *> buffersOf(const Plan &plan) {
  std::vector<const BufferRef *> buffers;
  const Program &program = *plan.programs()->Get(0);
  for (const Argument *argument : *program.arguments())
    buffers.push_back(argument->buffer());
  for (const Output *output : *program.outputs())
    buffers.push_back(output->buffer());
  for (const Constant *constant : *program.constants())
    buffers.push_back(constant->buffer());
  for (const AxisIndex *index : *program.axis_indices())
    buffers.push_back(index->buffer());
  for (const Segment *segment : *program.segments())
    for (const Command *command : *segment->commands()) {
      if (const Launch *launch = command->body_as_Launch())
        for (const auto *list : {launch->inputs(), launch->outputs()})
          if (list)
            buffers.insert(buffers.end(), list->begin(), list->end());
      if (const Call *call = command->body_as_Call()) {
        for (const auto *list : {call->reads(), call->writes()})
          buffers.insert(buffers.end(), list->begin(), list->end());
        if (call->scratch())
          buffers.push_back(call->scratch());
      }
      if (const Copy *copy = command->body_as_Copy())
        buffers.insert(buffers.end(), {copy->input(), copy->output()});
      if (const Collective *collective = command->body_as_Collective())
        for (const Transfer *transfer : *collective->transfers())
          buffers.insert(buffers.end(),
                         {transfer->input(), transfer->output()});
    }
  return buffers;
}

/// A plan with a buffer of every kind.
std::vector<uint8_t> planWithEveryBuffer() {
  PlanT plan = goodPlan();
  plan.images[0]->bytes.resize(1); // most of the bytes, not tested here
  addAxisIndex(plan, bufferAt(0, 8));
  CopyT copy;
  copy.element = 4, copy.inner = 2;
  copy.input = std::make_unique<BufferRef>(bufferAt(0, 8));
  copy.output = std::make_unique<BufferRef>(bufferAt(8, 8));
  auto command = std::make_unique<CommandT>();
  command->body.Set(std::move(copy));
  programOf(plan).segments[0]->commands.push_back(std::move(command));
  callOf(plan).scratch = std::make_unique<BufferRef>(bufferAt(448, 64));
  return serialise(plan);
}

TEST(VerifyPlan, RefusesEveryByteOfABufferThatLeadsOutOfTheArena) {
  std::vector<uint8_t> bytes = planWithEveryBuffer();
  ASSERT_EQ(refusalOf(bytes), "");
  std::vector<const BufferRef *> buffers = buffersOf(*GetPlan(bytes.data()));
  ASSERT_GT(buffers.size(), 30u);
  for (const BufferRef *buffer : buffers) {
    size_t place = reinterpret_cast<const uint8_t *>(buffer) - bytes.data();
    for (size_t field = 0; field < 40; field += 8)
      for (size_t byte = 0; byte < 8; ++byte) {
        // Skips slots, of which there may be any number with a stride, the
        // number of axes, the region, and padding.
        if (field == 32 ? byte == 7 || (byte < 4 && buffer->stride())
                        : byte < 2)
          continue;
        uint8_t &damaged = bytes[place + field + byte];
        for (uint8_t flip : {0x40, 0x80, 0xff}) {
          damaged ^= flip;
          EXPECT_NE(refusalOf(bytes), "")
              << "buffer at byte " << place << ", byte " << field + byte;
          damaged ^= flip;
        }
      }
  }
}

TEST(VerifyPlan, SurvivesEveryDamagedByte) {
  // A plan with a damaged byte is refused or verified; the verifier never
  // crashes and never reads past its end.
  std::vector<uint8_t> good = planWithEveryBuffer();
  GuardedMemory memory(good.size());
  std::span<uint8_t> bytes = memory.copyOf(good);
  ASSERT_EQ(refusalOf(bytes), "");
  for (uint8_t &byte : bytes)
    for (uint8_t flip : {0x01, 0x80, 0xff}) {
      byte ^= flip;
      (void)verifyPlan(bytes);
      byte ^= flip;
    }
  for (size_t size = 0; size < good.size(); size += 8)
    EXPECT_NE(refusalOf(memory.copyOf(std::span(good).first(size))), "")
        << size;
}

} // namespace
} // namespace polyrank::runtime::test
