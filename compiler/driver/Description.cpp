// Prints the findings of --describe as text, as JSON and as a command.

#include "compiler/driver/Description.h"

#include "compiler/driver/OptionTable.h"

#include "runtime/plan/PlanReport.h"
#include "support/ByteText.h"
#include "support/Json.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

using namespace llvm;
using namespace polyrank;
using namespace polyrank::driver;
using frontends::DescribedOp;
using frontends::DescribedParameter;
using frontends::DescribedValue;
using nlohmann::ordered_json;

constexpr size_t columns = 80;

//===-- the command -------------------------------------------------------===//

/// Quotes an argument for a shell.
static std::string quote(StringRef argument) {
  auto isPlain = [](char c) {
    return isAlnum(c) || StringRef("_-./=,:+@%").contains(c);
  };
  if (!argument.empty() && all_of(argument, isPlain))
    return argument.str();
  std::string text = "'";
  for (char c : argument)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<std::string> polyrank::driver::commandFor(Options options) {
  Options standard;
  if (options.output.empty())
    options.output = sys::path::stem(options.model).str() + ".plan";
  // The command names an optimizer even where it is the default, so that its
  // readers see where to change the learning rate.
  if (!options.forward && options.optimizer == standard.optimizer)
    options.optimizer = "adamw(lr=1e-3)";
  std::vector<std::string> command{"polyrank-compile"};
  llvm::append_range(command,
                     argumentsOf(optionTable(options), optionTable(standard)));
  return command;
}

/// Breaks the command into lines: an option and its value stay on one line.
static std::string shellText(ArrayRef<std::string> command) {
  std::string text, line = "  ";
  for (size_t i = 0; i < command.size();) {
    std::string word = quote(command[i++]);
    if (StringRef(word).starts_with("-") && i < command.size() &&
        !StringRef(command[i]).starts_with("-"))
      word += " " + quote(command[i++]);
    if (i > 1 && line.size() + 1 + word.size() + 2 > columns) {
      text += line + " \\\n";
      line = "     ";
    }
    line +=
        (line.find_first_not_of(' ') == line.npos && i <= 1 ? "" : " ") + word;
  }
  return text + line + "\n";
}

//===-- text --------------------------------------------------------------===//

/// Stands for a space at which a line must not break.
constexpr char glue = '\1';

/// Wraps words into lines that begin with `indent` spaces.
static std::string wrap(StringRef text, size_t indent, StringRef first) {
  std::string result = first.str(), line;
  SmallVector<StringRef> words;
  text.split(words, ' ', -1, /*KeepEmpty=*/false);
  for (StringRef word : words) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > columns) {
      result += line + "\n" + std::string(indent, ' ');
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word.str();
  }
  result += line + "\n";
  std::replace(result.begin(), result.end(), glue, ' ');
  return result;
}

static std::string countText(int64_t count, StringRef thing) {
  return (Twine(count) + " " + thing + (count == 1 ? "" : "s")).str();
}

static std::string flopsText(int64_t flops) {
  double value = static_cast<double>(flops);
  const char *unit = "FLOP";
  for (const char *next : {"kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"}) {
    if (value < 1000)
      break;
    value /= 1000;
    unit = next;
  }
  return formatv("{0:F1} {1}", value, unit).str();
}

static std::string typeText(const DescribedValue &value) {
  if (value.dtype.empty())
    return "no tensor";
  SmallVector<std::string> dims;
  if (!value.dims)
    return value.dtype + " of unknown rank";
  for (const DescribedValue::Dim &dim : *value.dims)
    dims.push_back(dim.size           ? std::to_string(*dim.size)
                   : dim.name.empty() ? "?"
                                      : dim.name);
  return value.dtype + " [" + join(dims, ", ") + "]";
}

static std::string valuesText(StringRef title,
                              ArrayRef<DescribedValue> values) {
  std::string text = title.str() + "\n";
  for (const DescribedValue &value : values)
    text += formatv("  {0,-20}  {1}\n", value.name, typeText(value)).str();
  return text;
}

