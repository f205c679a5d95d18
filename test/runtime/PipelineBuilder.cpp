// Builds plans of a pipeline of two programs.

#include "test/runtime/PipelineBuilder.h"

#include "test/runtime/PlanParts.h"

namespace polyrank::runtime::test {
namespace {

constexpr int64_t hidden = 3;

std::vector<AxisRef> dataAxes(const PipelineModel &model) {
  return {AxisRef(0, 1, model.data)};
}

/// Returns the plan's header and stored tensors, common to both programs.
PlanT planOf(const PipelineModel &model, Mode mode) {
  PlanT plan;
  plan.version = planSchemaVersion;
  plan.compiler = "test";
  plan.model = "pipeline";
  plan.mode = mode;
  for (auto [name, size] :
       {std::pair<const char *, int64_t>("data", model.data), {"pipe", 2}}) {
    plan.mesh.push_back(std::make_unique<AxisT>());
    plan.mesh.back()->name = name;
    plan.mesh.back()->size = size;
  }
  plan.microbatches = static_cast<uint32_t>(model.microbatches);
  plan.threads = 1;
  plan.samples_per_step =
      static_cast<uint64_t>(model.microbatches * model.batch);
  plan.images.push_back(testImage());
  uint64_t offset = 16;
  for (auto [name, rows] :
       {std::pair<const char *, int64_t>("first.weight", hidden),
        {"second.weight", targets}}) {
    auto stored = std::make_unique<StoredTensorT>();
    stored->name = name;
    stored->shape = {rows, features};
    uint64_t bytes = 4 * static_cast<uint64_t>(rows) * features;
    if (!model.weights.empty()) {
      stored->source = std::make_unique<FileSpanT>();
      stored->source->path = model.weights;
      stored->source->offset = offset;
      stored->source->length = bytes;
      sign(*stored->source);
    }
    offset += bytes;
    plan.stored.push_back(std::move(stored));
  }
  return plan;
}

/// One program at a coordinate of the pipe axis.
class Stage {
public:
  Stage(const PipelineModel &model, int64_t coordinate)
      : model(model), batch(model.batch / model.data),
        program(std::make_unique<ProgramT>()) {
    program->target = "cpu";
    program->at.emplace_back(1, coordinate);
    AxisRef data(0, 1, model.data), pipe(1, 1, 2);
    program->groups.push_back(axisList({data}));
    program->groups.push_back(axisList({pipe}));
    program->groups.push_back(axisList({data, pipe}));
  }

  BufferRef addParameter(const char *name, uint32_t stored, int64_t rows,
                         int64_t columns, std::vector<int64_t> strides) {
    BufferRef buffer =
        arena.take(Region::Private, 4 * uint64_t(rows * columns));
    auto weight = std::make_unique<ArgumentT>();
    weight->name = name;
    weight->role = Role::Parameter;
    weight->trainable = true;
    weight->dims = dims(dim(rows), dim(columns));
    weight->buffer = copyOf(buffer);
    weight->view = std::make_unique<ViewT>();
    weight->view->stored = stored;
    weight->view->strides = std::move(strides);
    program->arguments.push_back(std::move(weight));
    return buffer;
  }

  /// Adds an input, and returns its buffer for each microbatch.
  BufferRef addInput(const char *name, Role role, int64_t width) {
    uint64_t bytes = 4 * uint64_t(batch * width),
             count = uint64_t(model.microbatches);
    BufferRef all = arena.take(Region::Private, bytes * count);
    auto input = std::make_unique<ArgumentT>();
    input->name = name;
    input->role = role;
    input->dims = dims(dim(model.microbatches),
                       dim(model.batch, dataAxes(model)), dim(width));
    input->buffer = copyOf(all);
    program->arguments.push_back(std::move(input));
    return BufferRef(all.offset(), bytes, count > 1 ? bytes : 0, 0, 0, 0, 0,
                     Region::Private);
  }

  BufferRef addCount(int64_t value) {
    BufferRef buffer = arena.take(Region::Private, 8);
    auto constant = std::make_unique<ConstantT>();
    constant->buffer = copyOf(buffer);
    constant->data.resize(8);
    constant->data[0] = static_cast<uint8_t>(value);
    program->constants.push_back(std::move(constant));
    return buffer;
  }

