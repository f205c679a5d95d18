// The graph of an ExportedProgram as its JSON states it.

#include "frontends/exported_program/Program.h"

#include <cmath>

#include "frontends/exported_program/JsonFields.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace polyrank::frontends::exported_program {
namespace {

/// Reads a float, which may be a string for values that JSON lacks.
bool readFloat(const Json &value, double &into, json::Path path) {
  if (value.is_number()) {
    into = value.get<double>();
    return true;
  }
  if (value.is_string()) {
    StringRef text = value.get_ref<const std::string &>();
    into = text == "Infinity"    ? INFINITY
           : text == "-Infinity" ? -INFINITY
                                 : NAN;
    if (!std::isnan(into) || text == "NaN")
      return true;
  }
  path.report("expected a number");
  return false;
}

/// Returns the value of a union, and its only key in `key`.
const Json *getUnion(const Json &value, StringRef &key, json::Path path) {
  if (!value.is_object()) {
    path.report("expected an object of one key");
    return nullptr;
  }
  // Some versions have null fields for the other alternatives.
  const Json *found = nullptr;
  for (auto entry = value.begin(); entry != value.end(); ++entry) {
    if (value.size() > 1 && entry->is_null())
      continue;
    if (found) {
      found = nullptr;
      break;
    }
    key = entry.key();
    found = &*entry;
  }
  if (!found)
    path.report("expected an object of one key");
  return found;
}

} // namespace

//===-- arguments --------------------------------------------------------===//

static bool readJson(const Json &value, Graph &graph, json::Path path);

/// Reads {"name": ..} of a tensor, a custom object, ..
static bool readName(const Json &value, Argument &argument, json::Path path) {
  argument.kind = Argument::Kind::Name;
  Fields map(value, path);
  return map && map.map("name", argument.text);
}

static bool readArgument(StringRef kind, const Json &value, Argument &argument,
                         json::Path path);

/// Reads a list whose elements are of union kind `kind`, or unions themselves.
static bool readList(StringRef kind, const Json &value, Argument &argument,
                     json::Path path) {
  argument.kind = Argument::Kind::List;
  if (!value.is_array()) {
    path.report("expected an array");
    return false;
  }
  argument.elements.reserve(value.size());
  for (const auto &[i, each] : enumerate(value)) {
    Argument &element = argument.elements.emplace_back();
    StringRef inner = kind;
    const Json *content = &each;
    if (kind.empty()) {
      content = getUnion(each, inner, path.index(i));
      if (!content)
        return false;
    }
    if (!readArgument(inner, *content, element, path.index(i)))
      return false;
  }
  return true;
}

static bool readArgument(StringRef kind, const Json &value, Argument &argument,
                         json::Path path) {
  using Kind = Argument::Kind;
  auto readInteger = [&](Kind as) {
    argument.kind = as;
    return readJson(value, argument.integer, path);
  };
  auto readText = [&](Kind as) {
    argument.kind = as;
    return readJson(value, argument.text, path);
  };
  if (kind == "as_none")
    return true;
  if (kind == "as_tensor")
    return readName(value, argument, path);
  if (kind == "as_name")
    return readText(Kind::Name);
  if (kind == "as_int")
    return readInteger(Kind::Int);
  if (kind == "as_float") {
    argument.kind = Kind::Float;
    return readFloat(value, argument.number, path);
  }
  if (kind == "as_bool") {
    argument.kind = Kind::Bool;
    bool flag = false;
    if (!readJson(value, flag, path))
      return false;
    argument.integer = flag;
    return true;
  }
  if (kind == "as_string")
    return readText(Kind::String);
  if (kind == "as_operator")
    return readText(Kind::Operator);
  if (kind == "as_scalar_type")
    return readInteger(Kind::ScalarType);
  if (kind == "as_memory_format" || kind == "as_layout")
    return readInteger(Kind::MemoryFormat);
  if (kind == "as_device") {
    argument.kind = Kind::Device;
    Fields map(value, path);
    return map && map.map("type", argument.text);
  }
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool" ||
      kind == "as_optional_tensor") {
    StringRef inner;
    const Json *content = getUnion(value, inner, path);
    return content && readArgument(inner, *content, argument, path);
  }
  if (kind == "as_tensors")
    return readList("as_tensor", value, argument, path);
  if (kind == "as_ints")
    return readList("as_int", value, argument, path);
  if (kind == "as_floats")
    return readList("as_float", value, argument, path);
  if (kind == "as_bools")
    return readList("as_bool", value, argument, path);
  if (kind == "as_strings")
    return readList("as_string", value, argument, path);
  if (kind == "as_int_lists")
    return readList("as_ints", value, argument, path);
  if (kind == "as_float_lists")
    return readList("as_floats", value, argument, path);
  if (kind == "as_nested_tensors")
    return readList("as_tensors", value, argument, path);
  if (kind == "as_sym_ints" || kind == "as_sym_floats" ||
      kind == "as_sym_bools" || kind == "as_optional_tensors")
    return readList("", value, argument, path);
  if (kind == "as_graph") {
    argument.kind = Kind::Graph;
    auto graph = std::make_shared<Graph>();
    Fields map(value, path);
    if (!map || !map.map("name", argument.text) || !map.map("graph", *graph))
      return false;
    argument.graph = std::move(graph);
    return true;
  }
  argument.kind = Kind::Unsupported;
  argument.text = kind.str();
  return true;
}

