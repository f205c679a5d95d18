// Any JSON as the program of a .pt2 file, which is executed into the graph
// dialect. The rest of the file is always the same: the weights `w`, `m`, `v`,
// `q` and the constants `i`, `d`, `h`.

#include "frontends/aten/Operators.h"
#include "frontends/exported_program/Import.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "test/fuzz/Input.h"
#include "test/fuzz/Mlir.h"
#include "test/fuzz/Words.h"
#include "test/support/ZipBuilder.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace polyrank;
using runtime::test::buildZip;
using runtime::test::BuiltMember;
namespace json = llvm::json;

namespace {

struct Tensor {
  const char *name;
  int type; // as torch.export counts
  size_t width;
  std::vector<int64_t> sizes;
};
const std::vector<Tensor> weights = {{"w", 7, 4, {1024}},
                                     {"m", 7, 4, {4, 6}},
                                     {"v", 7, 4, {6}},
                                     {"q", 12, 1, {2, 3}}};
const std::vector<Tensor> constants = {
    {"i", 5, 8, {1024}}, {"d", 8, 8, {3}}, {"h", 6, 2, {2, 3}}};

void add(std::vector<BuiltMember> &members, const std::string &folder,
         const std::string &config, const std::string &prefix,
         const std::vector<Tensor> &tensors) {
  json::Object table;
  for (auto [number, tensor] : llvm::enumerate(tensors)) {
    json::Array sizes, strides;
    int64_t elements = 1;
    for (int64_t size : llvm::reverse(tensor.sizes)) {
      strides.insert(strides.begin(), json::Object{{"as_int", elements}});
      sizes.insert(sizes.begin(), json::Object{{"as_int", size}});
      elements *= size;
    }
    std::string member = prefix + std::to_string(number), bytes;
    for (int64_t i = 0; i < elements; ++i)
      if (tensor.type == 7) {
        float value = static_cast<float>(i % 11) / 4 - 1;
        bytes.append(reinterpret_cast<const char *>(&value), sizeof(value));
      } else {
        runtime::test::put(bytes, tensor.type == 12 ? i % 2 : i % 7,
                           static_cast<int>(tensor.width));
      }
    members.push_back({"m/" + folder + member, bytes});
    json::Object meta{{"dtype", tensor.type},
                      {"sizes", std::move(sizes)},
                      {"strides", std::move(strides)},
                      {"storage_offset", json::Object{{"as_int", 0}}},
                      {"requires_grad", tensor.type == 7},
                      {"layout", 7}};
    table[tensor.name] = json::Object{{"path_name", member},
                                      {"is_param", tensor.type == 7},
                                      {"use_pickle", false},
                                      {"tensor_meta", std::move(meta)}};
  }
  std::string text = llvm::formatv(
      "{0}", json::Value(json::Object{{"config", std::move(table)}}));
  members.push_back({"m/" + folder + config, text});
}

/// The members of the file besides the program.
std::vector<BuiltMember> members() {
  std::vector<BuiltMember> made = {{"m/archive_format", "pt2"},
                                   {"m/archive_version", "0"},
                                   {"m/byteorder", "little"}};
  add(made, "data/weights/", "model_weights_config.json", "weight_", weights);
  add(made, "data/constants/", "model_constants_config.json", "tensor_",
      constants);
  return made;
}

void collect(json::Value &value, std::vector<json::Value *> &all) {
  all.push_back(&value);
  if (json::Array *array = value.getAsArray())
    for (json::Value &each : *array)
      collect(each, all);
  if (json::Object *object = value.getAsObject())
    for (auto &[key, each] : *object)
      collect(each, all);
}

/// "torch.ops.aten.add.Tensor", of all that are known.
const std::vector<std::string> &operatorNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> made;
    for (const auto &entry : frontends::aten::listOperators()) {
      auto [space, name] = llvm::StringRef(entry.name).split("::");
      for (llvm::StringRef schema : entry.schemas) {
        llvm::StringRef full = schema.split('(').first;
        made.push_back(("torch.ops." + space + "." + full +
                        (full.contains('.') ? "" : ".default"))
                           .str());
      }
    }
    return made;
  }();
  return names;
}

/// The kinds of a union that hold a single value.
const char *const unionKinds[] = {
    "as_int",    "as_float",   "as_bool",        "as_none",
    "as_string", "as_tensor",  "as_tensors",     "as_ints",
    "as_floats", "as_bools",   "as_sym_int",     "as_sym_ints",
    "as_device", "as_graph",   "as_scalar_type", "as_optional_tensors",
    "as_name",   "as_operator"};

