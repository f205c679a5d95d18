// The cpu dialect: registration, and the text of schedules.

#include "compiler/target/cpu/Cpu.h"

#include "compiler/target/ScheduleText.h"
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

  /// In the order of the text.
  std::vector<target::ScheduleField> getFields() {
    using target::NamedNumber, target::NamedNumbers;
    return {NamedNumbers{"items", &items},
            NamedNumber{"vector", &vector, -1},
            NamedNumber{"lanes", &lanes, 0},
            NamedNumber{"block", &block, 0},
            NamedNumber{"tiled", &tileVariable, -1},
            NamedNumber{"tile", &tile, 0},
            NamedNumbers{"reductions", &reductions},
            NamedNumber{"part", &part, 0},
            NamedNumber{"rows", &scatterRows, 0},
            NamedNumbers{"kept", &kept},
            NamedNumber{"grain", &grain, 1}};
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
  if (target::parseFields(parser, text.getFields()) || parser.parseGreater())
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
  target::printFields(printer, text.getFields());
  printer << ">";
}
