// Writes the arguments of a plan: the role of each, the place of its shard, and
// where the user's file stores it.

#include <set>
#include <string>

#include "compiler/plan/PlanBuilder.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/ParameterSymbols.h"
#include "dialects/graph/Symbols.h"
#include "support/ElementType.h"
#include "support/EnumNames.h"
#include "support/Fingerprint.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::plan;

static_assert(
    int(fb::Region::MAX) == rank::getMaxEnumValForRegion() &&
    agreeOn<rank::Region, fb::Region, rank::getMaxEnumValForRegion() + 1>);

FailureOr<fb::ElementType> polyrank::plan::getDType(Operation *op, Type type) {
  if (std::optional<ElementType> element = graph::toElementType(type))
    return static_cast<fb::ElementType>(*element);
  std::string known;
  for (int number = 0; number < numProgramTypes; ++number)
    known += (number ? ", " : "") + std::string(nameOf(ElementType(number)));
  return op->emitOpError("a plan cannot hold elements of type ")
         << type << "; it has " << known
         << ": cast them in the model before it is exported";
}

std::vector<fb::AxisRef>
polyrank::plan::getAxes(ArrayRef<sharding::AxisRef> axes) {
  std::vector<fb::AxisRef> result;
  for (sharding::AxisRef ref : axes)
    result.emplace_back(ref.axis, ref.pre, ref.size);
  return result;
}

static std::unique_ptr<fb::DimT> wholeDim(int64_t size) {
  auto dim = std::make_unique<fb::DimT>();
  dim->size = dim->padded = size;
  return dim;
}

std::vector<std::unique_ptr<fb::DimT>>
polyrank::plan::getDims(RankedTensorType type) {
  std::vector<std::unique_ptr<fb::DimT>> dims;
  sharding::LayoutAttr layout = sharding::getLayout(type);
  for (int64_t d = 0; d < type.getRank(); ++d) {
    dims.push_back(wholeDim(type.getDimSize(d)));
    if (!layout)
      continue;
    dims.back()->padded = layout.getDim(d).getExtent(type.getDimSize(d));
    dims.back()->axes = getAxes(layout.getDim(d).getAxes());
  }
  return dims;
}

std::unique_ptr<fb::BufferRef>
polyrank::plan::getReference(rank::BufferAttr buffer, uint32_t axes) {
  return std::make_unique<fb::BufferRef>(buffer.getOffset(), buffer.getSize(),
                                         buffer.getStride(), buffer.getStep(),
                                         buffer.getEach(), buffer.getSlots(),
                                         axes, fb::Region(buffer.getRegion()));
}

namespace {
/// The names of the arguments of all programs, and where they are stored.
class Names {
public:
  Names(ArrayRef<func::FuncOp> functions, fb::PlanT &plan);

  LogicalResult writeStored(graph::ParameterOp parameter);
  /// The number of a stored tensor; null if there is none.
  const uint32_t *findStored(StringRef name) const {
    auto found = storedNumbers.find(name.str());
    return found == storedNumbers.end() ? nullptr : &found->second;
  }
  std::string get(func::FuncOp function, unsigned argument) const {
    return names.at(getNumber(function, argument));
  }

private:
  /// The global number of an argument.
  static int64_t getNumber(func::FuncOp function, unsigned argument) {
    auto number =
        function.getArgAttrOfType<IntegerAttr>(argument, rank::numberAttrName);
    return number ? number.getInt() : argument;
  }

  fb::PlanT &plan;
  std::map<std::string, uint32_t> storedNumbers;
  /// The files of weights, by absolute path.
  std::map<std::string, std::optional<InputFile>> files;
  std::map<int64_t, std::string> names; // by global number
};

class ArgumentWriter {
public:
  /// `hasBatch` is true if any input of the plan has a batch.
  ArgumentWriter(func::FuncOp function, bool isStep, bool hasBatch,
                 const Names &names, const graph::Symbols &symbols,
                 fb::PlanT &plan, fb::ProgramT &program)
      : function(function), boundary(function), isStep(isStep),
        hasBatch(hasBatch), names(names), symbols(symbols), plan(plan),
        program(program) {}

  LogicalResult run();

private:
  LogicalResult write(BlockArgument argument);
  void writeView(fb::ArgumentT &result, BlockArgument argument,
                 StringRef parameter);
  Attribute get(BlockArgument argument, StringRef name) {
    return function.getArgAttr(argument.getArgNumber(), name);
  }

  func::FuncOp function;
  graph::Boundary boundary;
  bool isStep, hasBatch;
  const Names &names;
  const graph::Symbols &symbols;
  fb::PlanT &plan;
  fb::ProgramT &program;
};
} // namespace

