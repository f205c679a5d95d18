// Builds plans of a linear model.

#include "test/runtime/PlanBuilder.h"

#include "runtime/plan/Queues.h"
#include "support/Fingerprint.h"
#include "test/runtime/PlanParts.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace polyrank::runtime::test {

using namespace plan;

void sign(FileSpanT &span) {
  auto file = InputFile::open(span.path);
  if (!file)
    return;
  auto digests = digestsOf(*file, span.offset, span.length);
  span.digests = digests ? *digests : std::vector<uint64_t>();
}

namespace {

struct Parts {
  PlanT plan;
  Arena arena;
  std::vector<AxisRef> data, tensor;
  BufferRef weight, inputs, input, labels, label, product;
  int64_t batch = 0, width = 0; // local
};

/// Builds what training and forward plans share: header, weight, inputs, GEMM.
Parts linearParts(const LinearModel &model, Mode mode) {
  Parts parts;
  PlanT &plan = parts.plan;
  plan.version = planSchemaVersion;
  plan.compiler = "test";
  plan.model = "linear";
  plan.mode = mode;
  for (auto [name, size] :
       {std::pair<const char *, int64_t>("data", model.data),
        {"tensor", model.tensor}}) {
    plan.mesh.push_back(std::make_unique<AxisT>());
    plan.mesh.back()->name = name;
    plan.mesh.back()->size = size;
  }
  plan.microbatches = static_cast<uint32_t>(model.microbatches);
  plan.threads = static_cast<uint32_t>(model.threads);
  plan.tokens_per_sample = 1;
  plan.samples_per_step = model.microbatches * model.batch;
  plan.images.push_back(testImage());

  auto stored = std::make_unique<StoredTensorT>();
  stored->name = "linear.weight";
  stored->shape = {targets, features};
  stored->aliases = {"tied.weight"};
  if (!model.weights.empty()) {
    stored->source = std::make_unique<FileSpanT>();
    stored->source->path = model.weights;
    stored->source->offset = 16;
    stored->source->length = 4 * targets * features;
    sign(*stored->source);
  }
  plan.stored.push_back(std::move(stored));

  parts.data = {AxisRef(0, 1, model.data)};
  parts.tensor = {AxisRef(1, 1, model.tensor)};
  auto program = std::make_unique<ProgramT>();
  program->target = "cpu";
  auto weightColumns = dim(targets, parts.tensor);
  auto batchDim = dim(model.batch, parts.data);
  parts.width = weightColumns->padded / model.tensor;
  parts.batch = batchDim->padded / model.data;
  uint64_t inputBytes = 4 * parts.batch * features,
           labelBytes = 4 * parts.batch * parts.width;
  uint64_t count = static_cast<uint64_t>(model.microbatches);
  parts.weight = parts.arena.take(Region::Private, 4 * features * parts.width);
  parts.inputs = parts.arena.take(Region::Private, inputBytes * count);
  parts.input =
      BufferRef(parts.inputs.offset(), inputBytes, count > 1 ? inputBytes : 0,
                0, 0, 0, 0, Region::Private);
  parts.labels = parts.arena.take(Region::Private, labelBytes * count);
  parts.label =
      BufferRef(parts.labels.offset(), labelBytes, count > 1 ? labelBytes : 0,
                0, 0, 0, 0, Region::Private);

  auto weight = std::make_unique<ArgumentT>();
  weight->name = "linear.weight";
  weight->role = Role::Parameter;
  weight->trainable = true;
  weight->dims = dims(dim(features), std::move(weightColumns));
  weight->buffer = copyOf(parts.weight);
  weight->view = std::make_unique<ViewT>();
  weight->view->strides = {1, features};
  program->arguments.push_back(std::move(weight));

  auto input = std::make_unique<ArgumentT>();
  input->name = "x";
  input->role = Role::Input;
  input->dims =
      dims(dim(model.microbatches), std::move(batchDim), dim(features));
  input->buffer = copyOf(parts.inputs);
  program->arguments.push_back(std::move(input));

  program->groups.push_back(axisList(parts.data));
  program->groups.push_back(axisList({parts.data[0], parts.tensor[0]}));
  plan.programs.push_back(std::move(program));
  return parts;
}

void finish(Parts &parts) {
  ProgramT &program = *parts.plan.programs[0];
  program.shared_size = parts.arena.shared;
  program.private_size = parts.arena.unshared;
  program.memory_lower_bound = parts.arena.shared + parts.arena.unshared;
}

} // namespace

