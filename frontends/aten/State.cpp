// Parameters, buffers and constants as PyTorch's files store them.

#include "frontends/aten/State.h"

#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "frontends/import/Freeze.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace polyrank::frontends::aten {

/// Of one tensor.
static constexpr int64_t maxStoredElements = int64_t(1) << 48;

/// The number of the last element in the storage, or -1 of no elements; nullopt
/// where that is no number that a storage can have.
static std::optional<int64_t> findLast(const StoredTensor &tensor) {
  int64_t last = tensor.storageOffset, count = 1;
  for (auto [size, stride] : llvm::zip(tensor.sizes, tensor.strides)) {
    if (size == 0)
      return -1;
    int64_t reach;
    if (llvm::MulOverflow(size - 1, stride, reach) ||
        llvm::AddOverflow(last, reach, last) ||
        llvm::MulOverflow(count, size, count) || count > maxStoredElements)
      return std::nullopt;
  }
  return last;
}

std::string check(const StoredTensor &tensor) {
  auto isNegative = [](int64_t x) { return x < 0; };
  if (tensor.sizes.size() != tensor.strides.size())
    return "has " + std::to_string(tensor.sizes.size()) + " sizes and " +
           std::to_string(tensor.strides.size()) + " strides";
  if (llvm::any_of(tensor.sizes, isNegative) ||
      llvm::any_of(tensor.strides, isNegative) || tensor.storageOffset < 0)
    return "has the sizes " + toString(tensor.sizes) + ", strides " +
           toString(tensor.strides) + " and offset " +
           std::to_string(tensor.storageOffset);
  auto last = findLast(tensor);
  auto elements = static_cast<int64_t>(
      tensor.bytes.size() / static_cast<size_t>(byteSize(tensor.type)));
  if (!last || *last >= elements)
    return "of " + nameOf(tensor.type).str() + toString(tensor.sizes) +
           " reaches beyond its storage of " +
           std::to_string(tensor.bytes.size()) + " bytes";
  // Memory is taken for what the file has.
  constexpr int64_t little = 1 << 20;
  if (int64_t count = countElements(tensor.sizes);
      count > std::max(elements, little))
    return "of " + nameOf(tensor.type).str() + toString(tensor.sizes) +
           " repeats the elements of a storage of " +
           std::to_string(tensor.bytes.size()) +
           " bytes; save a contiguous() copy of it";
  return "";
}

//===-- elements ---------------------------------------------------------===//

/// Calls `body` with the number of each element in the storage, row-major.
static void forEachElement(const StoredTensor &tensor,
                           function_ref<void(int64_t)> body) {
  size_t rank = tensor.sizes.size();
  if (llvm::is_contained(tensor.sizes, 0))
    return;
  SmallVector<int64_t> index(rank, 0);
  int64_t at = tensor.storageOffset;
  while (true) {
    body(at);
    size_t dim = rank;
    while (dim > 0 && ++index[dim - 1] == tensor.sizes[dim - 1]) {
      --dim;
      at -= (tensor.sizes[dim] - 1) * tensor.strides[dim];
      index[dim] = 0;
    }
    if (dim == 0)
      return;
    at += tensor.strides[dim - 1];
  }
}

graph::Tensor load(MLIRContext *context, const StoredTensor &tensor) {
  graph::Tensor result(toKnownType(context, tensor.type), tensor.sizes);
  auto read = [&](auto element, auto &into, auto convert) {
    using T = decltype(element);
    size_t i = 0;
    forEachElement(tensor, [&](int64_t at) {
      T value;
      std::memcpy(&value,
                  tensor.bytes.data() + static_cast<size_t>(at) * sizeof(T),
                  sizeof(T));
      into[i++] = convert(value);
    });
  };
  auto same = [](auto value) { return value; };
  auto half = [](const llvm::fltSemantics &semantics) {
    return [&semantics](uint16_t bits) {
      llvm::APFloat value(semantics, llvm::APInt(16, bits));
      bool inexact;
      value.convert(llvm::APFloat::IEEEdouble(),
                    llvm::APFloat::rmNearestTiesToEven, &inexact);
      return value.convertToDouble();
    };
  };
  switch (tensor.type) {
  case ScalarType::Byte:
    read(uint8_t(), result.integers, same);
    break;
  case ScalarType::Char:
    read(int8_t(), result.integers, same);
    break;
  case ScalarType::Short:
    read(int16_t(), result.integers, same);
    break;
  case ScalarType::Int:
    read(int32_t(), result.integers, same);
    break;
  case ScalarType::Long:
    read(int64_t(), result.integers, same);
    break;
  case ScalarType::Bool:
    read(uint8_t(), result.integers, [](uint8_t value) { return value != 0; });
    break;
  case ScalarType::Half:
    read(uint16_t(), result.floats, half(llvm::APFloat::IEEEhalf()));
    break;
  case ScalarType::BFloat16:
    read(uint16_t(), result.floats, half(llvm::APFloat::BFloat()));
    break;
  case ScalarType::Float:
    read(float(), result.floats, same);
    break;
  case ScalarType::Double:
    read(double(), result.floats, same);
    break;
  }
  return result;
}

