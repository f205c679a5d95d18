// Parameters, buffers and constants as PyTorch's files store them.

#include "frontends/aten/State.h"

#include <cstring>
#include <map>
#include <set>

#include "frontends/aten/Complex.h"
#include "frontends/import/Freeze.h"
#include "mlir/IR/Diagnostics.h"
#include "support/ElementValues.h"

using namespace mlir;

namespace polyrank::frontends::aten {

using archive::StoredTensor;

std::string explainType(const StoredTensor &tensor, Role role) {
  ElementType type = tensor.type;
  bool isTrained = role == Role::Parameter && tensor.requiresGrad;
  if (isSupported(type) || (isComplex(type) && !isTrained))
    return "";
  std::string text = "is " + longNameOf(type) + ", which is not supported";
  if (isComplex(type))
    return text + "; train torch.view_as_real of it";
  return text + (type == ElementType::C32 ? "; convert it to complex64"
                                          : "; convert it to float32 or int64");
}

/// The element type of a tensor; for complex ones that of their parts.
static ElementType partType(ElementType type) {
  return type == ElementType::C64    ? ElementType::F32
         : type == ElementType::C128 ? ElementType::F64
                                     : type;
}

/// The shape of a tensor; complex ones have a last dim for their parts.
static Shape partShape(const StoredTensor &tensor) {
  Shape shape(tensor.sizes.begin(), tensor.sizes.end());
  if (isComplex(tensor.type))
    shape.push_back(2);
  return shape;
}

graph::Tensor load(MLIRContext *context, const MappedModel &model,
                   const StoredTensor &tensor) {
  graph::Tensor result(knownType(context, partType(tensor.type)),
                       partShape(tensor));
  size_t i = 0, parts = isComplex(tensor.type) ? 2 : 1;
  visitElements(partType(tensor.type), [&]<typename T>(T) {
    archive::forEachElement(tensor, [&](uint64_t at) {
      for (size_t part = 0; part < parts; ++part, ++i) {
        Arithmetic<T> value =
            loadElement<T>(model.bytes.data() + at + part * sizeof(T));
        if constexpr (std::is_floating_point_v<Arithmetic<T>>)
          result.floats[i] = value;
        else
          result.integers[i] = static_cast<int64_t>(value);
      }
    });
  });
  return result;
}

/// Loads a constant of complex numbers.
static Value loadComplex(MLIRContext *context, const MappedModel &model,
                         const StoredTensor &tensor) {
  graph::Tensor pairs = load(context, model, tensor);
  auto part = [&](size_t number) {
    graph::Tensor result(knownType(context, ElementType::F32), tensor.sizes);
    for (size_t i = 0; i < result.floats.size(); ++i)
      result.floats[i] = static_cast<float>(pairs.floats[2 * i + number]);
    return Value(std::make_shared<Tensor>(Imported(std::move(result)),
                                          ElementType::F32));
  };
  return Complex::of(part(0), part(1));
}

/// A complex tensor of the state, from `pairs`, whose last dim holds its parts.
/// It cannot be written, since writes would go into copies.
static Value complexOf(Emitter &emit, const Imported &pairs) {
  Shape shape = pairs.getShape();
  shape.pop_back();
  auto last = static_cast<int64_t>(shape.size());
  auto part = [&](int64_t number) {
    Imported elements = emit.slice(pairs, last, number, number + 1);
    auto tensor = std::make_shared<Tensor>(emit.reshape(elements, shape),
                                           ElementType::F32);
    tensor->forbidWriting("it changes complex numbers of the state dict, which "
                          "is not supported; register torch.view_as_real of "
                          "them");
    return Value(tensor);
  };
  return Complex::of(part(0), part(1));
}

//===-- parameters -------------------------------------------------------===//

namespace {

class Declarer {
public:
  Declarer(Location location, const MappedModel &model)
      : location(location), context(location.getContext()), model(model) {}