PlanT linearPlan(const LinearModel &model) {
  Parts parts = linearParts(model, Mode::Train);
  ProgramT &program = *parts.plan.programs[0];
  int64_t batch = parts.batch, width = parts.width;

  auto labels = std::make_unique<ArgumentT>();
  labels->name = "labels";
  labels->role = Role::Labels;
  labels->dims = dims(dim(model.microbatches), dim(model.batch, parts.data),
                      dim(targets, parts.tensor));
  labels->buffer = copyOf(parts.labels);
  program.arguments.push_back(std::move(labels));

  Arena &arena = parts.arena;
  BufferRef y = arena.take(Region::Private, 4 * batch * width);
  BufferRef d = arena.take(Region::Private, 4 * batch * width);
  // squares4 takes rows of four.
  int64_t rows = batch * width / 4;
  BufferRef squares = arena.take(Region::Private, 4 * rows);
  BufferRef rowCount = arena.take(Region::Private, 8);
  BufferRef gradient = arena.take(Region::Shared, 4 * features * width);
  BufferRef loss = arena.take(Region::Shared, 4);

  auto constant = std::make_unique<ConstantT>();
  constant->buffer = copyOf(rowCount);
  constant->data.resize(8);
  constant->data[0] = static_cast<uint8_t>(rows);
  program.constants.push_back(std::move(constant));

  for (bool first : {true, false}) {
    auto segment = std::make_unique<SegmentT>();
    segment->name = first ? "first" : "next";
    auto add = [&](auto body, const char *origin) {
      segment->commands.push_back(command(std::move(body), origin));
    };
    if (first)
      add(launch(zero, rows, {}, {squares}), "loss");
    add(gemm(batch, width, features, parts.input, false, parts.weight, y, 0),
        "linear");
    add(launch(difference, batch * width, {y, parts.label}, {d}), "loss");
    add(launch(squares4, rows, {d}, {squares}), "loss");
    add(gemm(features, width, batch, parts.input, true, d, gradient,
             first ? 0 : 1),
        "linear.gradient");
    program.segments.push_back(std::move(segment));
  }
  auto update = std::make_unique<SegmentT>();
  update->name = "update";
  auto add = [&](auto body, const char *origin) {
    update->commands.push_back(command(std::move(body), origin));
  };
  add(allReduce(0, 1, gradient), "linear.gradient");
  add(launch(total, 1, {squares, rowCount}, {loss}), "loss");
  add(allReduce(1, 2, loss), "loss");
  add(launch(descend, features * width, {gradient}, {parts.weight}),
      "optimizer");
  program.segments.push_back(std::move(update));

  program.schedule.emplace_back(firstSegment, 0);
  for (int64_t m = 1; m < model.microbatches; ++m)
    program.schedule.emplace_back(nextSegment, static_cast<uint32_t>(m));
  program.schedule.emplace_back(updateSegment, 0);

  auto metric = std::make_unique<OutputT>();
  metric->name = "loss";
  metric->kind = OutputKind::Metric;
  metric->buffer = copyOf(loss);
  program.outputs.push_back(std::move(metric));
  for (const char *value : {"linear.weight gradient", "loss"}) {
    auto reason = std::make_unique<ReasonT>();
    reason->value = value;
    reason->op = "linear";
    reason->from_layout = "partial";
    reason->to_layout = "replicated";
    program.reasons.push_back(std::move(reason));
  }
  finish(parts);
  assignQueues(parts.plan);
  return std::move(parts.plan);
}