/// Data is found by an input's name, so an input keeps its name. Any other
/// argument with the name of an input or of an earlier argument (as the logical
/// parameters of one stored tensor have) gets a number as suffix, whichever
/// programs it is in.
Names::Names(ArrayRef<func::FuncOp> functions, fb::PlanT &plan) : plan(plan) {
  std::set<std::string> taken;
  std::set<int64_t> inputs;
  for (func::FuncOp function : functions) {
    graph::Boundary boundary(function);
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      int64_t number = getNumber(function, i);
      names[number] = boundary.getName(i);
      if (!boundary.getArgument<graph::InputAttr>(i))
        continue;
      inputs.insert(number);
      taken.insert(names[number]);
    }
  }
  std::map<std::string, int> uses;
  for (auto &[number, name] : names) {
    std::string unique = name;
    while (!inputs.contains(number) && !taken.insert(unique).second)
      unique = name + ":" + std::to_string(++uses[name]);
    name = unique;
  }
}

LogicalResult Names::writeStored(graph::ParameterOp parameter) {
  auto type = cast<RankedTensorType>(parameter.getType());
  auto stored = std::make_unique<fb::StoredTensorT>();
  stored->name = graph::nameOf(parameter.getSymName()).str();
  stored->shape.assign(type.getShape().begin(), type.getShape().end());
  FailureOr<fb::ElementType> dtype = getDType(parameter, type.getElementType());
  if (failed(dtype))
    return failure();
  stored->dtype = *dtype;
  stored->transposed = parameter.getTransposed();
  stored->complex = parameter.getComplex();
  if (auto value =
          dyn_cast_if_present<DenseElementsAttr>(parameter.getValueAttr())) {
    // Booleans are packed in MLIR; no known model trains one.
    if (type.getElementType().isInteger(1))
      return parameter.emitError("its booleans have no place in a plan");
    ArrayRef<char> raw = value.getRawData();
    size_t bytes = type.getElementTypeBitWidth() / 8;
    for (int64_t i = 0; i < type.getNumElements(); ++i)
      stored->data.insert(
          stored->data.end(), raw.begin() + (value.isSplat() ? 0 : i * bytes),
          raw.begin() + (value.isSplat() ? 0 : i * bytes) + bytes);
  } else if (parameter.getLength() > 0 || type.getNumElements() == 0) {
    stored->source = std::make_unique<fb::FileSpanT>();
    // A plan may be run from any folder.
    SmallString<256> path = parameter.getPath();
    if (auto error = llvm::sys::fs::make_absolute(path))
      return parameter.emitError("cannot find the folder of '")
             << path << "': " << error.message();
    llvm::sys::path::remove_dots(path);
    stored->source->path = path.str().str();
    stored->source->offset = parameter.getOffset();
    stored->source->length = parameter.getLength();
    auto &file = files[stored->source->path];
    if (!file) {
      auto opened = InputFile::open(stored->source->path);
      if (!opened)
        return parameter.emitError(opened.error().message);
      file.emplace(*std::move(opened));
    }
    auto digests =
        digestsOf(*file, parameter.getOffset(), parameter.getLength());
    if (!digests)
      return parameter.emitError(digests.error().message);
    stored->source->digests = *std::move(digests);
  }
  if (parameter.getAliases())
    for (auto alias : parameter.getAliases()->getAsRange<StringAttr>())
      stored->aliases.push_back(alias.str());
  storedNumbers[stored->name] = plan.stored.size();
  plan.stored.push_back(std::move(stored));
  return success();
}

/// Writes where the elements of an argument are in the stored tensor
/// `parameter`: at the argument's view, or else all of them in order.
void ArgumentWriter::writeView(fb::ArgumentT &result, BlockArgument argument,
                               StringRef parameter) {
  const uint32_t *number = names.findStored(parameter);
  if (!number)
    return;
  result.view = std::make_unique<fb::ViewT>();
  result.view->stored = *number;
  if (DenseI64ArrayAttr view = boundary.getView(argument.getArgNumber())) {
    result.view->base = view[0];
    result.view->strides.assign(view.asArrayRef().begin() + 1,
                                view.asArrayRef().end());
    return;
  }
  SmallVector<int64_t> shape;
  for (auto &dim : result.dims)
    shape.push_back(dim->size);
  SmallVector<int64_t> strides = graph::getStrides(shape);
  result.view->strides.assign(strides.begin(), strides.end());
}

