// Meshes and layouts: verification, local shapes, text.

#include "dialects/sharding/Layout.h"

#include <limits>

#include "dialects/sharding/Sharding.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace polyrank::sharding;

#include "dialects/sharding/ShardingEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/sharding/ShardingAttrs.cpp.inc"

void ShardingDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/sharding/ShardingAttrs.cpp.inc"
      >();
}

// Mesh

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<StringAttr> names,
                               ArrayRef<int64_t> sizes) {
  int64_t devices = 1;
  for (auto [i, name] : llvm::enumerate(names)) {
    if (name.empty() || llvm::is_contained(names.take_front(i), name))
      return emitError() << "[mesh 1] mesh axis \"" << name.getValue()
                         << "\" must have a name of its own";
    if (!isAxisName(name.getValue()))
      return emitError()
             << "[mesh 1] mesh axis \"" << name.getValue()
             << "\" has other characters than letters, digits and _";
    if (sizes[i] < 1)
      return emitError() << "[mesh 2] mesh axis \"" << name.getValue()
                         << "\" has size " << sizes[i]
                         << "; sizes are positive";
    if (sizes[i] > maxDevices / devices)
      return emitError() << "[mesh 2] a mesh has at most " << maxDevices
                         << " devices";
    devices *= sizes[i];
  }
  return success();
}

bool MeshAttr::isAxisName(StringRef name) {
  return !name.empty() && llvm::all_of(name, [](char c) {
    return llvm::isAlnum(c) || c == '_';
  });
}

int64_t MeshAttr::getNumDevices() const {
  int64_t count = 1;
  for (int64_t size : getAxisSizes())
    count *= size;
  return count;
}

int32_t MeshAttr::lookup(StringRef name) const {
  for (auto [i, axis] : llvm::enumerate(getAxisNames()))
    if (axis.getValue() == name)
      return i;
  return -1;
}

AxisRef MeshAttr::getAxis(int32_t axis) const {
  return {axis, 1, getAxisSizes()[axis]};
}

int64_t MeshAttr::getCoordinate(int64_t device, AxisRef ref) const {
  int64_t inner = 1;
  for (int64_t size : getAxisSizes().drop_front(ref.axis + 1))
    inner *= size;
  int64_t size = getAxisSizes()[ref.axis];
  int64_t coordinate = device / inner % size;
  return coordinate / (size / (ref.pre * ref.size)) % ref.size;
}

int64_t MeshAttr::getLinearIndex(int64_t device, ArrayRef<AxisRef> axes) const {
  int64_t index = 0;
  for (AxisRef ref : axes)
    index = index * ref.size + getCoordinate(device, ref);
  return index;
}

SmallVector<int64_t> MeshAttr::getGroup(int64_t device,
                                        ArrayRef<AxisRef> axes) const {
  // Replaces the digits of `axes` in `device`. Each digit has a weight in the
  // device number, since sub-axes are digits of digits.
  SmallVector<int64_t> weights;
  int64_t base = device;
  for (AxisRef ref : axes) {
    int64_t weight = getAxisSizes()[ref.axis] / (ref.pre * ref.size);
    for (int64_t size : getAxisSizes().drop_front(ref.axis + 1))
      weight *= size;
    weights.push_back(weight);
    base -= weight * getCoordinate(device, ref);
  }
  SmallVector<int64_t> group(product(axes), base);
  for (auto [index, member] : llvm::enumerate(group))
    for (int64_t rest = index, i = axes.size() - 1; i >= 0; --i) {
      member += weights[i] * (rest % axes[i].size);
      rest /= axes[i].size;
    }
  return group;
}

std::string MeshAttr::toString(AxisRef ref) const {
  std::string text = "\"" + getAxisNames()[ref.axis].str() + "\"";
  if (ref != getAxis(ref.axis))
    text += ":(" + std::to_string(ref.pre) + ")" + std::to_string(ref.size);
  return text;
}

