// The contents of a rank's program before its first step, and its stored
// tensors.

#include "runtime/exec/RankProgram.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "support/arrays/Npz.h"
#include "test/runtime/PlanBuilder.h"
#include "test/runtime/exec/AloneCommunicator.h"

#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <numeric>

namespace polyrank::runtime::test {
namespace {

/// One rank's program of a plan; tests read its metrics.
struct Rank {
  Rank(const plan::PlanT &plan, int rank, int64_t seed = 0)
      : bytes(serialise(plan)) {
    auto verified = verifyPlan(bytes);
    EXPECT_TRUE(verified) << verified.error().message;
    const plan::Plan &packed = **verified;
    device = *CpuDevice::create(*packed.images()->Get(0),
                                std::make_shared<HostTeam>(1, true));
    communicator =
        std::make_unique<AloneCommunicator>(rank, int(Mesh(packed).ranks()));
    program = *RankProgram::create(packed, *device, *communicator, seed);
  }

  double metric(const std::string &name) const {
    auto metrics = program->metrics();
    EXPECT_TRUE(metrics);
    for (const Metric &metric : *metrics)
      if (metric.name == name)
        return metric.value;
    ADD_FAILURE() << "no metric " << name;
    return 0;
  }

  std::vector<uint8_t> bytes;
  std::unique_ptr<CpuDevice> device;
  std::unique_ptr<AloneCommunicator> communicator;
  std::unique_ptr<RankProgram> program;
};

plan::BufferRef bufferAt(uint64_t offset, uint64_t size) {
  return plan::BufferRef(offset, size, 0, 0, 0, 0, 0, plan::Region::Private);
}

/// Adds a metric that shows the value at an offset of the private region.
void lookAt(plan::PlanT &plan, const std::string &name, plan::ElementType type,
            uint64_t offset) {
  auto output = std::make_unique<plan::OutputT>();
  output->name = name;
  output->dtype = type;
  output->buffer =
      std::make_unique<plan::BufferRef>(bufferAt(offset, elementSize(type)));
  plan.programs[0]->outputs.push_back(std::move(output));
}

std::unique_ptr<plan::ArgumentT> argument(const std::string &name,
                                          plan::Role role,
                                          plan::ElementType type,
                                          uint64_t offset, uint64_t size) {
  auto result = std::make_unique<plan::ArgumentT>();
  result->name = name;
  result->role = role;
  result->dtype = type;
  result->buffer = std::make_unique<plan::BufferRef>(bufferAt(offset, size));
  return result;
}

TEST(RankProgram, MetricsOfEveryTypeHaveTheirValue) {
  plan::PlanT plan = linearPlan({});
  plan::ProgramT &program = *plan.programs[0];
  auto add = [&](const char *name, plan::ElementType type, auto value) {
    auto constant = std::make_unique<plan::ConstantT>();
    constant->buffer = std::make_unique<plan::BufferRef>(
        bufferAt(program.private_size, sizeof(value)));
    constant->data.resize(sizeof(value));
    std::memcpy(constant->data.data(), &value, sizeof(value));
    program.constants.push_back(std::move(constant));
    lookAt(plan, name, type, program.private_size);
    program.private_size += 64;
  };
  add("f16", plan::ElementType::F16, uint16_t(0xc100));
  add("bf16", plan::ElementType::BF16, uint16_t(0x4049));
  add("f64", plan::ElementType::F64, 0.1);
  add("i8", plan::ElementType::I8, int8_t(-3));
  add("u8", plan::ElementType::U8, uint8_t(253));
  add("bool", plan::ElementType::BOOL, uint8_t(1));
  add("i32", plan::ElementType::I32, int32_t(-70000));
  Rank rank(plan, 0);
  EXPECT_EQ(rank.metric("f16"), -2.5);
  EXPECT_EQ(rank.metric("bf16"), 3.140625);
  EXPECT_EQ(rank.metric("f64"), 0.1);
  EXPECT_EQ(rank.metric("i8"), -3);
  EXPECT_EQ(rank.metric("u8"), 253);
  EXPECT_EQ(rank.metric("bool"), 1);
  EXPECT_EQ(rank.metric("i32"), -70000);
}

// The rates are computed before each step, since other buffers use their memory
// in between.
TEST(RankProgram, ComputesTheLearningRatesOfAStepBeforeItRuns) {
  plan::PlanT plan = linearPlan({});
  plan.learning_rate = 8;
  plan.lr_schedule = "linear(total=4)";
  plan::ProgramT &program = *plan.programs[0];
  uint64_t end = program.private_size;
  program.private_size += 256;
  auto add = [&](const char *name, double rate, bool isRelative) {
    program.arguments.push_back(argument(name, plan::Role::LearningRate,
                                         plan::ElementType::F64, end, 8));
    program.arguments.back()->rate = rate;
    program.arguments.back()->relative = isRelative;
    lookAt(plan, name, plan::ElementType::F64, end);
    end += 64;
  };
  add("base", 1, true);
  add("half", 0.5, true);
  add("own", 0.25, false);
  Rank rank(plan, 0);
  auto expectRates = [&](uint64_t step, double base, double half, double own) {
    ASSERT_TRUE(rank.program->runStep(step));
    EXPECT_EQ(rank.metric("base"), base);
    EXPECT_EQ(rank.metric("half"), half);
    EXPECT_EQ(rank.metric("own"), own);
  };
  expectRates(1, 8, 4, 0.25);
  expectRates(3, 4, 2, 0.125);
  std::vector<Metric> logged = rank.program->learningRates(3);
  ASSERT_EQ(logged.size(), 3u);
  EXPECT_EQ(logged[0].name, "lr");
  EXPECT_EQ(logged[1].name, "lr(x0.5)");
  EXPECT_EQ(logged[2].name, "lr(0.25)");
  EXPECT_EQ(logged[1].value, 2);

  const plan::Plan &packed = *plan::GetPlan(rank.bytes.data());
  rank.program->setLearningRates(*LearningRates::of(packed, 2, "constant"));
  expectRates(3, 2, 1, 0.25);
  auto messageOf = [](Result<LearningRates> rates) {
    return rates ? "" : rates.error().message;
  };
  EXPECT_NE(messageOf(LearningRates::of(packed, -1)).find("not negative"),
            std::string::npos);
  EXPECT_NE(messageOf(LearningRates::of(packed, {}, "cosine"))
                .find("--lr-schedule 'cosine': cosine: give total"),
            std::string::npos);
}

TEST(RankProgram, RefusesALearningRateWhereNoneIsRelativeToIt) {
  plan::PlanT plan = linearPlan({});
  plan::ProgramT &program = *plan.programs[0];
  program.arguments.push_back(argument("own", plan::Role::LearningRate,
                                       plan::ElementType::F64,
                                       program.private_size, 8));
  program.private_size += 64;
  std::vector<uint8_t> bytes = serialise(plan);
  const plan::Plan &packed = *plan::GetPlan(bytes.data());
  EXPECT_TRUE(LearningRates::of(packed, {}, "constant"));
  Result<LearningRates> rates = LearningRates::of(packed, 0.5);
  ASSERT_FALSE(rates);
  EXPECT_NE(rates.error().message.find("--lr 0.5: each group of the plan has a "
                                       "learning rate of its own"),
            std::string::npos);
}

TEST(RankProgram, HoldsConstantsSeedStateAndItsIndicesBeforeTheFirstStep) {
  LinearModel model;
  model.data = 2, model.tensor = 4;
  plan::PlanT plan = linearPlan(model);
  plan::ProgramT &program = *plan.programs[0];
  uint64_t end = program.private_size;
  program.private_size += 256;
  program.arguments.push_back(
      argument("seed", plan::Role::Seed, plan::ElementType::I64, end, 8));
  program.arguments.push_back(argument("scale", plan::Role::State,
                                       plan::ElementType::F32, end + 64, 4));
  program.arguments.back()->init = 2.5;
  program.arguments.push_back(argument("steps", plan::Role::State,
                                       plan::ElementType::I64, end + 72, 8));
  auto index = std::make_unique<plan::AxisIndexT>();
  index->buffer = std::make_unique<plan::BufferRef>(bufferAt(end + 128, 8));
  index->axes = std::make_unique<plan::AxisListT>();
  index->axes->axes = {plan::AxisRef(1, 2, 2), plan::AxisRef(0, 1, 2)};
  program.axis_indices.push_back(std::move(index));
  uint64_t constant = program.constants[0]->buffer->offset();
  lookAt(plan, "seed", plan::ElementType::I64, end);
  lookAt(plan, "scale", plan::ElementType::F32, end + 64);
  lookAt(plan, "steps", plan::ElementType::I64, end + 72);
  lookAt(plan, "index", plan::ElementType::I64, end + 128);
  lookAt(plan, "constant", plan::ElementType::I64, constant);
  for (int number = 0; number < 8; ++number) {
    Rank rank(plan, number, 1234);
    EXPECT_EQ(rank.metric("seed"), 1234);
    EXPECT_EQ(rank.metric("scale"), 2.5);
    EXPECT_EQ(rank.metric("steps"), 0);
    // The last bit of tensor=0..3, then data.
    EXPECT_EQ(rank.metric("index"), number % 2 * 2 + number / 4);
    EXPECT_EQ(rank.metric("constant"), program.constants[0]->data[0]);
  }
}

TEST(RankProgram, ACollectiveIsOfItsGroupItsMicrobatchAndTheRanksBlock) {
  LinearModel model;
  model.data = 2, model.tensor = 2, model.microbatches = 3, model.batch = 12;
  plan::PlanT plan = linearPlan(model);
  plan::ProgramT &program = *plan.programs[0];
  program.shared_size = 4096;
  program.groups.push_back(std::make_unique<plan::AxisListT>());
  program.groups.back()->axes = {plan::AxisRef(1, 1, 2)}; // group 2
  for (int segment : {firstSegment, nextSegment}) {
    plan::CollectiveT gather;
    gather.kind = plan::CollectiveKind::AllGather;
    gather.group = 2;
    gather.id = 50 + segment;
    gather.transfers.push_back(std::make_unique<plan::TransferT>());
    plan::TransferT &transfer = *gather.transfers[0];
    transfer.inner = 4;
    transfer.input = std::make_unique<plan::BufferRef>(1024, 16, 128, 16, 0, 0,
                                                       3, plan::Region::Shared);
    transfer.output = std::make_unique<plan::BufferRef>(
        2048, 32, 256, 0, 0, 0, 0, plan::Region::Shared);
    auto command = std::make_unique<plan::CommandT>();
    command->body.Set(std::move(gather));
    program.segments[segment]->commands.push_back(std::move(command));
  }
  assignQueues(plan);
  for (int number = 0; number < 4; ++number) {
    Rank rank(plan, number);
    ASSERT_TRUE(rank.program->runStep(0));
    int first = number / 2 * 2;
    EXPECT_EQ(rank.communicator->groups[2],
              (std::vector<int32_t>{first, first + 1}));
    const auto &done = rank.communicator->collectives;
    ASSERT_EQ(done.size(), 3u + 2); // and two of the update
    for (size_t microbatch = 0; microbatch < 3; ++microbatch) {
      EXPECT_EQ(done[microbatch].group, 2u);
      EXPECT_EQ(done[microbatch].id, microbatch == 0 ? 50u : 51u);
      EXPECT_EQ(done[microbatch].transfer.input,
                1024 + 128 * microbatch + number % 2 * 16);
      EXPECT_EQ(done[microbatch].transfer.output, 2048 + 256 * microbatch);
    }
  }
}

TEST(RankProgram, RefusesALinkThatItsCommunicatorCannotEmulate) {
  LinearModel model;
  model.data = 2;
  std::vector<uint8_t> bytes = serialise(linearPlan(model));
  const plan::Plan &packed = **verifyPlan(bytes);
  auto device = *CpuDevice::create(*packed.images()->Get(0),
                                   std::make_shared<HostTeam>(1, true));
  std::vector<std::string> given{"data=20:2"};
  Links links = *Links::parse(Mesh(packed), given);
  CommunicatorProperties properties = fullProperties("alone");
  for (bool emulates : {true, false}) {
    properties.emulatesLinks = emulates;
    AloneCommunicator communicator(0, 2, properties);
    auto made = RankProgram::create(packed, *device, communicator, 0, links);
    ASSERT_EQ(bool(made), emulates);
    if (!made)
      EXPECT_EQ(made.error().message,
                "the communicator 'alone' emulates no links, and --link gives "
                "one to data; run without it");
  }
}

TEST(RankProgram, AWaitIsForTheCollectiveOfItsRequestInItsSegment) {
  LinearModel model;
  model.data = 2, model.tensor = 2;
  plan::PlanT plan = linearPlan(model);
  // 0 starts the gradient's, 2 the loss's; waits for that one and then this.
  startEarly(plan, updateSegment, 0, 3, 9);
  startEarly(plan, updateSegment, 2, 3, 4);
  Rank rank(plan, 0);
  for (uint64_t step : {0, 1}) {
    ASSERT_TRUE(rank.program->runStep(step));
    const auto &done = rank.communicator->collectives;
    ASSERT_EQ(done.size(), 2 * (step + 1));
    EXPECT_EQ(done[2 * step].id, 1u);
    EXPECT_EQ(done[2 * step + 1].id, 2u);
    EXPECT_EQ(rank.communicator->waits.back(), 2 * step + 1);
    EXPECT_EQ(rank.communicator->waits[2 * step], 2 * step + 2);
  }
  const CommandTimes &times = rank.program->times();
  EXPECT_EQ(times.counts[int(plan::CommandBody::Wait)], 4u);
  EXPECT_EQ(times.communication(),
            times.nanoseconds[int(plan::CommandBody::Wait)] +
                times.nanoseconds[int(plan::CommandBody::Collective)]);
}

TEST(Profile, TellsStartsFromWaitsWhichHaveTheBytes) {
  LinearModel model;
  model.data = 2, model.tensor = 2;
  plan::PlanT plan = linearPlan(model);
  plan.programs[0]->reasons[0]->bytes = 24;
  startEarly(plan, updateSegment, 0, 3, 9);
  Rank rank(plan, 0);
  rank.program->startProfile();
  for (uint64_t step : {0, 1})
    ASSERT_TRUE(rank.program->runStep(step));
  std::map<std::string, ProfileLine> lines;
  for (const ProfileLine &line : rank.program->profile()->lines(
           *plan::GetPlan(rank.bytes.data()), {1, 2}))
    lines[line.command] = line;
  const ProfileLine &start = lines.at("start AllReduce"),
                    &wait = lines.at("wait for AllReduce"),
                    &whole = lines.at("AllReduce"); // the loss's
  EXPECT_EQ(start.kind, "collective");
  EXPECT_EQ(wait.kind, "wait");
  EXPECT_EQ(start.bytes, 0);
  EXPECT_EQ(start.floor, 0);
  EXPECT_EQ(wait.bytes, 24);
  EXPECT_EQ(wait.floor, 24); // read and written, at two bytes a second
  EXPECT_EQ(whole.bytes, 4);
  for (const ProfileLine *line : {&start, &wait, &whole})
    EXPECT_EQ(line->count, 1u);
}

TEST(RankProgram, WhatIsPaddingOfAnInputIsZeroWhateverWasThere) {
  TemporaryDirectory directory;
  std::string data = directory / "data.npz";
  auto writer = NpzWriter::create(data);
  ASSERT_TRUE(writer);
  constexpr int64_t samples = 5;
  std::vector<float> x(samples * features), t(samples * targets, 1);
  std::iota(x.begin(), x.end(), 1.0f);
  for (auto [name, values, width] :
       {std::tuple("x", &x, features), {"labels", &t, targets}}) {
    std::vector<int64_t> shape{samples, width};
    ASSERT_TRUE(writer->add(name, ElementType::F32, shape,
                            std::as_bytes(std::span(*values))));
  }
  ASSERT_TRUE(writer->commit());

  LinearModel model;
  model.data = 2, model.batch = 5; // blocks of 3, the last with one of padding
  plan::PlanT plan = linearPlan(model);
  plan::ProgramT &program = *plan.programs[0];
  uint64_t inputs = program.arguments[inputArgument]->buffer->offset();
  // A state that had the memory before.
  program.arguments.push_back(argument("before", plan::Role::State,
                                       plan::ElementType::F32, inputs, 4 * 9));
  program.arguments.back()->dims.push_back(std::make_unique<plan::DimT>());
  program.arguments.back()->dims[0]->size = 9;
  program.arguments.back()->dims[0]->padded = 9;
  program.arguments.back()->init = 7;
  for (int i = 0; i < 9; ++i)
    lookAt(plan, std::to_string(i), plan::ElementType::F32, inputs + 4 * i);
  for (int number = 0; number < 2; ++number) {
    Rank rank(plan, number);
    EXPECT_EQ(rank.metric("8"), 7);
    const plan::Plan &packed = *plan::GetPlan(rank.bytes.data());
    auto source = DataSource::open(
        {.paths = {data}, .batch = 5, .order = SampleOrder::Sequential},
        inputSpecsOf(packed));
    ASSERT_TRUE(source) << source.error().message;
    ASSERT_TRUE(rank.program->fillInputs(*source, Split::Train, 0));
    for (int i = 0; i < 9; ++i)
      EXPECT_EQ(rank.metric(std::to_string(i)),
                9 * number + i < 15 ? 9 * number + i + 1 : 0)
          << "rank " << number << " element " << i;
  }
}

TEST(RankProgram, AParameterIsLoadedFromNumbersOfItsKindOrNotAtAll) {
  std::vector<float> stored(targets * features, 1.5f);
  StoredSource good{
      ElementType::F32,
      [&](uint64_t offset, void *into, uint64_t length) -> Result<void> {
        std::memcpy(into, reinterpret_cast<std::byte *>(stored.data()) + offset,
                    length);
        return {};
      }};
  StoredSource integers = good;
  integers.dtype = ElementType::I32;
  plan::PlanT plan = linearPlan({});
  lookAt(plan, "weight", plan::ElementType::F32, 0);
  Rank rank(plan, 0);
  auto refusal = [&](const StoredSource &source) {
    auto loaded = rank.program->loadParameters({source});
    return loaded ? "" : loaded.error().message;
  };
  EXPECT_NE(refusal(integers).find("is stored as i32 and used as f32"),
            std::string::npos)
      << refusal(integers);
  EXPECT_NE(refusal({}).find("has no values in the model's file"),
            std::string::npos)
      << refusal({});
  EXPECT_EQ(rank.metric("weight"), 0);
  EXPECT_EQ(refusal(good), "");
  EXPECT_EQ(rank.metric("weight"), 1.5);
}

std::vector<SavedTensor> savedOf(const plan::PlanT &plan,
                                 const SavedWeights &what = {}) {
  std::vector<uint8_t> bytes = serialise(plan);
  return savedTensorsOf(*plan::GetPlan(bytes.data()), what);
}

TEST(SavedTensors, AreCompleteWhereArgumentsCoverThem) {
  LinearModel model;
  model.tensor = 2;
  plan::PlanT plan = linearPlan(model);
  auto &arguments = plan.programs[0]->arguments;
  ASSERT_EQ(savedOf(plan).size(), 1u);
  EXPECT_TRUE(savedOf(plan)[0].complete);
  EXPECT_EQ(savedOf(plan)[0].dtype, ElementType::F32);

  // In part: two of the three columns.
  arguments[weightArgument]->dims[0]->size = 2;
  EXPECT_FALSE(savedOf(plan)[0].complete);

  // Optimizer state is stored like its parameter, but is not the parameter.
  auto state =
      argument("moment", plan::Role::State, plan::ElementType::F64, 0, 0);
  state->view = std::make_unique<plan::ViewT>();
  state->state_of = "linear.weight";
  state->state_suffix = "moment";
  for (int64_t size : {features, targets}) {
    state->dims.push_back(std::make_unique<plan::DimT>());
    state->dims.back()->size = size;
  }
  arguments.push_back(std::move(state));
  EXPECT_FALSE(savedOf(plan)[0].complete);
  EXPECT_EQ(savedOf(plan)[0].dtype, ElementType::F32);
  EXPECT_FALSE(savedOf(plan)[0].isState);

  // Unless the state is to be saved in the parameter's place.
  SavedTensor moment = savedOf(plan, {.state = "moment"})[0];
  EXPECT_TRUE(moment.isState);
  EXPECT_TRUE(moment.complete);
  EXPECT_EQ(moment.dtype, ElementType::F64);
  EXPECT_FALSE(savedOf(plan, {.state = "mean"})[0].isState);

  // The third column, as another argument.
  auto rest =
      argument("rest", plan::Role::Parameter, plan::ElementType::F32, 0, 0);
  rest->view = std::make_unique<plan::ViewT>();
  rest->dims.push_back(std::make_unique<plan::DimT>());
  rest->dims[0]->size = targets - 1;
  arguments.push_back(std::move(rest));
  EXPECT_FALSE(savedOf(plan)[0].complete);
  arguments.back()->dims[0]->size = targets;
  EXPECT_TRUE(savedOf(plan)[0].complete);
}

TEST(SavedTensors, AreFloatsOfTheTypeThatIsAskedFor) {
  auto saved = [](plan::ElementType inFile, ElementType held,
                  ElementType floats, bool complex = false) {
    plan::PlanT plan = linearPlan({});
    plan.stored[0]->dtype = inFile;
    plan.stored[0]->complex = complex;
    std::vector<uint8_t> bytes = serialise(plan);
    return savedTypeOf(*plan::GetPlan(bytes.data())->stored()->Get(0), held,
                       {.floats = floats});
  };
  using InFile = plan::ElementType;
  for (ElementType to : {ElementType::BF16, ElementType::F16})
    EXPECT_EQ(saved(InFile::F32, ElementType::F32, to), to);
  EXPECT_EQ(saved(InFile::BF16, ElementType::F32, ElementType::F32),
            ElementType::F32);
  EXPECT_EQ(saved(InFile::BF16, ElementType::F32, ElementType::UNDEFINED),
            ElementType::BF16);
  // What no program holds is as wide as in the file, unless it is rounded.
  EXPECT_EQ(saved(InFile::F64, ElementType::F64, ElementType::F32),
            ElementType::F64);
  EXPECT_EQ(saved(InFile::F64, ElementType::F64, ElementType::F16),
            ElementType::F16);
  // Only floats are rounded, and no complex numbers.
  EXPECT_EQ(saved(InFile::I64, ElementType::I32, ElementType::BF16),
            ElementType::I32);
  EXPECT_EQ(saved(InFile::I64, ElementType::F32, ElementType::UNDEFINED),
            ElementType::F32);
  EXPECT_EQ(saved(InFile::F32, ElementType::F32, ElementType::BF16, true),
            ElementType::F32);
}

TEST(SavedTensors, AreTrainedWhereAnArgumentIs) {
  plan::PlanT plan = linearPlan({});
  plan::ArgumentT &weight = *plan.programs[0]->arguments[weightArgument];
  for (bool trainable : {false, true}) {
    weight.trainable = trainable;
    EXPECT_EQ(savedOf(plan)[0].isTrained, trainable);
  }
}

TEST(SavedTensors, ThatNoArgumentHoldsAreCompleteOnlyWithoutElements) {
  plan::PlanT plan = linearPlan({});
  for (int64_t size : {5, 0}) {
    plan.stored.push_back(std::make_unique<plan::StoredTensorT>());
    plan.stored.back()->name = std::to_string(size);
    plan.stored.back()->shape = {3, size};
    plan.stored.back()->dtype = plan::ElementType::F16;
  }
  std::vector<SavedTensor> saved = savedOf(plan);
  ASSERT_EQ(saved.size(), 3u);
  EXPECT_TRUE(saved[0].complete);
  EXPECT_FALSE(saved[1].complete);
  EXPECT_TRUE(saved[2].complete);
  EXPECT_EQ(saved[1].dtype, ElementType::F16);
}

} // namespace
} // namespace polyrank::runtime::test