static bool readJson(const Json &value, Argument &argument, json::Path path) {
  StringRef kind;
  const Json *content = getUnion(value, kind, path);
  return content && readArgument(kind, *content, argument, path);
}

static bool readJson(const Json &value, NamedArgument &argument,
                     json::Path path) {
  Fields map(value, path);
  return map && map.map("name", argument.name) &&
         map.map("arg", argument.value);
}

//===-- graphs -----------------------------------------------------------===//

static bool readJson(const Json &value, Node &node, json::Path path) {
  Fields map(value, path);
  return map && map.map("target", node.target) &&
         map.map("inputs", node.inputs) && map.map("outputs", node.outputs) &&
         map.mapOptional("metadata", node.metadata);
}

static bool readJson(const Json &value, SymbolicInt &into, json::Path path) {
  StringRef kind;
  const Json *content = getUnion(value, kind, path);
  if (!content)
    return false;
  if (kind == "as_int") {
    into.value.emplace();
    return readJson(*content, *into.value, path);
  }
  Fields map(*content, path);
  return map && map.map("expr_str", into.expression);
}

static bool readJson(const Json &value, TensorMeta &meta, json::Path path) {
  Fields map(value, path);
  return map && map.map("dtype", meta.type) && map.map("sizes", meta.sizes) &&
         map.map("strides", meta.strides) &&
         map.map("storage_offset", meta.storageOffset) &&
         map.map("requires_grad", meta.requiresGrad);
}

static bool readJson(const Json &value, NumberMeta &meta, json::Path path) {
  StringRef kind;
  const Json *content = getUnion(value, kind, path);
  if (!content)
    return false;
  if (kind == "as_bool")
    return readJson(*content, meta.flag, path);
  return readJson(value, meta.integer, path);
}

static bool readJson(const Json &value, Graph &graph, json::Path path) {
  Fields map(value, path);
  std::map<std::string, NumberMeta> conditions;
  if (!map || !map.map("inputs", graph.inputs) ||
      !map.map("outputs", graph.outputs) || !map.map("nodes", graph.nodes) ||
      !map.map("tensor_values", graph.tensors) ||
      !map.mapOptional("sym_int_values", graph.numbers) ||
      !map.mapOptional("sym_bool_values", conditions))
    return false;
  for (auto &[name, meta] : conditions)
    graph.numbers[name].flag = meta.flag;
  return true;
}

//===-- signature --------------------------------------------------------===//

/// Reads a tensor given by its name alone, or a whole argument.
static bool readSpecArgument(const Json &value, Argument &argument,
                             json::Path path) {
  if (getText(value, "name"))
    return readName(value, argument, path);
  return readJson(value, argument, path);
}

namespace {

/// A kind of input or output as the file names it, and its fields.
template <typename Kind>
struct SpecRow {
  StringLiteral name;
  Kind kind;
  StringLiteral target = "";      // the field with its name in the model
  StringLiteral argument = "arg"; // the field with its name in the graph
};

using In = InputSpec::Kind;
constexpr SpecRow<In> inputRows[] = {
    {"user_input", In::UserInput},
    {"parameter", In::Parameter, "parameter_name"},
    {"buffer", In::Buffer, "buffer_name"},
    {"tensor_constant", In::TensorConstant, "tensor_constant_name"},
    {"custom_obj", In::CustomObject, "custom_obj_name"},
    {"constant_input", In::ConstantInput, "name", ""},
    {"token", In::Token},
};

using Out = OutputSpec::Kind;
constexpr SpecRow<Out> outputRows[] = {
    {"user_output", Out::UserOutput},
    {"loss_output", Out::Loss},
    {"buffer_mutation", Out::BufferMutation, "buffer_name"},
    {"parameter_mutation", Out::ParameterMutation, "parameter_name"},
    {"user_input_mutation", Out::UserInputMutation, "user_input_name"},
    {"gradient_to_parameter", Out::Gradient, "parameter_name"},
    {"gradient_to_user_input", Out::Gradient, "user_input_name"},
    {"token", Out::Token},
};

/// Reads {KIND: {TARGET: .., "arg": ..}}; `extra` reads further fields of a
/// kind.
template <typename Spec>
bool readSpec(const Json &value, Spec &spec, json::Path path,
              ArrayRef<SpecRow<typename Spec::Kind>> rows, StringLiteral what,
              function_ref<bool(Fields &)> extra) {
  StringRef kind;
  const Json *content = getUnion(value, kind, path);
  if (!content || !content->is_object())
    return false;
  const auto *row =
      find_if(rows, [&](const auto &each) { return each.name == kind; });
  if (row == rows.end()) {
    path.report(what);
    return false;
  }
  spec.kind = row->kind;
  Fields map(*content, path.field(kind));
  bool isRead = row->target.empty() ||
                (map && map.map(row->target, spec.target) && extra(map));
  if (row->argument.empty())
    return isRead;
  const Json *argument = getField(*content, row->argument);
  if (!argument)
    path.field(kind).report("missing value at arg");
  return isRead && argument &&
         readSpecArgument(*argument, spec.argument,
                          path.field(kind).field(row->argument));
}

} // namespace

