// The rank dialect: registration, attributes.

#include "dialects/rank/Rank.h"

#include "dialects/rank/Denormals.h"
#include "dialects/rank/Reach.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::rank;

#include "dialects/rank/RankDialect.cpp.inc"
#include "dialects/rank/RankEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/rank/RankAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/rank/RankTypes.cpp.inc"

void RankDialect::initialize() {
  registerAttributes();
  registerTypes();
  registerOps();
}

void RankDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/rank/RankAttrs.cpp.inc"
      >();
}

void RankDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/rank/RankTypes.cpp.inc"
      >();
}

// The dialect's attributes of ops are rank.arena, a #rank.arena, rank.at, a
// dictionary of coordinates, rank.machine, rank.reach, and rank.denormals, a
// string.
LogicalResult RankDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute named) {
  StringRef name = named.getName();
  if (!llvm::is_contained({arenaAttrName, placeAttrName, machineAttrName,
                           denormalsAttrName, reachAttrName},
                          name))
    return op->emitOpError("[arena 3] the rank dialect has no attribute '")
           << name << "'";
  if (name == arenaAttrName && !isa<ArenaAttr>(named.getValue()))
    return op->emitOpError("[arena 3] ")
           << name << " is a #rank.arena, not " << named.getValue();
  if (name == machineAttrName)
    return verifyMachine(op, named.getValue());
  if (name == reachAttrName)
    return verifyReach(op, named.getValue());
  if (name == denormalsAttrName && !isDenormals(named.getValue()))
    return op->emitOpError("[R2] ")
           << name << " is \"flush\" or \"keep\", not " << named.getValue();
  auto place = dyn_cast<DictionaryAttr>(named.getValue());
  if (name == placeAttrName &&
      !(place && llvm::all_of(place, [](NamedAttribute coordinate) {
          return isa<IntegerAttr>(coordinate.getValue());
        })))
    return op->emitOpError("[R1] ")
           << name << " says a coordinate for each of some axes, not "
           << named.getValue();
  return success();
}

ArenaAttr rank::getArena(Operation *function) {
  return function->getAttrOfType<ArenaAttr>(arenaAttrName);
}

LogicalResult ArenaAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t shared, int64_t privately,
                                int64_t bound) {
  for (int64_t number : {shared, privately, bound})
    if (number < 0)
      return emitError() << "[arena 1] an arena has the number " << number;
  if (bound > shared + privately)
    return emitError() << "[arena 2] " << bound
                       << " live bytes do not lie in regions of "
                       << shared + privately;
  return success();
}

LogicalResult AxesAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               sharding::MeshAttr mesh,
                               ArrayRef<sharding::AxisRef> axes) {
  for (auto [i, ref] : llvm::enumerate(axes)) {
    int64_t size = mesh.getAxisSizes()[ref.axis];
    if (!ref.liesIn(size))
      return emitError() << "sub-axis " << mesh.toString(ref)
                         << " does not divide the mesh axis of size " << size;
    for (sharding::AxisRef other : axes.take_front(i))
      if (ref.overlaps(other))
        return emitError() << "[axes 1] axes " << mesh.toString(other)
                           << " and " << mesh.toString(ref) << " overlap";
  }
  return success();
}

Attribute AxesAttr::parse(AsmParser &parser, Type) {
  SMLoc start = parser.getCurrentLocation();
  sharding::MeshAttr mesh;
  SmallVector<sharding::AxisRef> axes;
  if (parser.parseLess() || parser.parseAttribute(mesh) ||
      parser.parseComma() || sharding::parseAxes(parser, mesh, axes) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<AxesAttr>(start, parser.getContext(), mesh,
                                     ArrayRef(sharding::merged(mesh, axes)));
}

void AxesAttr::print(AsmPrinter &printer) const {
  printer << "<" << getMesh() << ", " << getMesh().toString(getAxes()) << ">";
}

Attribute BufferAttr::parse(AsmParser &parser, Type) {
  StringRef name;
  SMLoc location = parser.getCurrentLocation();
  int64_t offset, size, stride = 0, slots = 0, step = 0, each = 0;
  AxesAttr axes;
  if (parser.parseLess() || parser.parseKeyword(&name) || parser.parseComma() ||
      parser.parseInteger(offset) || parser.parseComma() ||
      parser.parseInteger(size))
    return {};
  if (succeeded(parser.parseOptionalKeyword("stride")) &&
      parser.parseInteger(stride))
    return {};
  if (succeeded(parser.parseOptionalKeyword("slots")) &&
      parser.parseInteger(slots))
    return {};
  if (succeeded(parser.parseOptionalKeyword("step"))) {
    if (parser.parseInteger(step) || parser.parseKeyword("over"))
      return {};
    axes = dyn_cast_or_null<AxesAttr>(AxesAttr::parse(parser, {}));
    if (!axes)
      return {};
  }
  if (succeeded(parser.parseOptionalKeyword("each")) &&
      parser.parseInteger(each))
    return {};
  if (parser.parseGreater())
    return {};
  std::optional<Region> region = symbolizeRegion(name);
  if (!region) {
    parser.emitError(location) << "a buffer is shared or private";
    return {};
  }
  return parser.getChecked<BufferAttr>(location, parser.getContext(), *region,
                                       offset, size, stride, slots, step, axes,
                                       each);
}

LogicalResult BufferAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 Region, int64_t, int64_t, int64_t stride,
                                 int64_t slots, int64_t, AxesAttr, int64_t) {
  if (slots < 0 || (slots > 0 && stride == 0))
    return emitError() << "[buffer 1] a buffer has " << slots
                       << " slots at a distance of " << stride << " bytes";
  return success();
}

void BufferAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyRegion(getRegion()) << ", " << getOffset() << ", "
          << getSize();
  if (getStride())
    printer << " stride " << getStride();
  if (getSlots())
    printer << " slots " << getSlots();
  if (getAxes()) {
    printer << " step " << getStep() << " over ";
    getAxes().print(printer);
  }
  if (getEach())
    printer << " each " << getEach();
  printer << ">";
}

int64_t polyrank::rank::getElementByteSize(Type elementType) {
  return (elementType.getIntOrFloatBitWidth() + 7) / 8;
}

RankedTensorType polyrank::rank::getTensorType(Type type) {
  if (auto pending = dyn_cast<PendingType>(type))
    return pending.getTensor();
  return cast<RankedTensorType>(type);
}

int64_t polyrank::rank::getByteSize(Type type) {
  RankedTensorType tensor = getTensorType(type);
  return tensor.getNumElements() * getElementByteSize(tensor.getElementType());
}