/// Changes one value of the document to one like another.
void change(json::Value &root, const std::vector<json::Value *> &from,
            fuzz::Chance &chance) {
  std::vector<json::Value *> all;
  collect(root, all);
  json::Value &value = *chance.of(all);
  size_t what = chance(8);
  if (what == 0) {
    json::Value copy = *chance.of(from);
    value = std::move(copy);
    return;
  }
  if (json::Array *array = value.getAsArray(); array && !array->empty()) {
    size_t at = chance(array->size());
    if (what < 3) {
      array->erase(array->begin() + static_cast<ptrdiff_t>(at));
    } else if (what < 5) {
      json::Value copy = (*array)[at];
      array->insert(array->begin() +
                        static_cast<ptrdiff_t>(chance(array->size())),
                    std::move(copy));
    } else {
      std::swap((*array)[at], chance.of(*array));
    }
    return;
  }
  if (json::Object *object = value.getAsObject(); object && !object->empty()) {
    auto entry = object->begin();
    std::advance(entry, static_cast<ptrdiff_t>(chance(object->size())));
    std::string key = entry->first.str();
    json::Value inside = std::move(entry->second);
    object->erase(entry->first);
    if (key.starts_with("as_"))
      (*object)[chance.of(unionKinds)] = std::move(inside);
    return;
  }
  if (value.kind() == json::Value::Number) {
    if (what < 4)
      value = chance.number();
    else if (what == 4)
      value = double(chance.number()) / 2;
    else
      value = static_cast<int64_t>(
          static_cast<uint64_t>(value.getAsInteger().value_or(0)) +
          (what == 5 ? 1 : -1)); // which may wrap around
    return;
  }
  if (value.kind() == json::Value::Boolean) {
    value = !*value.getAsBoolean();
    return;
  }
  std::optional<llvm::StringRef> text = value.getAsString();
  if (text && text->starts_with("torch.ops.")) {
    value = chance.of(operatorNames());
    return;
  }
  // Another value of the same kind.
  for (int tries = 0; tries < 16; ++tries)
    if (json::Value &other = *chance.of(from);
        &other != &value && other.kind() == value.kind()) {
      json::Value copy = other;
      value = std::move(copy);
      return;
    }
}

std::optional<json::Value> parsed(llvm::StringRef text) {
  // No deeper than the reader goes.
  if (text.count('[') + text.count('{') > 4096)
    return std::nullopt;
  llvm::Expected<json::Value> value = json::parse(text);
  if (value)
    return std::move(*value);
  llvm::consumeError(value.takeError());
  return std::nullopt;
}

size_t changed(llvm::StringRef text, llvm::StringRef other, uint8_t *out,
               size_t maxSize, unsigned seed) {
  fuzz::Chance chance(seed);
  std::optional<json::Value> root = parsed(text), second = parsed(other);
  if (!root || !second)
    return 0;
  for (size_t changes = 1 + chance(3); changes > 0; --changes) {
    // Copies the source, since the changed value may contain its replacement.
    json::Value source = &text == &other ? *root : *second;
    std::vector<json::Value *> from;
    collect(source, from);
    change(*root, from, chance);
  }
  std::string result = llvm::formatv("{0}", *root);
  return result.size() > maxSize ? 0 : fuzz::copyTo(result, out, maxSize);
}

llvm::StringRef textOf(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  size_t made = 0;
  if (seed % 16 != 0)
    made = changed(textOf(data, size), textOf(data, size), data, maxSize, seed);
  return made ? made : LLVMFuzzerMutate(data, size, maxSize);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t size,
                                            const uint8_t *other,
                                            size_t otherSize, uint8_t *out,
                                            size_t maxSize, unsigned seed) {
  size_t made =
      changed(textOf(data, size), textOf(other, otherSize), out, maxSize, seed);
  return made ? made
              : fuzz::copyTo(std::string(fuzz::text(data, size)), out, maxSize);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static std::vector<BuiltMember> file = [] {
    std::vector<BuiltMember> made = members();
    made.push_back({"m/models/model.json", ""});
    return made;
  }();
  file.back().contents = std::string(fuzz::text(data, size));
  std::string path = fuzz::writeFile("model.pt2", buildZip(file));
  static fuzz::Context contexts;
  MLIRContext &context = contexts.next();
  fuzz::Diagnostics diagnostics(context);
  frontends::ImportOptions options = fuzz::programOptions(size);
  if (file.back().contents.find("s77") != std::string::npos)
    options.dims["s77"] = 2;
  fuzz::checkImported(frontends::importExportedProgram(context, path, options),
                      diagnostics);
  return 0;
}