static std::string parametersText(const Description &description) {
  int64_t elements = 0, bytes = 0, fixed = 0;
  for (const DescribedParameter &parameter : description.file.parameters) {
    elements += parameter.elements;
    bytes += parameter.bytes;
    fixed += parameter.trainable ? 0 : parameter.elements;
  }
  std::string text =
      formatv("parameters: {0} elements in {1}, {2}{3}\n", elements,
              countText(description.file.parameters.size(), "tensor"),
              bytesText(bytes),
              fixed ? "; " + std::to_string(fixed) + " of them not trained"
                    : "")
          .str();
  if (description.groups.empty())
    return text;
  text +=
      formatv("  {0,11} {1,9}  {2,-14} name\n", "elements", "bytes", "shape")
          .str();
  for (const ParameterGroup &group : description.groups) {
    SmallVector<std::string> dims;
    for (int64_t size : group.first.shape)
      dims.push_back(std::to_string(size));
    std::string shape = "[" + join(dims, ",") + "]";
    if (group.count > 1)
      shape = std::to_string(group.count) + " x " + shape;
    std::string numbers =
        formatv("  {0,11} {1,9}  {2,-14}", group.count * group.first.elements,
                bytesText(group.count * group.first.bytes), shape)
            .str();
    std::string name =
        group.names.toString() +
        (group.first.dtype == "float32" ? "" : " " + group.first.dtype) +
        (group.first.trainable ? "" : " (not trained)");
    bool fits = numbers.size() + 1 + name.size() <= columns;
    text += numbers + (fits ? " " : "\n" + std::string(8, ' ')) + name + "\n";
  }
  for (const DescribedParameter &parameter : description.file.parameters)
    if (!parameter.aliases.empty())
      text += wrap(parameter.name + " is also " + join(parameter.aliases, ", "),
                   9, "  tied: ");
  return text;
}

static std::string opsText(const Description &description) {
  int64_t count = 0;
  for (const DescribedOp &op : description.file.ops)
    count += op.count;
  std::string list;
  for (const DescribedOp &op : description.file.ops)
    list +=
        (list.empty() ? "" : ", ") + std::to_string(op.count) + glue + op.name;
  return formatv("ops: {0} of {1}\n", countText(count, "node"),
                 countText(description.file.ops.size(), "kind"))
             .str() +
         wrap(list, 2, "  ");
}

static std::string unsupportedText(const Description &description) {
  std::string text = "not supported\n";
  for (const frontends::UnsupportedNodes &each : description.unsupported)
    text += wrap(each.reason + ": " + countText(each.nodes.size(), "node") +
                     ", " + join(each.nodes, ", "),
                 6, "  ");
  return text;
}

/// "batch = 8, sequence = 64".
static std::string sizesText(const Description &description, bool given) {
  SmallVector<std::string> texts;
  for (const OpenDim &dim : description.dims)
    if (dim.isGiven == given && dim.size > 0)
      texts.push_back(dim.name + " = " + std::to_string(dim.size));
  return join(texts, ", ");
}

static std::string flopsText(const Description &description) {
  SmallVector<std::string> open;
  for (const OpenDim &dim : description.dims)
    if (!dim.isGiven)
      open.push_back(dim.name);
  std::string text = "FLOPs of all ranks together\n";
  if (!open.empty())
    text += wrap("they depend on " + join(open, ", ") +
                     ", which --input and --dim bind" +
                     (description.forwardFlops
                          ? "; for " + sizesText(description, false) + ":"
                          : ""),
                 2, "  ");
  if (description.forwardFlops)
    text += "  forward        " + flopsText(*description.forwardFlops) + "\n";
  if (description.stepFlops)
    text += "  training step  " + flopsText(*description.stepFlops) +
            " (forward, backward and update)\n";
  if (!description.forwardFlops && open.empty())
    text += "  unknown\n";
  return text;
}

static std::string lossesText(const Description &description) {
  std::string text = "losses that fit: choose one, or a sum of several with "
                     "weights\n";
  constexpr size_t shown = 12;
  size_t count = description.losses.size();
  for (size_t i = 0; i < std::min(shown, count); ++i)
    text += "  " + description.losses[i] + "\n";
  if (count > shown)
    text += "  and " + std::to_string(count - shown) + " more\n";
  return text;
}

