// The binder through which the import function of an op sees its node.

#include "frontends/onnx/NodeImporter.h"

#include <array>
#include <type_traits>

#include "frontends/onnx/FusedOps.h"
#include "frontends/onnx/OpTable.h"
#include "support/ElementValues.h"

using namespace mlir;

namespace polyrank::frontends::onnx {

Result<graph::Tensor> toTensor(MLIRContext *context, const Model &model,
                               const StoredTensor &tensor) {
  Type elementType = knownType(context, tensor.type);
  if (!elementType)
    return Error{"tensor `" + std::string(tensor.name) + "` has elements of " +
                 longNameOf(tensor.type) +
                 ", which is not supported; convert it to float32 or int64"};
  std::vector<char> bytes;
  if (Result<void> loaded = model.load(tensor, bytes); !loaded)
    return loaded.error();
  graph::Tensor result(elementType, tensor.dims);
  visitElements(tensor.type, [&]<typename T>(T) {
    for (int64_t i = 0, n = result.size(); i < n; ++i) {
      Arithmetic<T> value = loadElement<T>(bytes.data() + i * sizeof(T));
      if constexpr (std::is_floating_point_v<Arithmetic<T>>)
        result.floats[i] = value;
      else
        result.integers[i] = static_cast<int64_t>(value);
    }
  });
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

Type NodeImporter::toResultType(ElementType type) const {
  bool allKnown = llvm::all_of(operands, [](const Imported &operand) {
    return !operand || operand.constant;
  });
  MLIRContext *context = emit.getBuilder().getContext();
  return allKnown ? knownType(context, type) : computedType(context, type);
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
