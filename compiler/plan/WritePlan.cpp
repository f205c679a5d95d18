// Writes the program of one device as the plan file that the runtime executes.

#include "compiler/plan/WritePlan.h"

#include "compiler/plan/PlanBuilder.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Provenance.h"
#include "dialects/rank/Denormals.h"
#include "dialects/rank/Programs.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/VerifyPlan.h"
#include "support/Version.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::plan;

namespace {
/// Writes the program of one function.
class ProgramWriter {
public:
  ProgramWriter(func::FuncOp function, bool isStep, fb::PlanT &plan,
                fb::ProgramT *program)
      : function(function), isStep(isStep), plan(plan), program(program) {}

  /// Writes everything except the arguments, which come first.
  LogicalResult run(const target::CompiledKernels &kernels);

private:
  void writePlace();
  LogicalResult writeOutputs(CommandWriter &writer);
  LogicalResult writeConstants();
  LogicalResult writeSegments(CommandWriter &writer);
  void writeArena();
  void addConstant(rank::BufferAttr buffer, std::vector<uint8_t> data);

  func::FuncOp function;
  bool isStep;
  fb::PlanT &plan;
  fb::ProgramT *program;
};

class PlanWriter {
public:
  PlanWriter(ArrayRef<func::FuncOp> functions, const PlanOptions &options,
             cost::Machine machine, const target::CompiledKernels &kernels)
      : functions(functions), options(options), machine(machine),
        kernels(kernels),
        isStep(func::FuncOp(functions.front()).getName().starts_with("step")) {}

  FailureOr<runtime::PlanTimeline> run(StringRef path);

private:
  void writeHeader();
  void writeImages();

  ArrayRef<func::FuncOp> functions;
  const PlanOptions &options;
  cost::Machine machine;
  const target::CompiledKernels &kernels;
  bool isStep;
  fb::PlanT plan;
};
} // namespace

/// The number of microbatches: dim 0 of each input of a step, in whichever
/// function has one.
static int64_t countMicrobatches(ArrayRef<func::FuncOp> functions) {
  for (func::FuncOp function : functions) {
    graph::Boundary boundary(function);
    for (BlockArgument argument : function.getArguments())
      if (boundary.getArgument<graph::InputAttr>(argument.getArgNumber()))
        return cast<RankedTensorType>(argument.getType()).getDimSize(0);
  }
  return 1;
}

void PlanWriter::writeHeader() {
  auto module = functions.front()->getParentOfType<ModuleOp>();
  plan.version = runtime::planSchemaVersion;
  plan.compiler = std::string("polyrank ") + versionText;
  if (StringRef model = graph::getModelName(module); !model.empty())
    plan.model = model.str();
  plan.mode = isStep && !options.forward ? fb::Mode::Train : fb::Mode::Forward;
  plan.threads = machine.getThreads();
  plan.machine = options.machine;
  plan.denormals = rank::getDenormals(module) == rank::Denormals::Flush
                       ? fb::Denormals::flush
                       : fb::Denormals::keep;
  sharding::MeshAttr mesh;
  for (func::FuncOp function : functions)
    if (!mesh)
      mesh = rank::getMesh(function);
  if (mesh)
    for (auto [name, size] :
         llvm::zip_equal(mesh.getAxisNames(), mesh.getAxisSizes())) {
      plan.mesh.push_back(std::make_unique<fb::AxisT>());
      plan.mesh.back()->name = name.str();
      plan.mesh.back()->size = size;
    }
  plan.microbatches = isStep ? countMicrobatches(functions) : 1;
  llvm::raw_string_ostream text(plan.ir);
  // Earlier stages of the compiler have verified it.
  module.print(text, OpPrintingFlags().assumeVerified());
}

void PlanWriter::writeImages() {
  for (const target::CompiledImage &compiled : kernels.images) {
    auto image = std::make_unique<fb::ImageT>();
    image->target = machine.getTarget().getName().str();
    image->format = compiled.format;
    image->requirements = std::make_unique<fb::RequirementsT>();
    image->requirements->machine = compiled.machine;
    image->requirements->features = compiled.features;
    for (const target::CompiledKernel &kernel : kernels.kernels)
      image->symbols.push_back(kernel.symbol);
    image->bytes.assign(compiled.bytes.begin(), compiled.bytes.end());
    image->unpacked = compiled.unpacked;
    for (const target::CompiledEntry &entry : compiled.entries) {
      image->entries.push_back(std::make_unique<fb::EntryT>());
      fb::EntryT &written = *image->entries.back();
      written.symbol = entry.symbol;
      written.kind = entry.kind;
      written.requested_bytes = entry.requestedBytes;
      written.loaded_bytes = entry.loadedBytes;
      written.threads = entry.threads;
      written.shared_bytes = entry.sharedBytes;
      written.registers = entry.registers;
      written.spilled_bytes = entry.spilledBytes;
      written.stack_bytes = entry.stackBytes;
    }
    plan.images.push_back(std::move(image));
  }
}

