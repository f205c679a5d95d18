// The roles of arguments and results: reads, writes and verifies `graph.role`.

#include "dialects/graph/Boundary.h"

#include "dialects/graph/ParameterSymbols.h"
#include "dialects/graph/Symbols.h"
#include "mlir/IR/DialectImplementation.h"
#include "support/LearningRate.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

/// Arithmetic is the default and has no text.
static ParseResult parseMeanKind(AsmParser &parser, MeanKind &kind) {
  kind = succeeded(parser.parseOptionalKeyword("geometric"))
             ? MeanKind::Geometric
             : MeanKind::Arithmetic;
  return success();
}

static void printMeanKind(AsmPrinter &printer, MeanKind kind) {
  if (kind != MeanKind::Arithmetic)
    printer << ' ' << stringifyEnum(kind);
}

/// The first part of a mean has no text.
static ParseResult parseFurther(AsmParser &parser, bool &further) {
  further = succeeded(parser.parseOptionalKeyword("further"));
  return success();
}

static void printFurther(AsmPrinter &printer, bool further) {
  if (further)
    printer << " further";
}

/// Dim 0 is the default and has no text.
static ParseResult parseBatchDim(AsmParser &parser, int64_t &dim) {
  dim = 0;
  if (succeeded(parser.parseOptionalKeyword("no_batch"))) {
    dim = noBatch;
    return success();
  }
  if (failed(parser.parseOptionalKeyword("batch_dim")))
    return success();
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseInteger(dim))
    return failure();
  return dim > 0 ? success()
                 : parser.emitError(location)
                       << "batch_dim " << dim
                       << ": must be above 0, which it is without";
}

static void printBatchDim(AsmPrinter &printer, int64_t dim) {
  if (dim == noBatch)
    printer << " no_batch";
  else if (dim != 0)
    printer << " batch_dim " << dim;
}

#define GET_ATTRDEF_CLASSES
#include "dialects/graph/GraphAttrs.cpp.inc"

void GraphDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/graph/GraphAttrs.cpp.inc"
      >();
}

std::string StateAttr::getName() {
  return (getOf() ? nameOf(getOf().getValue()) + "." + getSuffix().getValue()
                  : Twine(getSuffix().getValue()))
      .str();
}

// input

InputAttr InputAttr::withOpenBatch() {
  return get(getContext(), getName(), true, getLabels(), getRange(),
             getIgnored(), getBatchDim());
}

InputAttr InputAttr::withLabels() {
  return get(getContext(), getName(), getOpenBatch(), true, getRange(),
             getIgnored(), getBatchDim());
}

InputAttr InputAttr::withRange(int64_t range, std::optional<int64_t> ignored) {
  return get(getContext(), getName(), getOpenBatch(), getLabels(), range,
             ignored, getBatchDim());
}

InputAttr InputAttr::withBatchDim(int64_t dim) {
  return get(getContext(), getName(), getOpenBatch(), getLabels(), getRange(),
             getIgnored(), dim);
}

// "<" name "open_batch"? "labels"? ("range" N)? ("ignored" N)?
//     ("batch_dim" N | "no_batch")? ">"
void InputAttr::print(AsmPrinter &printer) const {
  printer << "<" << getName();
  if (getOpenBatch())
    printer << " open_batch";
  if (getLabels())
    printer << " labels";
  if (getRange())
    printer << " range " << *getRange();
  if (getIgnored())
    printer << " ignored " << *getIgnored();
  printBatchDim(printer, getBatchDim());
  printer << ">";
}

Attribute InputAttr::parse(AsmParser &parser, Type) {
  StringAttr name;
  std::optional<int64_t> range, ignored;
  auto parseNumber = [&](StringRef keyword, std::optional<int64_t> &number) {
    return failed(parser.parseOptionalKeyword(keyword)) ||
           succeeded(parser.parseInteger(number.emplace()));
  };
  if (parser.parseLess() || parser.parseAttribute(name))
    return {};
  bool isOpen = succeeded(parser.parseOptionalKeyword("open_batch"));
  bool isLabels = succeeded(parser.parseOptionalKeyword("labels"));
  if (!parseNumber("range", range) || !parseNumber("ignored", ignored))
    return {};
  int64_t batchDim;
  if (parseBatchDim(parser, batchDim) || parser.parseGreater())
    return {};
  return get(parser.getContext(), name, isOpen, isLabels, range, ignored,
             batchDim);
}

// learning_rate

std::string LearningRateAttr::getName() {
  return "learning rate " +
         (getScale() ? "x" + numberText(getScale().getValueAsDouble())
                     : numberText(getBase().getValueAsDouble()));
}

static StringRef getText(LearningRateAttr rate) {
  return rate.getSchedule() ? rate.getSchedule().getValue() : "";
}

