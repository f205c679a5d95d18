// The binder through which the import function of an op sees its node.

#include "frontends/onnx/NodeImporter.h"

#include <array>

#include "frontends/onnx/FusedOps.h"
#include "frontends/onnx/OpTable.h"

using namespace mlir;

namespace polyrank::frontends::onnx {

Type toElementType(MLIRContext *context, DataType type) {
  switch (type) {
  case DataType::Float:
  case DataType::Double:
  case DataType::Float16:
  case DataType::BFloat16:
    return Float32Type::get(context);
  case DataType::Bool:
    return IntegerType::get(context, 1);
  case DataType::Int8:
  case DataType::Uint8:
  case DataType::Int16:
  case DataType::Uint16:
  case DataType::Int32:
    return IntegerType::get(context, 32);
  case DataType::Uint32:
  case DataType::Uint64:
  case DataType::Int64:
    return IntegerType::get(context, 64);
  default:
    return {};
  }
}

Type toKnownType(MLIRContext *context, DataType type) {
  switch (type) {
  case DataType::Double:
    return Float64Type::get(context);
  case DataType::Float16:
    return Float16Type::get(context);
  case DataType::BFloat16:
    return BFloat16Type::get(context);
  default:
    return toElementType(context, type);
  }
}

Type toStoredType(MLIRContext *context, DataType type) {
  switch (type) {
  case DataType::Int8:
    return IntegerType::get(context, 8);
  case DataType::Float:
  case DataType::Double:
  case DataType::Float16:
  case DataType::BFloat16:
  case DataType::Bool:
  case DataType::Int32:
  case DataType::Int64:
    return toKnownType(context, type);
  default:
    return {};
  }
}

Result<graph::Tensor> toTensor(MLIRContext *context, const Model &model,
                               const StoredTensor &tensor) {
  Type elementType = toKnownType(context, tensor.type);
  if (!elementType)
    return Error{"tensor `" + std::string(tensor.name) + "` has elements of " +
                 nameOf(tensor.type) +
                 ", which is not supported; convert it to float32 or int64"};
  std::vector<char> bytes;
  if (Result<void> loaded = model.load(tensor, bytes); !loaded)
    return loaded.error();
  graph::Tensor result(elementType, tensor.dims);
  auto read = [&](auto element, auto &into) {
    using T = decltype(element);
    for (int64_t i = 0, n = result.size(); i < n; ++i) {
      T value;
      memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      into[i] = value;
    }
  };
  auto readHalf = [&](const llvm::fltSemantics &semantics) {
    for (int64_t i = 0, n = result.size(); i < n; ++i) {
      uint16_t bits;
      memcpy(&bits, bytes.data() + i * 2, 2);
      llvm::APFloat value(semantics, llvm::APInt(16, bits));
      bool inexact;
      value.convert(llvm::APFloat::IEEEdouble(),
                    llvm::APFloat::rmNearestTiesToEven, &inexact);
      result.floats[i] = value.convertToDouble();
    }
  };
  switch (tensor.type) {
  case DataType::Float:
    read(float(), result.floats);
    break;
  case DataType::Double:
    read(double(), result.floats);
    break;
  case DataType::Float16:
    readHalf(llvm::APFloat::IEEEhalf());
    break;
  case DataType::BFloat16:
    readHalf(llvm::APFloat::BFloat());
    break;
  case DataType::Bool:
    read(int8_t(), result.integers);
    for (int64_t &value : result.integers)
      value = value != 0;
    break;
  case DataType::Int8:
    read(int8_t(), result.integers);
    break;
  case DataType::Uint8:
    read(uint8_t(), result.integers);
    break;
  case DataType::Int16:
    read(int16_t(), result.integers);
    break;
  case DataType::Uint16:
    read(uint16_t(), result.integers);
    break;
  case DataType::Uint32:
    read(uint32_t(), result.integers);
    break;
  case DataType::Int32:
    read(int32_t(), result.integers);
    break;
  default:
    read(int64_t(), result.integers);
  }
  return result;
}

LogicalResult NodeImporter::need(size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!has(i))
      return fail("operand " + Twine(i) + " is missing");
  for (size_t i = 0; i < operands.size(); ++i)
    if (has(i) && operands[i].sequence)
      return fail("operand " + Twine(i) + " is a sequence");
  return success();
}

LogicalResult NodeImporter::needIntegers(size_t i, StringRef what) {
  if (isa<IntegerType>(operands[i].getElementType()))
    return success();
  return fail("its " + what + " are not integers");
}

LogicalResult NodeImporter::needKnown(size_t i, StringRef what) {
  if (!has(i))
    return fail("its " + what + " is missing");
  if (operands[i].isConstant())
    return success();
  if (operands[i].constant)
    return fail("its " + what + " of shape " +
                toString(operands[i].getShape()) + " is too large");
  return fail("its " + what +
              " depends on the values of inputs or parameters, but must be "
              "known when the model is compiled");
}

FailureOr<double> NodeImporter::number(size_t i, StringRef what) {
  if (failed(needKnown(i, what)))
    return failure();
  const graph::Tensor &tensor = *operands[i].constant;
  if (tensor.size() != 1)
    return fail("its " + what + " of shape " + toString(tensor.shape) +
                " is not one element");
  return tensor.at(0);
}

Type NodeImporter::toResultType(DataType type) const {
  bool allKnown = llvm::all_of(operands, [](const Imported &operand) {
    return !operand || operand.constant;
  });
  MLIRContext *context = emit.getBuilder().getContext();
  return allKnown ? toKnownType(context, type) : toElementType(context, type);
}