LogicalResult ProgramWriter::writeOutputs(CommandWriter &writer) {
  Operation *terminator = function.getBody().front().getTerminator();
  graph::Boundary boundary(function);
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto role = boundary.getResult<graph::OutputAttr>(i);
    if (!role)
      continue;
    StringAttr name = role.getName();
    auto type = cast<RankedTensorType>(
        function.getResultAttrOfType<TypeAttr>(i, rank::globalAttrName)
            .getValue());
    auto output = std::make_unique<fb::OutputT>();
    output->name = name.str();
    FailureOr<fb::ElementType> dtype =
        getDType(function, type.getElementType());
    if (failed(dtype))
      return failure();
    output->dtype = *dtype;
    output->dims = getDims(type);
    output->kind =
        type.getRank() == 0 ? fb::OutputKind::Metric : fb::OutputKind::Tensor;
    if (type.getRank() > 0 && !isStep) {
      output->dims.insert(output->dims.begin(), std::make_unique<fb::DimT>());
      output->dims.front()->size = output->dims.front()->padded = 1;
    }
    output->batch_dim = role.getBatchDim();
    if (output->dims.size() > 1 && role.getBatchDim() != noBatch) {
      uint64_t samples = output->dims[0]->size * output->dims[1]->size;
      if (plan.samples_per_step && plan.samples_per_step != samples)
        return function.emitError("output '")
               << name.getValue() << "' has a batch of " << samples
               << ", but the inputs have one of " << plan.samples_per_step
               << ": the batch is the first dim of each output";
    }
    output->geometric = role.getMean() == graph::MeanKind::Geometric;
    output->buffer = writer.refer(terminator->getOperand(i));
    program->outputs.push_back(std::move(output));
  }
  return success();
}

void ProgramWriter::addConstant(rank::BufferAttr buffer,
                                std::vector<uint8_t> data) {
  auto constant = std::make_unique<fb::ConstantT>();
  constant->buffer = getReference(
      rank::BufferAttr::get(buffer.getContext(), buffer.getRegion(),
                            buffer.getOffset(), data.size()));
  constant->data = std::move(data);
  program->constants.push_back(std::move(constant));
}

/// The elements in row-major order, one byte per boolean.
static std::vector<uint8_t> getBytes(DenseElementsAttr elements) {
  Type type = elements.getElementType();
  int64_t size = rank::getElementByteSize(type);
  std::vector<uint8_t> bytes;
  bytes.reserve(elements.getNumElements() * size);
  auto append = [&](const APInt &bits) {
    uint64_t word = bits.getZExtValue();
    for (int64_t i = 0; i < size; ++i)
      bytes.push_back(word >> (8 * i));
  };
  if (isa<FloatType>(type))
    for (const APFloat &value : elements.getValues<APFloat>())
      append(value.bitcastToAPInt());
  else
    for (const APInt &value : elements.getValues<APInt>())
      append(value);
  return bytes;
}