std::string polyrank::driver::toText(const Description &description) {
  const frontends::ModelDescription &file = description.file;
  std::string text =
      formatv("model {0}{1}{2}\n\n", description.model,
              file.producer.empty() ? "" : ", written by " + file.producer,
              file.opset ? ", opset " + std::to_string(file.opset) : "")
          .str();
  text += valuesText("inputs", file.inputs) + "\n";
  text += valuesText("outputs", file.outputs) + "\n";
  text += parametersText(description) + "\n" + opsText(description) + "\n";
  if (!description.unsupported.empty())
    text += unsupportedText(description) + "\n";
  text += flopsText(description) + "\n";
  if (!description.notes.empty() || !description.problem.empty()) {
    text += "notes\n";
    for (const std::string &note : description.notes)
      text += wrap(note, 4, "  - ");
    if (!description.problem.empty())
      text += wrap(description.problem, 4, "  - ");
    text += "\n";
  }
  if (description.command.empty())
    return text + "It cannot be compiled as it is.\n";
  bool isChoice = description.losses.size() > 1;
  if (isChoice)
    text += lossesText(description) + "\n";
  std::vector<std::string> choices;
  if (isChoice)
    choices.push_back("loss");
  if (!sizesText(description, false).empty())
    choices.push_back("sizes");
  text += "compile it with";
  if (!choices.empty())
    text += " (choose your own " + join(choices, " and ") + ")";
  return text + "\n" + shellText(description.command);
}

//===-- JSON --------------------------------------------------------------===//

static ordered_json toJson(ArrayRef<DescribedValue> values) {
  ordered_json list = ordered_json::array();
  for (const DescribedValue &value : values) {
    ordered_json dims;
    if (value.dims) {
      dims = ordered_json::array();
      for (const DescribedValue::Dim &dim : *value.dims)
        dims.push_back(dim.size           ? ordered_json(*dim.size)
                       : dim.name.empty() ? ordered_json()
                                          : ordered_json(dim.name));
    }
    list.push_back(
        {{"name", value.name}, {"dtype", value.dtype}, {"dims", dims}});
  }
  return list;
}

static ordered_json orNull(std::optional<int64_t> value) {
  return value ? ordered_json(*value) : ordered_json();
}

std::string polyrank::driver::toJson(const Description &description) {
  const frontends::ModelDescription &file = description.file;
  ordered_json json = newReport("describe");
  json["model"] = description.model;
  json["producer"] = file.producer;
  json["opset"] = file.opset;
  json["inputs"] = ::toJson(file.inputs);
  json["outputs"] = ::toJson(file.outputs);
  json["open_dims"] = ordered_json::array();
  for (const OpenDim &dim : description.dims)
    json["open_dims"].push_back(
        {{"name", dim.name}, {"size", dim.size}, {"given", dim.isGiven}});
  int64_t elements = 0, bytes = 0, trainable = 0;
  for (const DescribedParameter &parameter : file.parameters) {
    elements += parameter.elements;
    bytes += parameter.bytes;
    trainable += parameter.trainable ? parameter.elements : 0;
  }
  ordered_json groups = ordered_json::array(), tied = ordered_json::array();
  for (const ParameterGroup &group : description.groups)
    groups.push_back({{"names", group.names.toString()},
                      {"count", group.count},
                      {"dtype", group.first.dtype},
                      {"shape", group.first.shape},
                      {"elements", group.count * group.first.elements},
                      {"bytes", group.count * group.first.bytes},
                      {"trainable", group.first.trainable}});
  for (const DescribedParameter &parameter : file.parameters)
    if (!parameter.aliases.empty())
      tied.push_back(
          {{"name", parameter.name}, {"aliases", parameter.aliases}});
  json["parameters"] = {{"tensors", file.parameters.size()},
                        {"elements", elements},
                        {"trainable", trainable},
                        {"bytes", bytes},
                        {"groups", groups},
                        {"tied", tied}};
  json["ops"] = ordered_json::array();
  for (const DescribedOp &op : file.ops)
    json["ops"].push_back({{"op", op.name},
                           {"opset", op.opset},
                           {"count", op.count},
                           {"supported", op.isSupported}});
  json["unsupported"] = ordered_json::array();
  for (const frontends::UnsupportedNodes &each : description.unsupported)
    json["unsupported"].push_back(
        {{"reason", each.reason}, {"nodes", each.nodes}});
  json["flops"] = {{"forward", orNull(description.forwardFlops)},
                   {"step", orNull(description.stepFlops)}};
  json["losses"] = description.losses;
  json["notes"] = description.notes;
  json["problem"] = description.problem.empty()
                        ? ordered_json()
                        : ordered_json(description.problem);
  json["command"] = description.command;
  return polyrank::toText(json);
}