FailureOr<int64_t> NodeImporter::integer(size_t i, StringRef what) {
  auto values = integers(i, what);
  if (failed(values))
    return failure();
  if (values->size() != 1)
    return fail("its " + what + " has " + Twine(values->size()) +
                " elements instead of one");
  return values->front();
}

FailureOr<SmallVector<int64_t>> NodeImporter::integers(size_t i,
                                                       StringRef what) {
  if (failed(needKnown(i, what)))
    return failure();
  const graph::Tensor &tensor = *operands[i].constant;
  if (tensor.isFloat())
    return fail("its " + what + " is not of integers");
  return SmallVector<int64_t>(tensor.integers.begin(), tensor.integers.end());
}

FailureOr<std::optional<SmallVector<int64_t>>>
NodeImporter::integersFrom(StringRef name, size_t i) {
  if (const Attribute *given = attribute(name))
    return std::optional(
        SmallVector<int64_t>(given->ints.begin(), given->ints.end()));
  if (!has(i))
    return std::optional<SmallVector<int64_t>>();
  auto values = integers(i, name);
  if (failed(values))
    return failure();
  return std::optional(*values);
}

bool isOf(const Node &node, StringRef name) {
  StringRef call = find(node.metadata, "pkg.torch.onnx.fx_node");
  return call.split("[target=torch.ops.").second.starts_with(name);
}

bool NodeImporter::isOf(StringRef name) const { return onnx::isOf(node, name); }

static double argumentOf(const Node &node, size_t position, StringRef name,
                         double otherwise) {
  // The record ends in "..](args = (%x, [1, 2], None), kwargs = {p: 0.5})".
  StringRef call = find(node.metadata, "pkg.torch.onnx.fx_node");
  auto [positional, named] =
      call.split("(args = (").second.split("), kwargs = {");
  StringRef text;
  int depth = 0;
  for (size_t i = 0, index = 0, start = 0; i <= positional.size(); ++i) {
    char c = i < positional.size() ? positional[i] : ',';
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    if (c != ',' || (depth != 0 && i < positional.size()))
      continue;
    if (index++ == position)
      text = positional.slice(start, i);
    start = i + 1;
  }
  std::string key = (name + ": ").str();
  size_t at = named.starts_with(key) ? 0 : named.find(", " + key);
  if (at != StringRef::npos)
    text = named.drop_front(at).split(": ").second.take_until(
        [](char c) { return c == ',' || c == '}'; });
  double value = otherwise;
  return text.trim().getAsDouble(value) ? otherwise : value;
}

double NodeImporter::argument(size_t position, StringRef name,
                              double otherwise) const {
  return argumentOf(node, position, name, otherwise);
}

double attentionDropout(const Node &node) {
  return isOf(node, "aten.scaled_dot_product_attention.")
             ? argumentOf(node, 4, "dropout_p", 0)
             : 0;
}

const Attribute *NodeImporter::attribute(StringRef name) const {
  for (const Attribute &attribute : node.attributes)
    if (StringRef(attribute.name) == name)
      return &attribute;
  return nullptr;
}

int64_t NodeImporter::getInt(StringRef name, int64_t otherwise) const {
  const Attribute *given = attribute(name);
  return given ? given->i : otherwise;
}

double NodeImporter::getFloat(StringRef name, double otherwise) const {
  const Attribute *given = attribute(name);
  return given ? given->f : otherwise;
}

StringRef NodeImporter::getString(StringRef name, StringRef otherwise) const {
  const Attribute *given = attribute(name);
  return given ? StringRef(given->s) : otherwise;
}

FailureOr<int64_t> NodeImporter::axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return fail("axis " + Twine(axis) + " of a tensor of rank " + Twine(rank));
  return axis < 0 ? axis + rank : axis;
}

FailureOr<SmallVector<int64_t>> NodeImporter::axes(ArrayRef<int64_t> axes,
                                                   int64_t rank) {
  SmallVector<int64_t> result;
  for (int64_t each : axes) {
    auto counted = axis(each, rank);
    if (failed(counted))
      return failure();
    result.push_back(*counted);
  }
  llvm::sort(result);
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    return fail("axes " + toString(axes) + " name a dim twice");
  return result;
}

namespace {

/// The rows of all files.
const std::array<ArrayRef<OpRow>, 22> &tables() {
  static const std::array<ArrayRef<OpRow>, 22> all = {
      getElementwiseRows(),  getActivationRows(),  getIntegerRows(),
      getGridRows(),         getShapeRows(),       getSliceRows(),
      getIndexRows(),        getScatterRows(),     getResizeRows(),
      getContractionRows(),  getEinsumRows(),      getNormalizationRows(),
      getAttentionRows(),    getFusedRows(),       getFusedAttentionRows(),
      getFusedProductRows(), getConvolutionRows(), getPoolingRows(),
      getTrainingRows(),     getLossRows(),        getRecurrentRows(),
      getComposedRows()};
  return all;
}

} // namespace

const OpRow *findRow(StringRef domain, StringRef type, int64_t version) {
  const OpRow *best = nullptr;
  for (ArrayRef<OpRow> rows : tables())
    for (const OpRow &row : rows)
      if (row.type == type && row.domain == domain && row.since <= version &&
          (!best || row.since > best->since))
        best = &row;
  return best;
}

std::vector<OpRow> listRows() {
  std::vector<OpRow> all;
  for (ArrayRef<OpRow> rows : tables())
    all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

int64_t oldestVersion(StringRef domain, StringRef type) {
  for (int64_t version = 1; version <= newestOpset; ++version)
    if (findRow(domain, type, version))
      return version;
  return 0;
}

} // namespace polyrank::frontends::onnx