double LearningRateAttr::getRate(uint64_t step) {
  double base = getBase().getValueAsDouble();
  if (getScale())
    base *= getScale().getValueAsDouble();
  return (*LearningRateSchedule::parse(getText(*this))).at(base, step);
}

// Boundary

bool Boundary::isParameterOrState(Value value) {
  auto argument = dyn_cast_if_present<BlockArgument>(value);
  auto function = argument ? dyn_cast_if_present<FunctionOpInterface>(
                                 argument.getOwner()->getParentOp())
                           : FunctionOpInterface();
  return function && Boundary(function).isKept(argument.getArgNumber());
}

void Boundary::setArgument(unsigned number, Attribute role) {
  function.setArgAttr(number, attrName, role);
}

void Boundary::setResult(unsigned number, Attribute role) {
  function.setResultAttr(number, StringAttr::get(role.getContext(), attrName),
                         role);
}

DictionaryAttr Boundary::asDictionary(Attribute role) {
  Builder builder(role.getContext());
  return builder.getDictionaryAttr(builder.getNamedAttr(attrName, role));
}

bool Boundary::isKept(unsigned argument) const {
  return isa_and_present<ParameterAttr, StateAttr>(getArgument(argument));
}

DenseI64ArrayAttr Boundary::getView(unsigned argument) const {
  if (auto parameter = getArgument<ParameterAttr>(argument))
    return parameter.getView();
  auto state = getArgument<StateAttr>(argument);
  return state ? state.getView() : DenseI64ArrayAttr();
}

void Boundary::setView(unsigned argument, ArrayRef<int64_t> numbers) {
  auto view = DenseI64ArrayAttr::get(function->getContext(), numbers);
  if (auto parameter = getArgument<ParameterAttr>(argument))
    return setArgument(
        argument,
        ParameterAttr::get(view.getContext(), parameter.getSymbol(), view));
  auto state = cast<StateAttr>(getArgument(argument));
  setArgument(argument, StateAttr::get(view.getContext(), state.getSuffix(),
                                       state.getOf(), view, state.getInit()));
}

FlatSymbolRefAttr Boundary::getParameter(unsigned argument) const {
  if (auto parameter = getArgument<ParameterAttr>(argument))
    return parameter.getSymbol();
  auto state = getArgument<StateAttr>(argument);
  return state ? state.getOf() : FlatSymbolRefAttr();
}

/// The role in words, and the name.
static std::pair<StringRef, std::string> kindAndName(Attribute role) {
  using Pair = std::pair<StringRef, std::string>;
  return TypeSwitch<Attribute, Pair>(role)
      .Case([](ParameterAttr role) {
        return Pair("parameter", nameOf(role.getSymbol().getValue()).str());
      })
      .Case([](StateAttr role) { return Pair("state", role.getName()); })
      .Case([](InputAttr role) { return Pair("input", role.getName().str()); })
      .Case([](CounterAttr role) {
        return Pair("counter", stringifyRandomCounter(role.getValue()).str());
      })
      .Case([](LearningRateAttr role) {
        return Pair("argument", role.getName());
      })
      .Default([](Attribute) { return Pair("argument", "without a role"); });
}

std::string Boundary::getName(unsigned argument) const {
  if (Attribute role = getArgument(argument))
    return kindAndName(role).second;
  return "argument " + std::to_string(argument);
}

std::string Boundary::describe(unsigned argument) const {
  Attribute role = getArgument(argument);
  if (!role)
    return "argument " + std::to_string(argument);
  auto [kind, name] = kindAndName(role);
  return (kind + " `" + name + "`").str();
}

std::optional<unsigned> Boundary::getNext(unsigned argument) const {
  for (unsigned i = 0, count = getNumResults(); i < count; ++i)
    if (getReplaced(i) == argument)
      return i;
  return std::nullopt;
}

std::optional<unsigned> Boundary::getReplaced(unsigned result) const {
  if (auto next = getResult<NextAttr>(result))
    return next.getArgument();
  return std::nullopt;
}

void Boundary::renumber(unsigned first, int change) {
  for (unsigned i = 0, count = getNumResults(); i < count; ++i)
    if (auto next = getReplaced(i); next && *next >= first)
      setResult(i, NextAttr::get(function->getContext(), *next + change));
}

BlockArgument Boundary::insertArgument(unsigned number, Type type,
                                       Attribute role, Location location) {
  [[maybe_unused]] LogicalResult inserted =
      function.insertArgument(number, type, asDictionary(role), location);
  assert(succeeded(inserted));
  renumber(number, 1);
  return function.getArgument(number);
}

void Boundary::eraseArgument(unsigned number) {
  assert(!getNext(number) && "a result takes its place");
  [[maybe_unused]] LogicalResult erased = function.eraseArgument(number);
  assert(succeeded(erased));
  renumber(number + 1, -1);
}