//===-- parameters -------------------------------------------------------===//

/// Whether the elements follow each other, row-major.
static bool isContiguous(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides) {
  int64_t expected = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    if (sizes[dim] != 1 && strides[dim] != expected)
      return false;
    expected *= sizes[dim];
  }
  return true;
}

namespace {

class Declarer {
public:
  explicit Declarer(Location location)
      : location(location), context(location.getContext()) {}

  LogicalResult add(const StateEntry &entry) {
    const StoredTensor &tensor = entry.tensor;
    if (std::string why = check(tensor); !why.empty())
      return fail("`" + entry.name + "` " + why);
    if (entry.role == Role::Constant) {
      if (countElements(tensor.sizes) > maxFolded)
        return fail("the constant `" + entry.name + "` of " +
                    toString(tensor.sizes) +
                    " is too large to be known when the model is compiled; "
                    "register it as a buffer of the model");
      result.numbers.push_back(-1);
      return success();
    }
    auto [known, isNew] = numbers.try_emplace(
        {tensor.storage.path, tensor.storage.offset, tensor.storageOffset,
         tensor.type, tensor.sizes, tensor.strides},
        result.parameters.size());
    // Tensors without elements are not one because they lie at one place.
    bool isTied = !isNew && countElements(tensor.sizes) != 0;
    result.numbers.push_back(static_cast<int64_t>(
        isTied ? known->second : result.parameters.size()));
    if (!names.insert(entry.name).second)
      return fail("two parameters or buffers have the name `" + entry.name +
                  "`");
    if (isTied) {
      ParameterSpec &parameter = result.parameters[known->second];
      parameter.aliases.push_back(entry.name);
      parameter.trainable |= isTrained(entry);
      return success();
    }
    return declare(entry);
  }

  DeclaredState result;

private:
  LogicalResult fail(const std::string &reason) {
    return emitError(location) << reason;
  }

  static bool isTrained(const StateEntry &entry) {
    return entry.role == Role::Parameter && entry.requiresGrad &&
           isFloat(entry.tensor.type);
  }

  LogicalResult declare(const StateEntry &entry) {
    const StoredTensor &tensor = entry.tensor;
    Type stored = toStoredType(context, tensor.type);
    if (!stored)
      return fail("`" + entry.name + "` is " + nameOf(tensor.type).str() +
                  ", which is not supported; convert it to int32 or int64");
    ParameterSpec spec;
    spec.name = entry.name;
    spec.stored = RankedTensorType::get(tensor.sizes, stored);
    spec.computed = toElementType(context, tensor.type);
    spec.trainable = isTrained(entry);
    bool isTransposed = tensor.sizes.size() == 2 &&
                        isContiguous({tensor.sizes[1], tensor.sizes[0]},
                                     {tensor.strides[1], tensor.strides[0]});
    auto count = static_cast<uint64_t>(countElements(tensor.sizes));
    auto bytes = static_cast<uint64_t>(byteSize(tensor.type));
    if (isContiguous(tensor.sizes, tensor.strides) || isTransposed) {
      spec.transposed = !isContiguous(tensor.sizes, tensor.strides);
      spec.span = {tensor.storage.path,
                   tensor.storage.offset +
                       static_cast<uint64_t>(tensor.storageOffset) * bytes,
                   count * bytes};
      if (count == 0)
        spec.span = {tensor.storage.path, tensor.storage.offset, 0};
    } else {
      constexpr uint64_t mostCopied = uint64_t(1) << 24;
      if (count > mostCopied)
        return fail("the elements of `" + entry.name + "` of " +
                    toString(tensor.sizes) +
                    " do not follow each other in the file (strides " +
                    toString(tensor.strides) +
                    "); save the model with contiguous() parameters");
      graph::Tensor elements = load(context, tensor);
      elements.elementType = stored;
      spec.value = elements.toAttribute();
    }
    if (failed(checkOverlap(entry, spec.trainable)))
      return failure();
    result.parameters.push_back(std::move(spec));
    return success();
  }