  LogicalResult add(const StateEntry &entry) {
    const StoredTensor &tensor = entry.tensor;
    if (entry.role == Role::Constant) {
      if (tensor.numElements() > maxFolded)
        return fail("the constant `" + entry.name + "` of " +
                    toString(tensor.sizes) +
                    " is too large to be known when the model is compiled; "
                    "register it as a buffer of the model");
      if (failed(takeElements(entry)))
        return failure();
      result.numbers.push_back(-1);
      return success();
    }
    auto [known, isNew] =
        numbers.try_emplace(tensor.key(), result.parameters.size());
    // Tensors without elements are not tied just because they are at the same
    // place.
    bool isTied = !isNew && tensor.numElements() != 0;
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

  /// Takes memory for a tensor whose elements are read at import, once for tied
  /// entries. A view may have many more elements than the file.
  LogicalResult takeElements(const StateEntry &entry) {
    uint64_t bytes = static_cast<uint64_t>(entry.tensor.numElements()) *
                     sizeof(double) * (isComplex(entry.tensor.type) ? 2 : 1);
    if (!read.insert(entry.tensor.key()).second || model.budget.take(bytes))
      return success();
    return fail("`" + entry.name + "` of " + toString(entry.tensor.sizes) +
                " is read when the model is imported, and " +
                model.budget.describe());
  }

  static bool isTrained(const StateEntry &entry) {
    return entry.role == Role::Parameter && entry.tensor.requiresGrad &&
           isFloat(entry.tensor.type);
  }

  LogicalResult declare(const StateEntry &entry) {
    const StoredTensor &tensor = entry.tensor;
    bool isReal = !isComplex(tensor.type);
    Type stored = storedType(context, partType(tensor.type));
    if (!stored)
      return fail("`" + entry.name + "` is " + longNameOf(tensor.type) +
                  ", which is not supported; convert it to int32 or int64");
    ParameterSpec spec;
    spec.name = entry.name;
    spec.stored = RankedTensorType::get(partShape(tensor), stored);
    spec.computed = computedType(context, partType(tensor.type));
    spec.complex = !isReal;
    spec.trainable = isTrained(entry);
    int64_t count = tensor.numElements();
    if (tensor.isContiguous() || (isReal && tensor.isTransposed())) {
      spec.transposed = tensor.isTransposed();
      spec.span = {model.path, tensor.begin,
                   static_cast<uint64_t>(count) * bytesOf(tensor.type)};
    } else {
      constexpr int64_t mostCopied = int64_t(1) << 24;
      if (count > mostCopied)
        return fail("the elements of `" + entry.name + "` of " +
                    toString(tensor.sizes) +
                    " do not follow each other in the file (strides " +
                    toString(tensor.strides) +
                    "); save the model with contiguous() parameters");
      if (failed(takeElements(entry)))
        return failure();
      graph::Tensor elements = load(context, model, tensor);
      elements.elementType = stored;
      spec.value = elements.toAttribute();
    }
    if (isReal && !isFloat(tensor.type) && count <= maxFolded &&
        failed(takeElements(entry)))
      return failure();
    if (failed(checkOverlap(entry, spec.trainable)))
      return failure();
    result.parameters.push_back(std::move(spec));
    return success();
  }

  /// Fails for tensors that share only some elements: they would be trained
  /// separately, unlike in PyTorch.
  LogicalResult checkOverlap(const StateEntry &entry, bool isTrained) {
    const StoredTensor &tensor = entry.tensor;
    if (tensor.numElements() == 0)
      return success();
    uint64_t last = 0;
    for (auto [size, stride] : llvm::zip_equal(tensor.sizes, tensor.strides))
      last += static_cast<uint64_t>((size - 1) * stride);
    uint64_t begin = tensor.begin,
             end = begin + (last + 1) * bytesOf(tensor.type);
    Storage &storage = storages[tensor.storageBegin];
    const Span *other = findOverlap(storage.trained, begin, end);
    if (!other && isTrained)
      other = findOverlap(storage.others, begin, end);
    if (other)
      return fail("`" + other->name + "` and `" + entry.name +
                  "` share some elements without being one tensor; clone() "
                  "one of them before the model is saved");
    if (!isTrained)
      clear(storage.others, begin, end);
    (isTrained ? storage.trained : storage.others)[begin] = {end, entry.name};
    return success();
  }

  /// The bytes of a storage that belong to a tensor, up to `end`.
  struct Span {
    uint64_t end = 0;
    std::string name;
  };
  /// By begin offset; they do not overlap.
  using Spans = std::map<uint64_t, Span>;
  /// The spans of trained tensors, which never overlap, and of other tensors.
  /// If several others share a part, it belongs to the last one, so there are
  /// at most twice as many spans as tensors.
  struct Storage {
    Spans trained, others;
  };

  static const Span *findOverlap(const Spans &spans, uint64_t begin,
                                 uint64_t end) {
    auto after = spans.lower_bound(end);
    if (after == spans.begin() || std::prev(after)->second.end <= begin)
      return nullptr;
    return &std::prev(after)->second;
  }

  /// Removes [begin, end) from the spans.
  static void clear(Spans &spans, uint64_t begin, uint64_t end) {
    auto at = spans.lower_bound(begin);
    if (at != spans.begin())
      if (Span &before = std::prev(at)->second; before.end > begin) {
        if (before.end > end)
          spans.emplace(end, before);
        before.end = begin;
      }
    while (at != spans.end() && at->first < end) {
      if (at->second.end > end)
        spans.emplace(end, at->second);
      at = spans.erase(at);
    }
  }

  Location location;
  MLIRContext *context;
  const MappedModel &model;
  std::map<StoredTensor::Key, size_t> numbers;
  std::set<std::string> names;
  std::set<StoredTensor::Key> read;
  std::map<uint64_t, Storage> storages; // by begin offset
};

} // namespace

FailureOr<DeclaredState> declare(Location location, const MappedModel &model,
                                 ArrayRef<StateEntry> entries) {
  Declarer declarer(location, model);
  for (const StateEntry &entry : entries)
    if (failed(declarer.add(entry)))
      return failure();
  return std::move(declarer.result);
}

std::vector<Value> valuesOf(Emitter &emit, const MappedModel &model,
                            ArrayRef<StateEntry> entries,
                            const DeclaredState &state, ValueRange arguments) {
  MLIRContext *context = emit.getBuilder().getContext();
  std::vector<Value> values;
  // Tied entries are one value: a write under one name is seen under the other.
  std::map<int64_t, Value> known;
  std::map<StoredTensor::Key, Known> constants;
  for (auto [entry, number] : llvm::zip_equal(entries, state.numbers)) {
    ElementType type = entry.tensor.type;
    if (number < 0 && isComplex(type)) {
      values.push_back(loadComplex(context, model, entry.tensor));
      continue;
    }
    if (number < 0) {
      auto [constant, isNew] = constants.try_emplace(entry.tensor.key());
      if (isNew)
        constant->second = load(context, model, entry.tensor);
      values.push_back(
          std::make_shared<Tensor>(Imported(constant->second), type));
      continue;
    }
    auto [value, isNew] = known.try_emplace(number);
    if (isNew && isComplex(type)) {
      value->second = complexOf(emit, Imported(arguments[number]));
    } else if (isNew) {
      Imported elements;
      if (!isFloat(type) && entry.tensor.numElements() <= maxFolded)
        elements = load(context, model, entry.tensor);
      value->second =
          Tensor::ofParameter(arguments[number], type, std::move(elements),
                              state.parameters[number].trainable);
    }
    values.push_back(value->second);
  }
  return values;
}

std::vector<Freezable> getFreezable(MutableArrayRef<ParameterSpec> parameters) {
  std::vector<Freezable> freezable;
  for (ParameterSpec &parameter : parameters)
    freezable.push_back({parameter.name, parameter.aliases,
                         isa<FloatType>(parameter.computed),
                         parameter.getModelElements(), parameter.trainable});
  return freezable;
}

LogicalResult freezeParameters(Location location, const ImportOptions &options,
                               std::vector<ParameterSpec> &parameters) {
  if (!options.tie)
    return emitError(location)
           << "--no-tie: the file holds no copy of a tied matrix; leave the "
              "option out";
  std::vector<Freezable> freezable = getFreezable(parameters);
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
