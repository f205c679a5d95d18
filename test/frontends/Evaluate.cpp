// Runs an imported @forward op by op and compares it with expected results.

#include "test/frontends/Evaluate.h"

#include <filesystem>
#include <fstream>

#include "dialects/graph/Boundary.h"
#include "frontends/onnx/GraphImporter.h"
#include "frontends/onnx/Import.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
namespace onnx = polyrank::frontends::onnx;

namespace polyrank::test {

/// The elements of a parameter as the argument of `type` that holds them.
static Result<graph::Tensor> readParameter(graph::ParameterOp parameter,
                                           RankedTensorType type) {
  auto stored = cast<RankedTensorType>(parameter.getType());
  if (auto value =
          dyn_cast_if_present<DenseElementsAttr>(parameter.getValueAttr())) {
    graph::Tensor tensor = graph::Tensor::fromAttribute(value);
    tensor.elementType = type.getElementType();
    return tensor;
  }
  std::ifstream file(parameter.getPath().str(), std::ios::binary);
  std::vector<char> bytes(parameter.getLength());
  file.seekg(static_cast<std::streamoff>(parameter.getOffset()));
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    return Error{"cannot read " + parameter.getPath().str()};
  graph::Tensor tensor(type);
  auto load = [&](auto element, auto &into) {
    int64_t rows = parameter.getTransposed() ? stored.getDimSize(0) : 1,
            columns = tensor.size() / std::max<int64_t>(rows, 1);
    for (int64_t i = 0; i < tensor.size(); ++i) {
      int64_t at = i % columns * rows + i / columns;
      memcpy(&element, bytes.data() + at * sizeof(element), sizeof(element));
      into[i] = element;
    }
  };
  if (stored.getElementType().isF32())
    load(float(), tensor.floats);
  else if (stored.getElementType().isF64())
    load(double(), tensor.floats);
  else if (stored.getElementType().isF16())
    load(_Float16(), tensor.floats);
  else if (stored.getElementType().isInteger(64))
    load(int64_t(), tensor.integers);
  else
    return Error{"element type of a parameter that this test does not read"};
  return tensor;
}

Result<std::vector<graph::Tensor>> evaluateForward(
    ModuleOp module,
    const std::vector<std::pair<std::string, graph::Tensor>> &inputs) {
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  llvm::DenseMap<Value, graph::Tensor> values;
  graph::Boundary boundary(forward);
  for (BlockArgument argument : forward.getArguments()) {
    unsigned number = argument.getArgNumber();
    if (FlatSymbolRefAttr symbol = boundary.getParameter(number)) {
      auto parameter =
          module.lookupSymbol<graph::ParameterOp>(symbol.getValue());
      POLYRANK_ASSIGN(
          tensor,
          readParameter(parameter, cast<RankedTensorType>(argument.getType())));
      values[argument] = std::move(tensor);
      continue;
    }
    std::string name = boundary.getName(number);
    for (const auto &[given, tensor] : inputs)
      if (name == given)
        values[argument] = tensor;
    if (!values.contains(argument) ||
        values[argument].getType() != argument.getType())
      return Error{"no input of the right type for " + name};
  }
  for (Operation &op : forward.getBody().front().without_terminator()) {
    std::vector<graph::Tensor> operands, results;
    for (Value operand : op.getOperands())
      operands.push_back(values.at(operand));
    for (Value result : op.getResults())
      results.emplace_back(cast<RankedTensorType>(result.getType()));
    if (failed(cast<graph::GraphOp>(op).evaluate(operands, results)))
      return Error{"cannot evaluate " + op.getName().getStringRef().str()};
    for (auto [value, tensor] : llvm::zip(op.getResults(), results))
      values[value] = std::move(tensor);
  }
  std::vector<graph::Tensor> outputs;
  for (Value value : forward.getBody().front().getTerminator()->getOperands())
    outputs.push_back(values.at(value));
  return outputs;
}

namespace {

Result<std::pair<std::string, graph::Tensor>>
readTensorFile(MLIRContext &context, const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  auto tensor = onnx::readTensor(bytes);
  if (!tensor)
    return Error{path + ": " + tensor.error().message};
  onnx::Model none;
  auto known = onnx::toTensor(&context, none, *tensor);
  if (!known)
    return Error{path + ": " + known.error().message};
  return std::pair(std::string(tensor->name),
                   frontends::toComputed(std::move(*known)));
}

std::string compare(const graph::Tensor &actual, const graph::Tensor &expected,
                    double relative, double absolute) {
  if (actual.getType() != expected.getType()) {
    std::string text;
    llvm::raw_string_ostream(text) << "has type " << actual.getType()
                                   << ", expected " << expected.getType();
    return text;
  }
  for (int64_t i = 0; i < actual.size(); ++i) {
    double a = actual.at(i), b = expected.at(i);
    bool equal = a == b || (a != a && b != b) ||
                 std::fabs(a - b) <= absolute + relative * std::fabs(b);
    if (!equal)
      return "element " + std::to_string(i) + " is " + std::to_string(a) +
             ", expected " + std::to_string(b);
  }
  return "";
}

} // namespace

std::string checkOnTestData(MLIRContext &context, const std::string &modelPath,
                            const std::string &folder, double relative,
                            double absolute, size_t arguments) {
  std::string diagnostics;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    diagnostics += diagnostic.str();
    return success();
  });
  // The test data gives each graph input in order: their shapes are --input.
  auto read = onnx::readModel(modelPath);
  if (!read)
    return read.error().message;
  const onnx::Model *model = read->get();
  std::set<std::string_view> initialised;
  for (const onnx::StoredTensor &tensor : model->graph.initializers)
    initialised.insert(tensor.name);
  frontends::ImportOptions options;
  options.dropout = 0; // as every forward evaluation
  std::vector<std::pair<std::string, graph::Tensor>> inputs;
  std::string data = folder + "/test_data_set_0/";
  for (const onnx::ValueInfo &value : model->graph.inputs) {
    std::string path = data + "input_" + std::to_string(inputs.size()) + ".pb";
    if (initialised.count(value.name) || !std::filesystem::exists(path))
      continue;
    auto tensor = readTensorFile(context, path);
    if (!tensor)
      return tensor.error().message;
    inputs.emplace_back(value.name, std::move(tensor->second));
    if (inputs.size() > arguments) {
      options.known[value.name] = inputs.back().second;
      continue;
    }
    options.inputs[inputs.back().first] = {longNameOf(value.type),
                                           inputs.back().second.shape};
  }
  auto module = frontends::importOnnx(context, modelPath, options);
  if (!module)
    return diagnostics;
  auto outputs = evaluateForward(*module, inputs);
  if (!outputs)
    return outputs.error().message;
  // After the outputs come the next values of running statistics.
  outputs->resize(std::min(outputs->size(), model->graph.outputs.size()));
  for (auto [i, output] : llvm::enumerate(*outputs)) {
    auto expected =
        readTensorFile(context, data + "output_" + std::to_string(i) + ".pb");
    if (!expected)
      return expected.error().message;
    std::string difference =
        compare(output, expected->second, relative, absolute);
    if (!difference.empty())
      return "output " + std::to_string(i) + " " + difference;
  }
  return "";
}

