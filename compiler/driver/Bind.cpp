// Reads values of inputs from the command line, as constants of the import.

#include "compiler/driver/Bind.h"

#include "compiler/driver/Frontends.h"
#include "dialects/graph/ElementTypes.h"
#include "support/KeyValue.h"
#include "support/Names.h"
#include "support/arrays/Npy.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::driver;
using frontends::DescribedValue;

namespace {

/// One binding and the input that it names.
class Binding {
public:
  Binding(MLIRContext &context, StringRef text, const DescribedValue &input)
      : context(context), text(text), value(text.split('=').second),
        input(input) {}

  /// `dims` are the sizes of the file's open dims; the sizes of an array are
  /// added.
  Result<graph::Tensor> read(llvm::StringMap<int64_t> &dims);

private:
  Error error(const Twine &what) const {
    return Error{("--bind '" + text + "': " + what).str()};
  }
  Result<Type> findType() const;
  Result<graph::Tensor> readNumber(Type type,
                                   const llvm::StringMap<int64_t> &dims) const;
  Result<graph::Tensor> readArray(Type type,
                                  llvm::StringMap<int64_t> &dims) const;

  MLIRContext &context;
  StringRef text, value;
  const DescribedValue &input;
};

} // namespace

/// The element type of tensors that are known at import: floats keep their
/// width.
Result<Type> Binding::findType() const {
  StringRef name = input.dtype;
  auto type = findElementType(&ElementTypeRow::longName, name);
  if (type && (isFloat(*type) || *type == ElementType::BOOL ||
               *type == ElementType::I32 || *type == ElementType::I64))
    return graph::toMlirType(&context, *type);
  return error("input `" + input.name + "` is " +
               (name.empty() ? "no tensor" : name) +
               "; inputs of floats, int32, int64 and bool can be bound");
}

Result<graph::Tensor>
Binding::readNumber(Type type, const llvm::StringMap<int64_t> &dims) const {
  SmallVector<int64_t> shape;
  if (!input.dims)
    return error("the file does not say how many dims input `" + input.name +
                 "` has; bind it to an array, FILE.npy");
  for (const DescribedValue::Dim &dim : *input.dims) {
    auto given = dims.find(dim.name);
    if (!dim.size && given == dims.end())
      return error("dim " + Twine(shape.size()) + " of input `" + input.name +
                   "` is open" +
                   (dim.name.empty()
                        ? "; bind it to an array, FILE.npy"
                        : "; give its size with --dim " + dim.name + "=N"));
    shape.push_back(dim.size ? *dim.size : given->second);
  }
  graph::Tensor result(type, shape);
  int64_t integer = 0;
  double number = 0;
  bool isWord = value == "true" || value == "false";
  if (type.isInteger(1)) {
    if (!isWord && value != "0" && value != "1")
      return error("input `" + input.name + "` is bool: write true or false");
    llvm::fill(result.integers, value == "true" || value == "1");
  } else if (!isWord && isa<IntegerType>(type) &&
             !value.getAsInteger(10, integer) &&
             (type.isInteger(64) || llvm::isInt<32>(integer))) {
    llvm::fill(result.integers, integer);
  } else if (!isWord && isa<FloatType>(type) && !value.getAsDouble(number)) {
    llvm::fill(result.floats, number);
    result.round();
  } else {
    return error("'" + value + "' is no " + input.dtype + ", as input `" +
                 input.name + "` is, and no FILE.npy");
  }
  return std::move(result);
}