std::string MeshAttr::toString(ArrayRef<AxisRef> axes) const {
  std::string text = "{";
  llvm::raw_string_ostream out(text);
  llvm::interleaveComma(axes, out, [&](AxisRef ref) { out << toString(ref); });
  out << "}";
  return text;
}

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    if (parser.parseString(&name) || parser.parseEqual() ||
        parser.parseInteger(sizes.emplace_back()))
      return failure();
    names.push_back(parser.getBuilder().getStringAttr(name));
    return success();
  };
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<MeshAttr>(parser.getContext(), names, sizes);
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(
      llvm::zip_equal(getAxisNames(), getAxisSizes()), printer, [&](auto axis) {
        printer << std::get<0>(axis) << "=" << std::get<1>(axis);
      });
  printer << "]>";
}

// Dim: parsed and printed by its layout

int64_t DimAttr::getNumBlocks() const { return product(getAxes()); }

Attribute DimAttr::parse(AsmParser &parser, Type) {
  parser.emitError(parser.getCurrentLocation(),
                   "a dim's layout is written inside #sharding.layout");
  return {};
}

static std::string toString(MeshAttr mesh, DimAttr dim) {
  std::string text = mesh.toString(dim.getAxes());
  if (dim.getPadded())
    text += " pad " + std::to_string(dim.getPadded());
  if (dim.getFill() != Fill::Undefined)
    text += " fill " + stringifyFill(dim.getFill()).str();
  if (dim.hasHalo())
    text += (dim.getSpills() ? " spill " : " halo ") +
            std::to_string(dim.getHaloLow()) + ":" +
            std::to_string(dim.getHaloHigh());
  return text;
}

void DimAttr::print(AsmPrinter &printer) const {
  printer << "<" << getNumBlocks() << " blocks>";
}

// Layout

LayoutAttr LayoutAttr::getReplicated(MeshAttr mesh, int64_t rank) {
  return get(mesh, SmallVector<DimAttr>(rank, DimAttr::get(mesh, {})));
}

bool LayoutAttr::isReplicated() const {
  return !isPartial() && getPlaces().empty() &&
         llvm::all_of(getDims(), [](DimAttr dim) { return dim.isWhole(); });
}

LayoutAttr LayoutAttr::withDims(ArrayRef<DimAttr> dims) const {
  return get(getMesh(), dims, getPartialKind(), getPartialAxes(), getPlaces());
}

LayoutAttr LayoutAttr::withDim(int64_t dim, DimAttr layout) const {
  SmallVector<DimAttr> dims(getDims());
  dims[dim] = layout;
  return withDims(dims);
}

LayoutAttr LayoutAttr::withPartial(ReductionKind kind,
                                   ArrayRef<AxisRef> axes) const {
  return get(getMesh(), getDims(), kind, axes, getPlaces());
}

SmallVector<int64_t> LayoutAttr::getLocalShape(ArrayRef<int64_t> shape) const {
  SmallVector<int64_t> local;
  for (auto [size, dim] : llvm::zip_equal(shape, getDims()))
    local.push_back(dim.getExtent(size) / dim.getNumBlocks() +
                    dim.getHaloLow() + dim.getHaloHigh());
  return local;
}

SmallVector<AxisRef> LayoutAttr::getUsedAxes() const {
  SmallVector<AxisRef> used(getPartialAxes());
  for (DimAttr dim : getDims())
    llvm::append_range(used, dim.getAxes());
  for (Place place : getPlaces())
    used.push_back(getMesh().getAxis(place.axis));
  return used;
}

std::string LayoutAttr::toString() const {
  std::string text = "[";
  llvm::raw_string_ostream out(text);
  MeshAttr mesh = getMesh();
  llvm::interleaveComma(getDims(), out,
                        [&](DimAttr dim) { out << ::toString(mesh, dim); });
  out << "]";
  if (isPartial())
    out << ", partial = " << stringifyReductionKind(getPartialKind()) << " "
        << mesh.toString(getPartialAxes());
  if (!getPlaces().empty()) {
    out << ", at {";
    llvm::interleaveComma(getPlaces(), out, [&](Place place) {
      out << mesh.getAxisNames()[place.axis] << " = " << place.coordinate;
    });
    out << "}";
  }
  return text;
}