  /// Tensors that share only some elements would be trained apart, which
  /// PyTorch would not do.
  LogicalResult checkOverlap(const StateEntry &entry, bool isTrained) {
    const StoredTensor &tensor = entry.tensor;
    auto last = findLast(tensor);
    if (!last || *last < 0)
      return success();
    auto bytes = static_cast<uint64_t>(byteSize(tensor.type));
    Span span{static_cast<uint64_t>(tensor.storageOffset) * bytes,
              (static_cast<uint64_t>(*last) + 1) * bytes, entry.name,
              isTrained};
    auto &others = spans[{tensor.storage.path, tensor.storage.offset}];
    for (const Span &other : others)
      if ((isTrained || other.isTrained) && span.begin < other.end &&
          other.begin < span.end)
        return fail("`" + other.name + "` and `" + span.name +
                    "` share some elements without being one tensor; clone() "
                    "one of them before the model is saved");
    others.push_back(span);
    return success();
  }

  struct Span {
    uint64_t begin, end;
    std::string name;
    bool isTrained;
  };

  Location location;
  MLIRContext *context;
  std::map<std::tuple<std::string, uint64_t, int64_t, ScalarType,
                      std::vector<int64_t>, std::vector<int64_t>>,
           size_t>
      numbers;
  std::set<std::string> names;
  std::map<std::pair<std::string, uint64_t>, std::vector<Span>> spans;
};

} // namespace

FailureOr<DeclaredState> declare(Location location,
                                 ArrayRef<StateEntry> entries) {
  Declarer declarer(location);
  for (const StateEntry &entry : entries)
    if (failed(declarer.add(entry)))
      return failure();
  return std::move(declarer.result);
}

std::vector<Value> valuesOf(MLIRContext *context, ArrayRef<StateEntry> entries,
                            const DeclaredState &state, ValueRange arguments) {
  std::vector<Value> values;
  // Entries that are one tensor are one value: what is written under one name
  // is seen under the other.
  std::map<int64_t, Value> known;
  for (auto [entry, number] : llvm::zip_equal(entries, state.numbers)) {
    ScalarType type = entry.tensor.type;
    if (number < 0) {
      values.push_back(std::make_shared<Tensor>(
          Imported(load(context, entry.tensor)), type));
      continue;
    }
    auto [value, isNew] = known.try_emplace(number);
    if (isNew) {
      Imported elements;
      if (!isFloat(type) && countElements(entry.tensor.sizes) <= maxFolded)
        elements = load(context, entry.tensor);
      value->second =
          Tensor::ofParameter(arguments[number], type, std::move(elements));
    }
    values.push_back(value->second);
  }
  return values;
}

LogicalResult freezeParameters(Location location, const ImportOptions &options,
                               std::vector<ParameterSpec> &parameters) {
  if (!options.tie)
    return emitError(location)
           << "--no-tie: the file holds no copy of a tied matrix; leave the "
              "option out";
  std::vector<Freezable> freezable;
  for (ParameterSpec &parameter : parameters)
    freezable.push_back(
        {parameter.name, parameter.aliases, isa<FloatType>(parameter.computed),
         parameter.stored.getNumElements(), parameter.trainable});
  std::vector<std::string> notes;
  if (std::string reason =
          freeze(freezable, options.freeze, options.trainOnly, notes);
      !reason.empty())
    return emitError(location) << reason;
  for (const std::string &note : notes)
    emitRemark(location) << note;
  return success();
}

} // namespace polyrank::frontends::aten