PlanT linearForwardPlan(const LinearModel &model) {
  Parts parts = linearParts(model, Mode::Forward);
  ProgramT &program = *parts.plan.programs[0];
  auto segment = std::make_unique<SegmentT>();
  segment->name = "forward";
  // The labels' buffer holds the output of all microbatches.
  segment->commands.push_back(
      command(gemm(parts.batch, parts.width, features, parts.input, false,
                   parts.weight, parts.label, 0),
              "linear"));
  program.segments.push_back(std::move(segment));
  for (int64_t m = 0; m < model.microbatches; ++m)
    program.schedule.emplace_back(0, static_cast<uint32_t>(m));
  auto output = std::make_unique<OutputT>();
  output->name = "y";
  output->kind = OutputKind::Tensor;
  output->dims = dims(dim(model.microbatches), dim(model.batch, parts.data),
                      dim(targets, parts.tensor));
  output->buffer = copyOf(parts.labels);
  program.outputs.push_back(std::move(output));
  finish(parts);
  return std::move(parts.plan);
}

void startEarly(PlanT &plan, int segment, int number, int wait,
                uint32_t request) {
  auto &commands = plan.programs[0]->segments[segment]->commands;
  commands[number]->body.AsCollective()->request = request;
  WaitT body;
  body.request = request;
  auto added = command(std::move(body), commands[number]->origin);
  added->phase = commands[number]->phase;
  commands.insert(commands.begin() + wait, std::move(added));
}

void assignQueues(PlanT &plan) {
  for (auto &program : plan.programs) {
    QueueNumbers numbers;
    auto digitsOf = [&](uint32_t group) {
      AxisDigits digits;
      for (const AxisRef &ref : program->groups[group]->axes)
        digits.push_back({ref.axis(), ref.pre(), ref.size()});
      return digits;
    };
    for (auto &segment : program->segments)
      for (auto &command : segment->commands) {
        CommandBodyUnion &body = command->body;
        if (const CollectiveT *collective = body.AsCollective())
          command->queue = numbers.ofGroup(digitsOf(collective->group));
        else if (const SendT *send = body.AsSend())
          command->queue =
              numbers.ofLink(digitsOf(send->group), send->from, send->to);
        else if (const ReceiveT *receive = body.AsReceive())
          command->queue = numbers.ofLink(digitsOf(receive->group),
                                          receive->from, receive->to);
      }
    program->communication_queues = numbers.count();
  }
}

std::vector<uint8_t> serialise(const PlanT &plan) {
  flatbuffers::FlatBufferBuilder builder;
  FinishPlanBuffer(builder, Plan::Pack(builder, &plan));
  return {builder.GetBufferPointer(),
          builder.GetBufferPointer() + builder.GetSize()};
}

LoadedPlan load(const PlanT &plan) {
  TemporaryDirectory directory;
  if (!writePlan(directory / "a.plan", serialise(plan)))
    throw std::runtime_error("cannot write the plan");
  auto loaded = loadPlan(directory / "a.plan");
  if (!loaded)
    throw std::runtime_error(loaded.error().message);
  return *std::move(loaded);
}

std::vector<uint8_t> testKernels() {
  std::string image = readFile(POLYRANK_TEST_KERNELS);
  return {image.begin(), image.end()};
}

std::unique_ptr<ImageT> testImage() {
  auto image = std::make_unique<ImageT>();
  image->target = "cpu";
  image->requirements = std::make_unique<RequirementsT>();
  image->requirements->machine = "x86-64";
  image->requirements->features = {"+sse2"};
  image->symbols = kernelNames;
  image->bytes = testKernels();
  return image;
}

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "polyrank-test-XXXXXX")
          .string();
  if (!mkdtemp(pattern.data()))
    throw std::runtime_error("mkdtemp");
  path = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

void writeFile(const std::string &path, const void *data, size_t size) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char *>(data),
             static_cast<std::streamsize>(size));
}

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

} // namespace polyrank::runtime::test
