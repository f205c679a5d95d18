// The text and the verification of `rank.machine` and its parts.

#include "dialects/rank/Rank.h"

#include "dialects/sharding/Constraint.h"
#include "mlir/IR/DialectImplementation.h"
#include "support/LinkSpec.h"
#include "support/RatesSpec.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::rank;

using EmitError = function_ref<InFlightDiagnostic()>;

FailureOr<FloatAttr> rank::parseNumber(AsmParser &parser) {
  double number;
  if (parser.parseFloat(number))
    return failure();
  return parser.getBuilder().getF64FloatAttr(number);
}

LogicalResult LinkAttr::verify(EmitError emitError, StringAttr axis,
                               FloatAttr latency, FloatAttr bandwidth) {
  double microseconds = latency.getValueAsDouble(),
         gigabytes = bandwidth.getValueAsDouble();
  if (!LinkSpec::hasLatency(microseconds))
    return emitError() << "[link 1] the link along " << axis
                       << " has a latency of " << microseconds
                       << " microseconds; 0 to 1e6 are possible";
  if (!LinkSpec::hasBandwidth(gigabytes))
    return emitError() << "[link 2] the link along " << axis
                       << " has a bandwidth of " << gigabytes
                       << " GB/s; 1e-6 to 1e6 are possible";
  return success();
}

LogicalResult RateAttr::verify(EmitError emitError, Type elementType,
                               FloatAttr gigaflops) {
  if (!isa<FloatType, IntegerType>(elementType))
    return emitError() << "[rate 1] a rate is that of products of floats or "
                          "integers, not of "
                       << elementType;
  double rate = gigaflops.getValueAsDouble();
  if (!RatesSpec::canCompute(rate))
    return emitError() << "[rate 2] products of " << elementType << " run at "
                       << rate << " GFLOP/s; 1e-3 to 1e7 are possible";
  return success();
}

LogicalResult MachineAttr::verify(EmitError emitError, Attribute,
                                  int64_t threads, ArrayRef<LinkAttr> links,
                                  ArrayRef<RateAttr> rates, FloatAttr bandwidth,
                                  std::optional<int64_t> memory) {
  if (threads < 1)
    return emitError() << "[machine 1] a rank has " << threads << " threads";
  llvm::SmallDenseSet<StringAttr> axes;
  for (LinkAttr link : links)
    if (!axes.insert(link.getAxis()).second)
      return emitError() << "[machine 2] two links lie along "
                         << link.getAxis();
  llvm::SmallDenseSet<Type> types;
  for (RateAttr rate : rates)
    if (!types.insert(rate.getElementType()).second)
      return emitError() << "[machine 3] products of " << rate.getElementType()
                         << " have two rates";
  if (bandwidth) {
    double gigabytes = bandwidth.getValueAsDouble();
    if (!RatesSpec::canRead(gigabytes))
      return emitError() << "[machine 4] memory is read at " << gigabytes
                         << " GB/s; 1e-3 to 1e6 are possible";
  }
  if (memory && *memory < 1)
    return emitError() << "[machine 5] a rank has " << *memory
                       << " bytes of memory";
  return success();
}

/// Parses the value of `name` into the field that it is.
static ParseResult
parseField(AsmParser &parser, SMLoc location, StringRef name, int64_t &threads,
           SmallVectorImpl<LinkAttr> &links, SmallVectorImpl<RateAttr> &rates,
           std::optional<double> &bandwidth, std::optional<int64_t> &memory) {
  // Elements are written without the name of their attribute.
  auto parseList = [&](auto &list) {
    using Element = typename std::decay_t<decltype(list)>::value_type;
    return parser.parseCommaSeparatedList(
        AsmParser::Delimiter::Square, [&]() -> ParseResult {
          auto element =
              dyn_cast_or_null<Element>(Element::parse(parser, Type()));
          if (!element)
            return failure();
          list.push_back(element);
          return success();
        });
  };
  if (name == "threads")
    return parser.parseInteger(threads);
  if (name == "links")
    return parseList(links);
  if (name == "rates")
    return parseList(rates);
  if (name == "bandwidth")
    return parser.parseFloat(bandwidth.emplace());
  if (name == "memory")
    return parser.parseInteger(memory.emplace());
  return parser.emitError(location)
         << "a machine has threads, links, rates, bandwidth and memory, and no "
         << name;
}