LogicalResult ArgumentWriter::write(BlockArgument argument) {
  auto result = std::make_unique<fb::ArgumentT>();
  auto global =
      dyn_cast_if_present<TypeAttr>(get(argument, rank::globalAttrName));
  if (!global)
    return function.emitOpError("argument ")
           << argument.getArgNumber() << " lacks " << rank::globalAttrName
           << ": localize comes first";
  auto type = cast<RankedTensorType>(global.getValue());
  FailureOr<fb::ElementType> dtype = getDType(function, type.getElementType());
  if (failed(dtype))
    return failure();
  result->dtype = *dtype;
  result->dims = getDims(type);
  result->buffer = getReference(argument);

  unsigned number = argument.getArgNumber();
  result->name = names.get(function, number);
  if (auto parameter = boundary.getArgument<graph::ParameterAttr>(number)) {
    auto op = symbols.lookup<graph::ParameterOp>(parameter.getSymbol());
    if (!op)
      return function.emitOpError(boundary.describe(number))
             << " is no graph.parameter of the module";
    writeView(*result, argument,
              graph::nameOf(parameter.getSymbol().getValue()));
    result->role = fb::Role::Parameter;
    result->trainable = op.getTrainable();
  } else if (auto state = boundary.getArgument<graph::StateAttr>(number)) {
    result->role = fb::Role::State;
    if (state.getInit())
      result->init = state.getInit().getValueAsDouble();
    result->state_suffix = state.getSuffix().str();
    if (state.getOf()) {
      result->state_of = graph::nameOf(state.getOf().getValue()).str();
      // State of another shape corresponds to no elements of the parameter.
      if (auto op = symbols.lookup<graph::ParameterOp>(state.getOf());
          state.getView() || !op ||
          cast<RankedTensorType>(op.getType()).getShape() == type.getShape())
        writeView(*result, argument, result->state_of);
    }
  } else if (auto counter = boundary.getArgument<graph::CounterAttr>(number);
             counter && counter.getValue() == graph::RandomCounter::Seed) {
    result->role = fb::Role::Seed;
  } else if (auto rate =
                 boundary.getArgument<graph::LearningRateAttr>(number)) {
    result->role = fb::Role::LearningRate;
    result->relative = !!rate.getScale();
    FloatAttr own = rate.getScale() ? rate.getScale() : rate.getBase();
    result->rate = own.getValueAsDouble();
    if (rate.getScale())
      plan.learning_rate = rate.getBase().getValueAsDouble();
    if (rate.getSchedule())
      plan.lr_schedule = rate.getSchedule().str();
  } else if (auto input = boundary.getArgument<graph::InputAttr>(number)) {
    result->role = input.getLabels() ? fb::Role::Labels : fb::Role::Input;
    if (input.getRange())
      result->index_limit = *input.getRange();
    if (input.getIgnored())
      result->index_ignore = *input.getIgnored();
    if (!isStep)
      result->dims.insert(result->dims.begin(), wholeDim(1));
    if (result->dims.size() < 2)
      return function.emitError("input '")
             << input.getName().getValue() << "' has type " << type
             << "; it needs a batch dim in front";
    result->batch_dim = input.getBatchDim();
    uint64_t samples = result->dims[0]->size * result->dims[1]->size;
    // If no input has a batch, a microbatch counts as one row.
    bool counts = input.hasBatch() || !hasBatch;
    if (counts && plan.samples_per_step && plan.samples_per_step != samples)
      return function.emitError("input '")
             << input.getName().getValue() << "' has a batch (dim 0) of "
             << samples << ", but the inputs before it have one of "
             << plan.samples_per_step
             << "; the batch is the first dim of each input";
    if (counts)
      plan.samples_per_step = samples;
    if (result->role == fb::Role::Input && counts && !plan.tokens_per_sample &&
        result->dims.size() > 2 && !type.getElementType().isInteger(1) &&
        isa<IntegerType>(type.getElementType())) {
      plan.tokens_per_sample = 1;
      for (auto &dim : ArrayRef(result->dims).drop_front(2))
        plan.tokens_per_sample *= dim->size;
    }
  } else {
    return function.emitOpError("argument ")
           << argument.getArgNumber()
           << " is no parameter, state, input, seed or learning rate "
              "(graph.role)";
  }
  program.arguments.push_back(std::move(result));
  return success();
}

LogicalResult ArgumentWriter::run() {
  for (BlockArgument argument : function.getArguments())
    if (failed(write(argument)))
      return failure();
  return success();
}

LogicalResult polyrank::plan::writeArguments(ArrayRef<func::FuncOp> functions,
                                             bool isStep, fb::PlanT &plan) {
  Names names(functions, plan);
  for (auto parameter : functions.front()
                            ->getParentOfType<ModuleOp>()
                            .getOps<graph::ParameterOp>())
    if (failed(names.writeStored(parameter)))
      return failure();
  graph::Symbols symbols(functions.front());
  bool hasBatch = llvm::any_of(functions, [](func::FuncOp function) {
    graph::Boundary boundary(function);
    return llvm::any_of(llvm::seq(function.getNumArguments()), [&](unsigned i) {
      auto input = boundary.getArgument<graph::InputAttr>(i);
      return input && input.hasBatch();
    });
  });
  for (auto [function, program] : llvm::zip_equal(functions, plan.programs))
    if (failed(ArgumentWriter(function, isStep, hasBatch, names, symbols, plan,
                              *program)
                   .run()))
      return failure();
  return success();
}