LogicalResult Boundary::verifyDistinct() const {
  llvm::SmallDenseMap<Attribute, unsigned, 32> numbers;
  for (unsigned i = 0, count = getNumArguments(); i < count; ++i)
    if (Attribute role = getArgument(i))
      if (auto [first, isNew] = numbers.try_emplace(role, i); !isNew)
        return function->emitOpError("[B2] argument ")
               << i << ": has the role of argument " << first->second << ", "
               << role;
  return success();
}

/// Says what is wrong with a learning rate of that type; empty if nothing is.
static std::string findWrong(LearningRateAttr rate, Type type) {
  auto isRate = [](FloatAttr number) {
    double value = number.getValueAsDouble();
    return number.getType().isF64() && std::isfinite(value) && value >= 0;
  };
  auto scalar = dyn_cast<RankedTensorType>(type);
  if (scalar && (scalar.getRank() != 0 || !scalar.getElementType().isF64()))
    return "is not one f64";
  if (!isRate(rate.getBase()) || (rate.getScale() && !isRate(rate.getScale())))
    return "has a base or a scale that is no f64 of 0 or more";
  auto schedule = LearningRateSchedule::parse(getText(rate));
  return schedule ? "" : "has a bad schedule: " + schedule.error().message;
}

LogicalResult Boundary::verifyRates() const {
  LearningRateAttr first, scaled;
  for (unsigned i = 0, count = getNumArguments(); i < count; ++i) {
    auto rate = getArgument<LearningRateAttr>(i);
    if (!rate)
      continue;
    if (first && rate.getSchedule() != first.getSchedule())
      return function->emitOpError("[B5] argument ")
             << i << ": has another schedule than " << first;
    if (scaled && rate.getScale() && rate.getBase() != scaled.getBase())
      return function->emitOpError("[B5] argument ")
             << i << ": has another base than " << scaled;
    first = rate;
    if (rate.getScale())
      scaled = rate;
  }
  return success();
}

LogicalResult Boundary::verifyTies() const {
  llvm::SmallDenseMap<unsigned, unsigned, 32> numbers;
  for (unsigned i = 0, count = getNumResults(); i < count; ++i)
    if (std::optional<unsigned> argument = getReplaced(i))
      if (auto [first, isNew] = numbers.try_emplace(*argument, i); !isNew)
        return function->emitOpError("[B7] result ")
               << i << ": takes the place of argument " << *argument
               << ", which result " << first->second << " takes";
  return success();
}

/// Verifies that parameter `number`, or the parameter of state `number`, is a
/// graph.parameter, and that its view lies inside the stored tensor: rules B3
/// and B4.
static LogicalResult verifyParameter(FunctionOpInterface function,
                                     const Boundary &boundary, unsigned number,
                                     const Symbols &symbols) {
  auto error = [&](int rule) {
    return function->emitOpError("[B")
           << rule << "] argument " << number << ": ";
  };
  FlatSymbolRefAttr symbol = boundary.getParameter(number);
  Operation *symbolOp = symbol ? symbols.lookup(symbol) : nullptr;
  auto stored = dyn_cast_if_present<ParameterOp>(symbolOp);
  if (symbolOp && !stored)
    return error(3) << symbol << " is no graph.parameter";

  DenseI64ArrayAttr view = boundary.getView(number);
  auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[number]);
  if (!view || !type)
    return success();
  if (view.size() != type.getRank() + 1)
    return error(4) << "a view of " << type.getRank() << " dims has a base and "
                    << type.getRank() << " strides, not " << view.size()
                    << " numbers";
  if (llvm::any_of(view.asArrayRef(), [](int64_t n) { return n < 0; }))
    return error(4) << "the view " << view << " has a negative number";
  if (!stored || type.getNumElements() == 0)
    return success();
  int64_t last = view[0];
  for (auto [size, stride] :
       llvm::zip_equal(type.getShape(), view.asArrayRef().drop_front()))
    last += (size - 1) * stride;
  int64_t elements = cast<RankedTensorType>(stored.getType()).getNumElements();
  if (last >= elements)
    return error(4) << "the view ends with element " << last << " of " << symbol
                    << ", which has " << elements;
  return success();
}

static LogicalResult verifyParameters(FunctionOpInterface function,
                                      const Boundary &boundary) {
  Symbols symbols(function);
  for (unsigned i = 0, count = boundary.getNumArguments(); i < count; ++i)
    if (failed(verifyParameter(function, boundary, i, symbols)))
      return failure();
  return success();
}