Result<graph::Tensor> Binding::readArray(Type type,
                                         llvm::StringMap<int64_t> &dims) const {
  auto array = openNpy(value.str());
  if (!array)
    return error(array.error().message);
  const std::vector<int64_t> &shape = array->shape();
  auto fits = [&](const std::vector<DescribedValue::Dim> &declared) {
    if (declared.size() != shape.size())
      return false;
    for (auto [dim, size] : llvm::zip_equal(declared, shape)) {
      if (dim.size && *dim.size != size)
        return false;
      if (!dim.size && !dim.name.empty() &&
          dims.try_emplace(dim.name, size).first->second != size)
        return false;
    }
    return true;
  };
  if (input.dims && !fits(*input.dims)) {
    SmallVector<std::string> wanted;
    for (const DescribedValue::Dim &dim : *input.dims) {
      auto given = dims.find(dim.name);
      wanted.push_back(dim.size              ? std::to_string(*dim.size)
                       : given == dims.end() ? "?"
                                             : std::to_string(given->second));
    }
    return error("the array has shape " + Twine(shapeText(shape)) +
                 ", but input `" + input.name + "` has [" +
                 llvm::join(wanted, ",") + "]");
  }
  bool isFloat = isa<FloatType>(type);
  ElementType held = isFloat ? ElementType::F64 : ElementType::I64;
  // Booleans convert to integers, but no other integers convert to booleans.
  bool isBool = array->type() == ElementType::BOOL;
  if (!canConvert(array->type(), held) || (type.isInteger(1) && !isBool))
    return error("the array holds " + Twine(longNameOf(array->type())) +
                 ", but input `" + input.name + "` is " + input.dtype);
  int64_t count = array->elements();
  std::vector<std::byte> stored(count * bytesOf(array->type()));
  if (auto read = array->read(0, count, stored.data()); !read)
    return error(read.error().message);
  graph::Tensor result(type, shape);
  auto *into = isFloat ? reinterpret_cast<std::byte *>(result.floats.data())
                       : reinterpret_cast<std::byte *>(result.integers.data());
  if (auto bad =
          convertValues(array->type(), stored.data(), count, held, {}, into))
    return error("element " + Twine(bad->index) + " is " + bad->value +
                 ", which is no " + input.dtype);
  if (type.isInteger(32))
    for (int64_t element : result.integers)
      if (!llvm::isInt<32>(element))
        return error(Twine(element) + " is no int32");
  result.round();
  return std::move(result);
}

Result<graph::Tensor> Binding::read(llvm::StringMap<int64_t> &dims) {
  POLYRANK_ASSIGN(type, findType());
  return value.ends_with(".npy") ? readArray(type, dims)
                                 : readNumber(type, dims);
}

/// The input as --input describes it, or else as the file does.
static Result<DescribedValue> findInput(const std::string &text, StringRef name,
                                        const Options &options,
                                        const frontends::ImportOptions &known) {
  if (auto given = known.inputs.find(name); given != known.inputs.end()) {
    DescribedValue input;
    input.name = name.str();
    input.dtype = given->second.dtype;
    input.dims.emplace();
    for (int64_t size : given->second.shape)
      input.dims->push_back({size, ""});
    return std::move(input);
  }
  POLYRANK_ASSIGN(model, describeModel(options.model, known));
  std::vector<std::string> names;
  for (const DescribedValue &input : model.inputs) {
    if (input.name == name)
      return input;
    names.push_back(input.name);
  }
  return Error{"--bind '" + text + "': the model has no input `" + name.str() +
               "`; its inputs are " + llvm::join(names, ", ") +
               nearestWords(name.str(), names)};
}

Result<void> polyrank::driver::bindInputs(MLIRContext &context,
                                          const Options &options,
                                          frontends::ImportOptions &result) {
  for (const std::string &text : options.binds) {
    auto pair = parsePair(text, {"NAME=VALUE", "scale=0.5 or mask=FILE.npy"});
    if (!pair)
      return Error{"--bind: " + pair.error().message};
    StringRef name = pair->key;
    if (result.known.contains(name))
      return Error{"--bind: input `" + name.str() + "` has two values"};
    POLYRANK_ASSIGN(input, findInput(text, name, options, result));
    POLYRANK_ASSIGN(tensor, Binding(context, text, input).read(result.dims));
    result.known[name] = std::move(tensor);
  }
  return {};
}

void polyrank::driver::eraseBound(const Options &options,
                                  frontends::ModelDescription &model) {
  llvm::erase_if(model.inputs, [&](const DescribedValue &input) {
    return llvm::any_of(options.binds, [&](const std::string &text) {
      return StringRef(text).split('=').first == input.name;
    });
  });
}