Attribute MachineAttr::parse(AsmParser &parser, Type) {
  SMLoc start = parser.getCurrentLocation();
  Attribute target;
  int64_t threads = 1;
  SmallVector<LinkAttr> links;
  SmallVector<RateAttr> rates;
  std::optional<double> bandwidth;
  std::optional<int64_t> memory;
  if (parser.parseLess())
    return {};
  llvm::SmallDenseSet<StringRef> stated;
  // The target is the first of all, where it is there.
  auto parseNext = [&]() -> ParseResult {
    StringRef name;
    SMLoc location = parser.getCurrentLocation();
    if (failed(parser.parseOptionalKeyword(&name)))
      return stated.empty() && !target ? parser.parseAttribute(target)
                                       : parser.parseKeyword(&name);
    if (!stated.insert(name).second)
      return parser.emitError(location)
             << "a machine states its " << name << " once";
    return failure(parser.parseEqual() ||
                   parseField(parser, location, name, threads, links, rates,
                              bandwidth, memory));
  };
  if (parser.parseCommaSeparatedList(parseNext) || parser.parseGreater())
    return {};
  return parser.getChecked<MachineAttr>(
      start, parser.getContext(), target, threads, ArrayRef<LinkAttr>(links),
      ArrayRef<RateAttr>(rates), bandwidth, memory);
}

void MachineAttr::print(AsmPrinter &printer) const {
  printer << "<";
  StringRef comma = "";
  auto separate = [&]() -> AsmPrinter & {
    printer << comma;
    comma = ", ";
    return printer;
  };
  if (getTarget())
    separate() << getTarget();
  if (getThreads() != 1 || *this == get(getContext(), Attribute()))
    separate() << "threads = " << getThreads();
  auto printList = [&](StringRef name, auto list) {
    if (list.empty())
      return;
    separate() << name << " = [";
    llvm::interleaveComma(list, printer,
                          [&](auto element) { element.print(printer); });
    printer << "]";
  };
  printList("links", getLinks());
  printList("rates", getRates());
  if (getBandwidth()) {
    separate() << "bandwidth = ";
    printer.printFloat(getBandwidth().getValue());
  }
  if (getMemory())
    separate() << "memory = " << *getMemory();
  printer << ">";
}

LinkAttr MachineAttr::getLink(StringRef axis) const {
  for (LinkAttr link : getLinks())
    if (link.getAxis() == axis)
      return link;
  return {};
}

RateAttr MachineAttr::getRate(Type elementType) const {
  for (RateAttr rate : getRates())
    if (rate.getElementType() == elementType)
      return rate;
  return {};
}

MachineAttr rank::getMachine(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  return module ? module->getAttrOfType<MachineAttr>(machineAttrName)
                : MachineAttr();
}

LogicalResult rank::verifyMachine(Operation *op, Attribute attribute) {
  auto machine = dyn_cast<MachineAttr>(attribute);
  auto module = dyn_cast<ModuleOp>(op);
  if (!machine || !module)
    return op->emitOpError("[machine 6] ")
           << machineAttrName << " is a #rank.machine of a module, not "
           << attribute << " of " << op->getName();
  if (sharding::MeshAttr mesh = sharding::getMesh(module))
    for (LinkAttr link : machine.getLinks())
      if (mesh.lookup(link.getAxis()) < 0)
        return op->emitOpError("[machine 7] a link lies along ")
               << link.getAxis() << ", which is no axis of " << mesh;
  return success();
}