  void addMetric(const char *name, const BufferRef &buffer, ElementType type) {
    auto metric = std::make_unique<OutputT>();
    metric->name = name;
    metric->dtype = type;
    metric->buffer = copyOf(buffer);
    program->outputs.push_back(std::move(metric));
  }

  uint64_t valueBytes() const { return 4 * uint64_t(batch * hidden); }

  void begin(const char *name) {
    program->segments.push_back(std::make_unique<SegmentT>());
    program->segments.back()->name = name;
  }
  template <typename Body>
  void add(Body body, const char *origin) {
    program->segments.back()->commands.push_back(
        command(std::move(body), origin));
  }
  void send(const BufferRef &value, uint32_t from, uint64_t id,
            const char *origin) {
    SendT body;
    body.input = copyOf(value);
    fill(body, value, from, id);
    add(std::move(body), origin);
  }
  void receive(const BufferRef &value, uint32_t from, uint64_t id,
               const char *origin) {
    ReceiveT body;
    body.output = copyOf(value);
    fill(body, value, from, id);
    add(std::move(body), origin);
  }
  void run(uint32_t segment, int64_t microbatch) {
    program->schedule.emplace_back(segment, static_cast<uint32_t>(microbatch));
  }

  std::unique_ptr<ProgramT> finish() {
    for (const char *value : {"gradient", "loss"}) {
      auto reason = std::make_unique<ReasonT>();
      reason->value = value;
      program->reasons.push_back(std::move(reason));
    }
    program->shared_size = arena.shared;
    program->private_size = arena.unshared;
    program->memory_lower_bound = arena.shared + arena.unshared;
    return std::move(program);
  }

