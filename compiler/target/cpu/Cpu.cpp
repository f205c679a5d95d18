// The cpu dialect: registration, and the text of schedules.

#include "compiler/target/cpu/Cpu.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cpu;

#include "compiler/target/cpu/CpuDialect.cpp.inc"
#include "compiler/target/cpu/CpuEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/target/cpu/CpuAttrs.cpp.inc"

void CpuDialect::initialize() { registerAttributes(); }

void CpuDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/target/cpu/CpuAttrs.cpp.inc"
      >();
}

namespace {
/// The textual form of a kernel schedule: which numbers are printed under which
/// name.
struct ScheduleText {
  SmallVector<int64_t> items, reductions, kept;
  int64_t vector = -1, lanes = 0, block = 0, tileVariable = -1, tile = 0;
  int64_t part = 0, scatterRows = 0, grain = 1;

  /// Calls `number` or `list` with each name, in the order of the text.
  void forEach(function_ref<void(StringRef, int64_t &, int64_t)> number,
               function_ref<void(StringRef, SmallVector<int64_t> &)> list) {
    list("items", items);
    number("vector", vector, -1);
    number("lanes", lanes, 0);
    number("block", block, 0);
    number("tiled", tileVariable, -1);
    number("tile", tile, 0);
    list("reductions", reductions);
    number("part", part, 0);
    number("rows", scatterRows, 0);
    list("kept", kept);
    number("grain", grain, 1);
  }
};
} // namespace

Attribute ScheduleAttr::parse(AsmParser &parser, Type) {
  StringRef name;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&name))
    return {};
  std::optional<LoopKind> kind = symbolizeLoopKind(name);
  if (!kind) {
    parser.emitError(location) << "a schedule is a map, row, column or scatter";
    return {};
  }
  ScheduleText text;
  while (succeeded(parser.parseOptionalComma())) {
    location = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return {};
    bool isKnown = false, isRight = true;
    text.forEach(
        [&](StringRef known, int64_t &value, int64_t) {
          if (known != name)
            return;
          isKnown = true;
          isRight = succeeded(parser.parseInteger(value));
        },
        [&](StringRef known, SmallVector<int64_t> &values) {
          if (known != name)
            return;
          isKnown = true;
          isRight = succeeded(
              parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
                return parser.parseInteger(values.emplace_back());
              }));
        });
    if (!isKnown)
      parser.emitError(location) << "a schedule has no '" << name << "'";
    if (!isKnown || !isRight)
      return {};
  }
  if (parser.parseGreater())
    return {};
  return get(parser.getContext(), *kind, text.items, text.vector, text.lanes,
             text.block, text.tileVariable, text.tile, text.reductions,
             text.part, text.scatterRows, text.kept, text.grain);
}

void ScheduleAttr::print(AsmPrinter &printer) const {
  ScheduleText text{llvm::to_vector(getItems()),
                    llvm::to_vector(getReductions()),
                    llvm::to_vector(getKept()),
                    getVector(),
                    getLanes(),
                    getBlock(),
                    getTileVariable(),
                    getTile(),
                    getPart(),
                    getScatterRows(),
                    getGrain()};
  printer << "<" << stringifyLoopKind(getKind());
  text.forEach(
      [&](StringRef name, int64_t &value, int64_t absent) {
        if (value != absent)
          printer << ", " << name << " = " << value;
      },
      [&](StringRef name, SmallVector<int64_t> &values) {
        if (values.empty())
          return;
        printer << ", " << name << " = [";
        llvm::interleaveComma(values, printer);
        printer << "]";
      });
  printer << ">";
}