static bool readJson(const Json &value, InputSpec &spec, json::Path path) {
  return readSpec<InputSpec>(
      value, spec, path, inputRows, "an input of a kind that is not known",
      [&](Fields &map) {
        return spec.kind != In::Buffer ||
               map.mapOptional("persistent", spec.persistent);
      });
}

static bool readJson(const Json &value, OutputSpec &spec, json::Path path) {
  return readSpec<OutputSpec>(value, spec, path, outputRows,
                              "an output of a kind that is not known",
                              [](Fields &) { return true; });
}

//===-- programs ---------------------------------------------------------===//

/// The TreeSpec of the outputs of the whole module.
static std::string findOutputTree(const Json &graphModule) {
  const Json *calls = getField(graphModule, "module_call_graph");
  if (!calls || !calls->is_array())
    return "";
  for (const Json &call : *calls) {
    if (getText(call, "fqn").value_or("?") != "")
      continue;
    if (const Json *signature = getField(call, "signature"))
      return getText(*signature, "out_spec").value_or("");
  }
  return "";
}

Result<Program> readProgram(StringRef text, const std::string &name,
                            Budget &budget) {
  POLYRANK_ASSIGN(root, parseJson(text, name, budget));
  auto fail = [&](const std::string &reason) {
    return Error{name + ": " + reason};
  };
  if (!root.is_object())
    return fail("no JSON object");
  Program program;
  // The version comes first, since another version may have other fields.
  const Json *version = getField(root, "schema_version");
  if (!version || !version->is_object())
    return fail("it has no schema_version, so it is no exported program");
  program.major = getInteger(*version, "major").value_or(0);
  program.minor = getInteger(*version, "minor").value_or(0);
  program.torchVersion = getText(root, "torch_version").value_or("unknown");
  if (const Json *verifiers = getField(root, "verifiers");
      verifiers && verifiers->is_array())
    program.isDecomposed =
        any_of(*verifiers, [](const Json &each) { return each == "ATEN"; });
  if (program.major != 8)
    return fail("schema version " + std::to_string(program.major) + "." +
                std::to_string(program.minor) + " of torch " +
                program.torchVersion +
                "; versions 8.x are understood, which torch 2.6 to 2.13 write. "
                "Export the model again with one of these");
  json::Path::Root path(name);
  const Json *module = getField(root, "graph_module");
  if (!module || !module->is_object())
    return fail("it has no graph_module");
  json::Path whole(path); // the root of the other paths
  json::Path at = whole.field("graph_module");
  const Json *graph = getField(*module, "graph");
  const Json *signature = getField(*module, "signature");
  if (!graph || !signature)
    return fail("its graph_module has no graph or no signature");
  json::Path inSignature = at.field("signature");
  Fields map(*signature, inSignature);
  if (!readJson(*graph, program.graph, at.field("graph")) || !map ||
      !map.map("input_specs", program.inputs) ||
      !map.map("output_specs", program.outputs))
    return fail(toString(path.getError()));
  if (const Json *ranges = getField(root, "range_constraints");
      ranges && ranges->is_object())
    for (auto entry = ranges->begin(); entry != ranges->end(); ++entry)
      program.ranges[entry.key()] = {getInteger(*entry, "min_val"),
                                     getInteger(*entry, "max_val")};
  program.outputTree = findOutputTree(*module);
  return program;
}

static bool readJson(const Json &value, Payload &payload, json::Path path) {
  Fields map(value, path);
  return map && map.map("path_name", payload.member) &&
         map.map("use_pickle", payload.isPickled) &&
         map.mapOptional("tensor_meta", payload.meta);
}

Result<std::map<std::string, Payload>>
readPayloads(StringRef text, const std::string &name, Budget &budget) {
  POLYRANK_ASSIGN(root, parseJson(text, name, budget));
  std::map<std::string, Payload> payloads;
  json::Path::Root path(name);
  Fields map(root, path);
  if (!map || !map.map("config", payloads))
    return Error{name + ": " + toString(path.getError())};
  return payloads;
}

} // namespace polyrank::frontends::exported_program