std::string checkNodeTest(MLIRContext &context, const std::string &modelPath,
                          const std::string &folder) {
  // ONNX's own tolerances are 1e-3 and 1e-7; the latter is too small for
  // float32 results that are near zero by cancellation.
  std::string wrong;
  for (size_t arguments : {SIZE_MAX, size_t(1), size_t(0)}) {
    std::string result =
        checkOnTestData(context, modelPath, folder, 1e-3, 1e-6, arguments);
    bool needsValue = result.find("known when") != std::string::npos ||
                      result.find("depends on inputs") != std::string::npos;
    if (arguments == 0 || !needsValue)
      wrong += result;
  }
  return wrong;
}

/// Parts of the names of tests ("/" is the end) that are left out although the
/// table has their op, and why.
static const std::pair<std::string, std::string> skipped[] = {
    {"BFLOAT16", "the test's data is stored as uint16"},
    {"maxpool_2d_uint8", "no pooling of integers"},
    {"max_uint64", "no order of unsigned integers of 64 bits"},
    {"min_uint64", "no order of unsigned integers of 64 bits"},
    {"mod_uint64", "no order of unsigned integers of 64 bits"},
    {"pow_types_float32_uint64", "no order of unsigned integers of 64 bits"},
    {"STRING", "no strings"},
    {"mod_mixed_sign_float", "no Mod of floats"},
    {"batchnorm_epsilon_training", "statistics that are no state of the model"},
    {"batchnorm_example_training", "statistics that are no state of the model"},
    {"bernoulli", "other random numbers"},
    {"training_dropout/", "other random numbers"},
    {"training_dropout_mask", "other random numbers"},
    {"training_dropout_default", "other random numbers"},
    {"maxpool_with_argmax", "no indices of maxima"},
    {"resize_downsample_scales_cubic_align_corners",
     "PyTorch and onnxruntime count the elements that there are"},
    {"resize_downsample_scales_linear_align_corners",
     "PyTorch and onnxruntime count the elements that there are"},
    {"scan_sum", "a Scan of opset 8, which goes over the batch too"},
};

std::string whyLeftOut(const onnx::Model &model, const std::string &name) {
  for (const onnx::Node &node : model.graph.nodes)
    for (const onnx::OpsetImport &opset : model.opsets)
      if (opset.domain == node.domain &&
          !onnx::isControlFlow(node.domain, node.type) &&
          !onnx::findRow(node.domain, node.type, opset.version))
        return std::string(node.type) + " (opset " +
               std::to_string(opset.version) + ") is not in the table";
  for (const auto *values : {&model.graph.inputs, &model.graph.outputs})
    for (const onnx::ValueInfo &value : *values)
      if (!value.isTensor)
        return "the test's data is no tensor";
  for (const auto &[part, reason] : skipped)
    if ((name + "/").find(part) != std::string::npos)
      return reason;
  return "";
}

} // namespace polyrank::test