LogicalResult ProgramWriter::writeConstants() {
  WalkResult result = function.walk([&](Operation *op) {
    if (auto constant = dyn_cast<rank::ConstantOp>(op)) {
      auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (!elements) {
        op->emitOpError("holds no elements that can be written to a plan");
        return WalkResult::interrupt();
      }
      addConstant(rank::getBuffer(constant.getResult()), getBytes(elements));
    } else if (auto index = dyn_cast<rank::AxisIndexOp>(op)) {
      auto entry = std::make_unique<fb::AxisIndexT>();
      entry->buffer = getReference(index.getResult());
      entry->axes = std::make_unique<fb::AxisListT>();
      entry->axes->axes = getAxes(index.getAxes().getAxes());
      program->axis_indices.push_back(std::move(entry));
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// Writes the commands before the microbatches, their segments, and the
/// commands after them: the last run together with the update. Without a loop
/// there is one segment.
LogicalResult ProgramWriter::writeSegments(CommandWriter &writer) {
  using Range = llvm::iterator_range<Block::iterator>;
  // Returns the number of the segment; nullopt if it has no commands.
  auto add = [&](StringRef name,
                 Range ops) -> FailureOr<std::optional<uint32_t>> {
    auto segment = std::make_unique<fb::SegmentT>();
    segment->name = name.str();
    for (Operation &op : ops)
      if (failed(writer.write(op, segment->commands)))
        return failure();
    if (segment->commands.empty())
      return std::optional<uint32_t>();
    program->segments.push_back(std::move(segment));
    return std::optional<uint32_t>(program->segments.size() - 1);
  };
  auto run = [&](std::optional<uint32_t> segment, uint32_t microbatch) {
    if (segment)
      program->schedule.emplace_back(*segment, microbatch);
  };
  Block &body = function.getBody().front();
  auto loops = body.getOps<rank::MicrobatchesOp>();
  if (loops.empty()) {
    auto step = add("step", body);
    if (failed(step))
      return failure();
    run(*step, 0);
    return success();
  }
  rank::MicrobatchesOp loop = *loops.begin();
  auto prologue = add("prologue", Range(body.begin(), loop->getIterator()));
  if (failed(prologue))
    return failure();
  run(*prologue, 0);
  SmallVector<std::optional<uint32_t>> segments;
  for (rank::SegmentOp segment : loop.getSegments()) {
    auto number = add(segment.getName(), segment.getBody().front());
    if (failed(number))
      return failure();
    segments.push_back(*number);
  }
  for (auto [segment, microbatch] : loop.getRuns())
    run(segments[segment], microbatch);
  auto last = add("last", Range(std::next(loop->getIterator()), body.end()));
  if (failed(last))
    return failure();
  run(*last, plan.microbatches - 1);
  return success();
}

void ProgramWriter::writeArena() {
  rank::ArenaAttr arena = rank::getArena(function);
  program->shared_size = arena.getSharedBytes();
  program->private_size = arena.getPrivateBytes();
  program->memory_lower_bound = arena.getLowerBound();
}

/// Writes the axes in the order of the mesh, as in all programs.
void ProgramWriter::writePlace() {
  auto place = function->getAttrOfType<DictionaryAttr>(rank::placeAttrName);
  if (!place)
    return;
  for (auto [number, axis] : llvm::enumerate(plan.mesh))
    if (auto coordinate = place.getAs<IntegerAttr>(axis->name))
      program->at.emplace_back(int32_t(number), coordinate.getInt());
}

LogicalResult ProgramWriter::run(const target::CompiledKernels &kernels) {
  auto durations = overlap::Durations::of(function);
  if (failed(durations))
    return failure();
  CommandWriter writer(*program, kernels, *durations);
  if (failed(writeConstants()) || failed(writeSegments(writer)) ||
      failed(writeOutputs(writer)))
    return failure();
  program->communication_queues = writer.countQueues();
  writePlace();
  writeArena();
  return success();
}

FailureOr<runtime::PlanTimeline> PlanWriter::run(StringRef path) {
  for (func::FuncOp function : functions) {
    if (!rank::getArena(function))
      return function.emitOpError("has no buffers: assign-buffers comes first");
    plan.programs.push_back(std::make_unique<fb::ProgramT>());
    plan.programs.back()->target = machine.getTarget().getName().str();
  }
  writeHeader();
  writeImages();
  if (failed(writeArguments(functions, isStep, plan)))
    return failure();
  for (auto [function, program] : llvm::zip_equal(functions, plan.programs))
    if (failed(
            ProgramWriter(function, isStep, plan, program.get()).run(kernels)))
      return failure();

  flatbuffers::FlatBufferBuilder builder;
  fb::FinishPlanBuffer(builder, fb::Plan::Pack(builder, &plan));
  std::span<const uint8_t> bytes(builder.GetBufferPointer(), builder.GetSize());
  // The compiler must not emit a plan that the runtime would refuse.
  func::FuncOp first = functions.front();
  auto verified = runtime::verifyPlan(bytes);
  if (!verified)
    return first.emitOpError("has a plan that is not valid: ")
           << verified.error().message;
  runtime::LoadedPlan loaded;
  loaded.plan = *verified;
  if (auto written = runtime::writePlan(path.str(), bytes); !written)
    return emitError(UnknownLoc::get(first.getContext()))
           << written.error().message;
  // Its commands point into `bytes`, so only the times leave.
  runtime::PlanTimeline timeline = runtime::planTimelineOf(loaded);
  for (runtime::StepTimeline &program : timeline.programs)
    program.commands.clear();
  return timeline;
}

FailureOr<runtime::PlanTimeline>
polyrank::plan::writePlan(ModuleOp module, const PlanOptions &options,
                          StringRef path) {
  auto programs = rank::Programs::of(module);
  if (failed(programs))
    return failure();
  SmallVector<func::FuncOp> functions(programs->getFunctions());
  for (StringRef name : {"step", "forward"})
    if (functions.empty())
      if (auto function = module.lookupSymbol<func::FuncOp>(name))
        functions.push_back(function);
  if (functions.empty())
    return module.emitError("has neither @step nor @forward");
  auto machine = cost::Machine::of(module);
  auto target = target::getKernelTarget(module);
  if (failed(machine) || failed(target))
    return failure();
  auto kernels = target->compileKernels(
      module, {.cache = options.kernels, .assembler = options.assembler});
  if (failed(kernels))
    return failure();
  return PlanWriter(functions, options, *machine, *kernels).run(path);
}