/// Says what is wrong with the batch dim of an input or output of that type;
/// empty if nothing is.
static std::string findWrong(int64_t batchDim, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || batchDim == 0)
    return "";
  ArrayRef<int64_t> shape = tensor.getShape();
  if (batchDim != noBatch)
    return batchDim < tensor.getRank()
               ? ""
               : "has its batch in dim " + std::to_string(batchDim) + " of " +
                     std::to_string(tensor.getRank());
  return llvm::is_contained(shape.take_front(2), 1)
             ? ""
             : "has no batch and is not one row";
}

// Rules B1 to B5 and B9 of Graph.td.
LogicalResult Boundary::verifyArgument(Operation *op, unsigned number,
                                       NamedAttribute attribute) {
  auto function = cast<FunctionOpInterface>(op);
  auto error = [&](int rule) {
    return op->emitOpError("[B") << rule << "] argument " << number << ": ";
  };
  Attribute role = attribute.getValue();
  if (attribute.getName() != attrName)
    return error(1) << "the dialect has no argument attribute '"
                    << attribute.getName().getValue() << "'; what an argument "
                    << "is, " << attrName << " says";
  if (!isa<ParameterAttr, StateAttr, InputAttr, CounterAttr, LearningRateAttr>(
          role))
    return error(1) << role << " is no role of an argument";
  Boundary boundary(function);
  auto isFirst = [&] {
    return llvm::none_of(llvm::seq(number),
                         [&](unsigned i) { return boundary.getArgument(i); });
  };
  // Rules about all arguments are checked at the first.
  if (isFirst() && (failed(boundary.verifyDistinct()) ||
                    failed(verifyParameters(function, boundary))))
    return failure();
  if (auto rate = dyn_cast<LearningRateAttr>(role)) {
    Type type = function.getArgumentTypes()[number];
    if (std::string wrong = findWrong(rate, type); !wrong.empty())
      return error(5) << "the " << rate.getName() << " " << wrong;
    if (failed(boundary.verifyRates()))
      return failure();
  }
  if (auto input = dyn_cast<InputAttr>(role))
    if (std::string wrong =
            findWrong(input.getBatchDim(), function.getArgumentTypes()[number]);
        !wrong.empty())
      return error(9) << "the input " << wrong;
  return success();
}

// Rules B6 to B9 of Graph.td.
LogicalResult Boundary::verifyResult(Operation *op, unsigned number,
                                     NamedAttribute attribute) {
  auto function = cast<FunctionOpInterface>(op);
  auto error = [&](int rule) {
    return op->emitOpError("[B") << rule << "] result " << number << ": ";
  };
  Attribute role = attribute.getValue();
  if (attribute.getName() != attrName)
    return error(6) << "the dialect has no result attribute '"
                    << attribute.getName().getValue() << "'; what a result is, "
                    << attrName << " says";
  if (!isa<OutputAttr, NextAttr, MeanAttr, CountAttr>(role))
    return error(6) << role << " is no role of a result";
  Boundary boundary(function);
  if (auto next = dyn_cast<NextAttr>(role)) {
    unsigned argument = next.getArgument();
    if (argument >= function.getNumArguments() || !boundary.isKept(argument))
      return error(7) << "takes the place of argument " << argument
                      << ", which is no parameter or state";
    auto type = dyn_cast<RankedTensorType>(function.getResultTypes()[number]);
    auto kept =
        dyn_cast<RankedTensorType>(function.getArgumentTypes()[argument]);
    if (type && kept &&
        (type.getShape() != kept.getShape() ||
         type.getElementType() != kept.getElementType()))
      return error(7) << "is " << type << ", but takes the place of argument "
                      << argument << ", " << kept;
  }
  bool isFirst = llvm::none_of(llvm::seq(number), [&](unsigned i) {
    return boundary.getReplaced(i).has_value();
  });
  if (isa<NextAttr>(role) && isFirst && failed(boundary.verifyTies()))
    return failure();
  if (isa<MeanAttr>(role) && (number + 1 >= function.getNumResults() ||
                              !boundary.getResult<CountAttr>(number + 1)))
    return error(8) << "a mean without a count after it";
  if (auto mean = dyn_cast<MeanAttr>(role); mean && mean.getFurther()) {
    auto before =
        number < 2 ? MeanAttr() : boundary.getResult<MeanAttr>(number - 2);
    if (!before || before.getName() != mean.getName())
      return error(8) << "a further part of a mean without a part of "
                      << mean.getName() << " before it";
  }
  if (auto output = dyn_cast<OutputAttr>(role))
    if (std::string wrong =
            findWrong(output.getBatchDim(), function.getResultTypes()[number]);
        !wrong.empty())
      return error(9) << "the output " << wrong;
  if (isa<CountAttr>(role) &&
      (number == 0 || !boundary.getResult<MeanAttr>(number - 1)))
    return error(8) << "a count without its mean before it";
  return success();
}