  const PipelineModel &model;
  int64_t batch;
  Arena arena;
  std::unique_ptr<ProgramT> program;

private:
  template <typename Body>
  void fill(Body &body, const BufferRef &value, uint32_t from, uint64_t id) {
    body.bytes = value.size();
    body.group = pipeGroup;
    body.from = from, body.to = 1 - from;
    body.slots = model.slots;
    body.id = id;
  }
};

/// c = a b^T.
CallT timesTransposed(int64_t m, int64_t n, int64_t k, const BufferRef &a,
                      const BufferRef &b, const BufferRef &c) {
  CpuGemmT product = gemmOf(m, n, k);
  product.transpose_b = true;
  product.ldb = k;
  return call(std::move(product), a, b, c);
}

} // namespace

PlanT pipelinePlan(const PipelineModel &model) {
  PlanT plan = planOf(model, Mode::Train);
  Stage first(model, 0), second(model, 1);
  int64_t batch = first.batch;

  BufferRef v =
      first.addParameter("first.weight", 0, features, hidden, {hidden, 1});
  BufferRef x = first.addInput("x", Role::Input, features);
  BufferRef h = first.arena.take(Region::Private, first.valueBytes());
  BufferRef dh = first.arena.take(Region::Private, first.valueBytes());
  BufferRef dv = first.arena.take(Region::Shared, 4 * features * hidden);
  BufferRef none = first.arena.take(Region::Shared, 4);
  first.addMetric("loss", none, ElementType::F32);
  first.addMetric("rows", first.addCount(batch), ElementType::I64);
  first.begin("forward");
  first.add(gemm(batch, hidden, features, x, false, v, h, 0), "first");
  first.send(h, 0, activation, "first");
  for (bool isFirst : {true, false}) {
    first.begin(isFirst ? "backward" : "next backward");
    first.receive(dh, 1, gradientId, "first.gradient");
    first.add(gemm(features, hidden, batch, x, true, dh, dv, isFirst ? 0 : 1),
              "first.gradient");
  }
  first.begin("update");
  first.add(allReduce(dataGroup, 1, dv), "first.gradient");
  first.add(launch(zero, 1, {}, {none}), "loss");
  first.add(allReduce(everyGroup, 2, none), "loss");
  first.add(launch(descend, features * hidden, {dv}, {v}), "optimizer");
  for (int64_t m = 0; m < model.warmUp; ++m)
    first.run(forwardSegment, m);
  for (int64_t m = 0; m < model.microbatches; ++m) {
    first.run(m == 0 ? firstBackwardSegment : nextBackwardSegment, m);
    if (m + model.warmUp < model.microbatches)
      first.run(forwardSegment, m + model.warmUp);
  }
  first.run(descentSegment, 0);

  BufferRef w =
      second.addParameter("second.weight", 1, hidden, targets, {1, features});
  BufferRef labels = second.addInput("labels", Role::Labels, targets);
  BufferRef g = second.arena.take(Region::Private, second.valueBytes());
  BufferRef dg = second.arena.take(Region::Private, second.valueBytes());
  BufferRef y =
      second.arena.take(Region::Private, 4 * uint64_t(batch * targets));
  BufferRef d =
      second.arena.take(Region::Private, 4 * uint64_t(batch * targets));
  BufferRef squares = second.arena.take(Region::Private, 4 * uint64_t(batch));
  BufferRef dw = second.arena.take(Region::Shared, 4 * hidden * targets);
  BufferRef loss = second.arena.take(Region::Shared, 4);
  BufferRef rows = second.addCount(batch);
  second.addMetric("loss", loss, ElementType::F32);
  second.addMetric("targets", second.addCount(targets), ElementType::I64);
  for (bool isFirst : {true, false}) {
    second.begin(isFirst ? "first" : "next");
    if (isFirst)
      second.add(launch(zero, batch, {}, {squares}), "loss");
    second.receive(g, 0, activation, "second");
    second.add(gemm(batch, targets, hidden, g, false, w, y, 0), "second");
    second.add(launch(difference, batch * targets, {y, labels}, {d}), "loss");
    second.add(launch(squares4, batch, {d}, {squares}), "loss");
    second.add(timesTransposed(batch, hidden, targets, d, w, dg),
               "second.gradient");
    second.send(dg, 1, gradientId, "second.gradient");
    second.add(gemm(hidden, targets, batch, g, true, d, dw, isFirst ? 0 : 1),
               "second.gradient");
  }
  second.begin("update");
  second.add(allReduce(dataGroup, 1, dw), "second.gradient");
  second.add(launch(total, 1, {squares, rows}, {loss}), "loss");
  second.add(allReduce(everyGroup, 2, loss), "loss");
  second.add(launch(descend, hidden * targets, {dw}, {w}), "optimizer");
  for (int64_t m = 0; m < model.microbatches; ++m)
    second.run(m == 0 ? firstSegment : nextSegment, m);
  second.run(updateSegment, 0);

  plan.programs.push_back(first.finish());
  plan.programs.push_back(second.finish());
  assignQueues(plan);
  return plan;
}

PlanT pipelineForwardPlan(const PipelineModel &model) {
  PlanT plan = planOf(model, Mode::Forward);
  Stage first(model, 0), second(model, 1);
  int64_t batch = first.batch;
  BufferRef v =
      first.addParameter("first.weight", 0, features, hidden, {hidden, 1});
  BufferRef x = first.addInput("x", Role::Input, features);
  BufferRef h = first.arena.take(Region::Private, first.valueBytes());
  first.begin("forward");
  first.add(gemm(batch, hidden, features, x, false, v, h, 0), "first");
  first.send(h, 0, activation, "first");

  BufferRef w =
      second.addParameter("second.weight", 1, hidden, targets, {1, features});
  BufferRef g = second.arena.take(Region::Private, second.valueBytes());
  uint64_t bytes = 4 * uint64_t(batch * targets);
  BufferRef all =
      second.arena.take(Region::Private, bytes * uint64_t(model.microbatches));
  BufferRef y(all.offset(), bytes, model.microbatches > 1 ? bytes : 0, 0, 0, 0,
              0, Region::Private);
  second.begin("forward");
  second.receive(g, 0, activation, "second");
  second.add(gemm(batch, targets, hidden, g, false, w, y, 0), "second");
  auto output = std::make_unique<OutputT>();
  output->name = "y";
  output->kind = OutputKind::Tensor;
  output->dims = dims(dim(model.microbatches),
                      dim(model.batch, dataAxes(model)), dim(targets));
  output->buffer = copyOf(all);
  second.program->outputs.push_back(std::move(output));
  for (Stage *stage : {&first, &second}) {
    for (int64_t m = 0; m < model.microbatches; ++m)
      stage->run(0, m);
    plan.programs.push_back(stage->finish());
  }
  assignQueues(plan);
  return plan;
}

} // namespace polyrank::runtime::test
