// Programs that ask for more than any model does.

#include "frontends/exported_program/Import.h"

#include "test/support/TemporaryFolder.h"
#include "test/support/ZipBuilder.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace polyrank;
using runtime::test::buildZip;
using runtime::test::TemporaryFolder;

namespace {

/// Returns the error for a program that unbinds x, float32[65536, 2], `times`
/// times along its first dim, and returns it.
std::string problemOf(int times) {
  std::string nodes;
  for (int i = 0; i < times; ++i)
    nodes += std::string(i ? ", " : "") +
             R"({"target": "torch.ops.aten.unbind.int", "inputs": [
               {"name": "self", "arg": {"as_tensor": {"name": "x"}}}],
               "outputs": [{"as_tensors": [{"name": "y"}]}], "metadata": {}})";
  std::string program =
      R"({"schema_version": {"major": 8, "minor": 1}, "graph_module": {
        "graph": {"inputs": [{"as_tensor": {"name": "x"}}],
          "outputs": [{"as_tensor": {"name": "x"}}], "nodes": [)" +
      nodes + R"(], "tensor_values": {"x": {"dtype": 7,
            "sizes": [{"as_int": 65536}, {"as_int": 2}],
            "strides": [{"as_int": 2}, {"as_int": 1}],
            "storage_offset": {"as_int": 0}, "requires_grad": false}}},
        "signature": {
          "input_specs": [
            {"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],
          "output_specs": [
            {"user_output": {"arg": {"as_tensor": {"name": "x"}}}}]}}})";
  TemporaryFolder folder;
  std::string path = folder.write(
      "m.pt2", buildZip({{.name = "m/models/model.json", .contents = program},
                         {"m/data/weights/model_weights_config.json",
                          R"({"config": {}})"},
                         {"m/data/constants/model_constants_config.json",
                          R"({"config": {}})"}}));
  MLIRContext context;
  std::string message;
  ScopedDiagnosticHandler handler(
      &context, [&](Diagnostic &diagnostic) { message += diagnostic.str(); });
  auto module = frontends::importExportedProgram(context, path, {});
  EXPECT_EQ(bool(module), message.empty()) << message;
  return message;
}

TEST(ExportedProgramImport, TheOperatorsOfAGraphAreCounted) {
  EXPECT_EQ(problemOf(1), "");
  EXPECT_NE(problemOf(40).find("takes more than 134217728 bytes of memory with "
                               "what was read before"),
            std::string::npos);
}

} // namespace