LogicalResult LayoutAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 MeshAttr mesh, ArrayRef<DimAttr> dims,
                                 ReductionKind, ArrayRef<AxisRef> partialAxes,
                                 ArrayRef<Place> places) {
  SmallVector<AxisRef> used;
  auto use = [&](AxisRef ref) -> LogicalResult {
    int64_t size = mesh.getAxisSizes()[ref.axis];
    if (!ref.liesIn(size))
      return emitError() << "[layout 1] sub-axis " << mesh.toString(ref)
                         << " does not divide the mesh axis of size " << size;
    for (AxisRef other : used)
      if (ref.overlaps(other))
        return emitError() << "[layout 2] mesh axis " << mesh.toString(ref)
                           << " is used twice; an axis splits one dim, or is "
                              "partial, or is a place";
    used.push_back(ref);
    return success();
  };
  for (DimAttr dim : dims) {
    for (AxisRef ref : dim.getAxes())
      if (failed(use(ref)))
        return failure();
    if (dim.getFill() != Fill::Undefined && !dim.getPadded())
      return emitError() << "[layout 6] 'fill' says what padding holds and "
                            "needs 'pad'";
    if (dim.hasHalo() && dim.getAxes().empty())
      return emitError() << "[layout 6] "
                         << (dim.getSpills() ? "'spill'" : "'halo'")
                         << " needs a split dim";
    if (dim.getHaloLow() < 0 || dim.getHaloHigh() < 0)
      return emitError() << "[layout 6] the widths of borders are not negative";
  }
  for (AxisRef ref : partialAxes)
    if (failed(use(ref)))
      return failure();
  for (Place place : places) {
    if (failed(use(mesh.getAxis(place.axis))))
      return failure();
    if (place.coordinate < 0 ||
        place.coordinate >= mesh.getAxisSizes()[place.axis])
      return emitError() << "[layout 7] place " << place.coordinate
                         << " lies outside mesh axis "
                         << mesh.toString(mesh.getAxis(place.axis))
                         << " of size " << mesh.getAxisSizes()[place.axis];
  }
  return success();
}

LogicalResult
LayoutAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                           function_ref<InFlightDiagnostic()> emitError) const {
  if (static_cast<int64_t>(shape.size()) != getRank())
    return emitError() << "[layout 3] layout " << toString() << " has "
                       << getRank() << " dims, the tensor " << shape.size();
  for (auto [i, size] : llvm::enumerate(shape)) {
    DimAttr dim = getDim(i);
    int64_t blocks = dim.getNumBlocks();
    if (ShapedType::isDynamic(size))
      return emitError() << "[layout 3] dim " << i
                         << " is dynamic; layouts need static shapes";
    if (dim.getPadded() && dim.getPadded() <= size)
      return emitError() << "[layout 5] dim " << i << " of size " << size
                         << " is not padded by 'pad " << dim.getPadded() << "'";
    if (dim.getExtent(size) % blocks != 0)
      return emitError() << "[layout 4] dim " << i << " of size "
                         << dim.getExtent(size) << " cannot be split over "
                         << getMesh().toString(dim.getAxes()) << " into "
                         << blocks << " equal blocks; pad it to "
                         << (dim.getExtent(size) + blocks - 1) / blocks *
                                blocks;
  }
  return success();
}

/// `"name"` or `"name":(pre)size`.
static ParseResult parseAxis(AsmParser &parser, MeshAttr mesh, AxisRef &ref) {
  std::string name;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseString(&name))
    return failure();
  int32_t axis = mesh.lookup(name);
  if (axis < 0)
    return parser.emitError(location)
           << "the mesh has no axis \"" << name << "\"";
  ref = mesh.getAxis(axis);
  if (failed(parser.parseOptionalColon()))
    return success();
  return failure(parser.parseLParen() || parser.parseInteger(ref.pre) ||
                 parser.parseRParen() || parser.parseInteger(ref.size));
}

ParseResult polyrank::sharding::parseAxes(AsmParser &parser, MeshAttr mesh,
                                          SmallVectorImpl<AxisRef> &axes) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, [&] {
    return parseAxis(parser, mesh, axes.emplace_back());
  });
}

