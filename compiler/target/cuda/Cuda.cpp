// The cuda dialect: registration, and the text of schedules.

#include "compiler/target/cuda/Cuda.h"

#include "compiler/target/ScheduleText.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cuda;

#include "compiler/target/cuda/CudaDialect.cpp.inc"
#include "compiler/target/cuda/CudaEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/target/cuda/CudaAttrs.cpp.inc"

void CudaDialect::initialize() { registerAttributes(); }

void CudaDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/target/cuda/CudaAttrs.cpp.inc"
      >();
}

namespace {
/// The textual form of a kernel schedule: which numbers are printed under which
/// name.
struct ScheduleText {
  SmallVector<int64_t> items;
  int64_t vector = -1, lanes = 1, vectors = 1, tiled = -1;
  SmallVector<int64_t> inside, reductions;
  int64_t threads = 0, sharing = 1, part = 0, kept = 0;

  /// In the order of the text.
  std::vector<target::ScheduleField> getFields() {
    using target::NamedNumber, target::NamedNumbers;
    return {NamedNumbers{"items", &items},
            NamedNumber{"vector", &vector, -1},
            NamedNumber{"lanes", &lanes, 1},
            NamedNumber{"vectors", &vectors, 1},
            NamedNumber{"tiled", &tiled, -1},
            NamedNumbers{"inside", &inside},
            NamedNumbers{"reductions", &reductions},
            NamedNumber{"threads", &threads, 0},
            NamedNumber{"sharing", &sharing, 1},
            NamedNumber{"part", &part, 0},
            NamedNumber{"kept", &kept, 0}};
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
             text.vectors, text.tiled, text.inside, text.reductions,
             text.threads, text.sharing, text.part, text.kept);
}

void ScheduleAttr::print(AsmPrinter &printer) const {
  ScheduleText text{llvm::to_vector(getItems()),
                    getVector(),
                    getLanes(),
                    getVectors(),
                    getTiled(),
                    llvm::to_vector(getInside()),
                    llvm::to_vector(getReductions()),
                    getThreads(),
                    getSharing(),
                    getPart(),
                    getKept()};
  printer << "<" << stringifyLoopKind(getKind());
  target::printFields(printer, text.getFields());
  printer << ">";
}