static ParseResult parseDim(AsmParser &parser, MeshAttr mesh, DimAttr &dim) {
  SmallVector<AxisRef> axes;
  int64_t padded = 0, low = 0, high = 0;
  Fill fill = Fill::Undefined;
  if (parseAxes(parser, mesh, axes))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("pad")) &&
      parser.parseInteger(padded))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("fill"))) {
    StringRef name;
    SMLoc location = parser.getCurrentLocation();
    if (parser.parseKeyword(&name))
      return failure();
    std::optional<Fill> parsed = symbolizeFill(name);
    if (!parsed)
      return parser.emitError(location) << "'fill' is zero, neg_inf or pos_inf";
    fill = *parsed;
  }
  bool spills = succeeded(parser.parseOptionalKeyword("spill"));
  if ((spills || succeeded(parser.parseOptionalKeyword("halo"))) &&
      (parser.parseInteger(low) || parser.parseColon() ||
       parser.parseInteger(high)))
    return failure();
  dim = DimAttr::get(mesh, axes, padded, fill, low, high, spills);
  return success();
}

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  MeshAttr mesh;
  SmallVector<DimAttr> dims;
  ReductionKind kind = ReductionKind::Sum;
  SmallVector<AxisRef> partialAxes;
  SmallVector<Place> places;
  SMLoc start = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseAttribute(mesh) || parser.parseComma())
    return {};
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
        return parseDim(parser, mesh, dims.emplace_back());
      }))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    if (succeeded(parser.parseOptionalKeyword("partial"))) {
      StringRef name;
      SMLoc location = parser.getCurrentLocation();
      if (parser.parseEqual() || parser.parseKeyword(&name))
        return {};
      std::optional<ReductionKind> parsed = symbolizeReductionKind(name);
      if (!parsed) {
        parser.emitError(location) << "'partial' is sum, max or min";
        return {};
      }
      kind = *parsed;
      if (parseAxes(parser, mesh, partialAxes))
        return {};
    } else {
      if (parser.parseKeyword("at") ||
          parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, [&] {
            AxisRef ref;
            Place &place = places.emplace_back();
            if (parseAxis(parser, mesh, ref) || parser.parseEqual() ||
                parser.parseInteger(place.coordinate))
              return failure();
            place.axis = ref.axis;
            return success();
          }))
        return {};
    }
  }
  if (parser.parseGreater())
    return {};
  SmallVector<AxisRef> axes = normalized(mesh, partialAxes);
  llvm::sort(places);
  return parser.getChecked<LayoutAttr>(start, parser.getContext(), mesh, dims,
                                       axes.empty() ? ReductionKind::Sum : kind,
                                       axes, places);
}

void LayoutAttr::print(AsmPrinter &printer) const {
  printer << "<" << getMesh() << ", " << toString() << ">";
}

// Types

LayoutAttr polyrank::sharding::getLayout(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_if_present<LayoutAttr>(tensor.getEncoding())
                : LayoutAttr();
}

LayoutAttr polyrank::sharding::getLayout(Value value) {
  return getLayout(value.getType());
}

RankedTensorType polyrank::sharding::withLayout(RankedTensorType type,
                                                LayoutAttr layout) {
  return RankedTensorType::get(type.getShape(), type.getElementType(), layout);
}

RankedTensorType polyrank::sharding::getLocalType(RankedTensorType type) {
  LayoutAttr layout = getLayout(type);
  return RankedTensorType::get(layout ? layout.getLocalShape(type.getShape())
                                      : SmallVector<int64_t>(type.getShape()),
                               type.getElementType());
}

Fill polyrank::sharding::identityFill(ReductionKind kind) {
  switch (kind) {
  case ReductionKind::Sum:
    return Fill::Zero;
  case ReductionKind::Max:
    return Fill::NegInf;
  case ReductionKind::Min:
    return Fill::PosInf;
  }
  llvm_unreachable("covered switch");
}

double polyrank::sharding::fillValue(Fill fill) {
  switch (fill) {
  case Fill::Undefined:
    return std::numeric_limits<double>::quiet_NaN();
  case Fill::Zero:
    return 0;
  case Fill::NegInf:
    return -std::numeric_limits<double>::infinity();
  case Fill::PosInf:
    return std::numeric_limits<double>::infinity();
  }
  llvm_unreachable("covered switch");
}
