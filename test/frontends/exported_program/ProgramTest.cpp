// The JSON of a program, and what is refused in it.

#include "frontends/exported_program/Program.h"

#include <cmath>

#include <gtest/gtest.h>

#include "llvm/ADT/StringExtras.h"

using namespace polyrank::frontends::exported_program;

namespace {

const std::string graph =
    R"({"inputs": [], "outputs": [], "tensor_values": {}, "nodes": NODES})";

std::string program(const std::string &nodes, const std::string &inputs = "[]",
                    const std::string &version = "8",
                    const std::string &outputs = "[]") {
  std::string text =
      R"({"schema_version": {"major": )" + version +
      R"(, "minor": 1}, "torch_version": "2.13.0", "graph_module": {"graph": )" +
      graph + R"(, "signature": {"input_specs": )" + inputs +
      R"(, "output_specs": )" + outputs + "}}}";
  return text.replace(text.find("NODES"), 5, nodes);
}

std::string errorOf(const std::string &text) {
  polyrank::Budget budget(text.size());
  auto read = readProgram(text, "model.json", budget);
  EXPECT_FALSE(read) << text;
  return read ? "" : read.error().message;
}

std::string nodeWith(const std::string &argument) {
  return R"([{"target": "torch.ops.aten.f.default", "inputs": [{"name": "a", "arg": )" +
         argument + R"(}], "outputs": [], "metadata": {}}])";
}

Argument argumentOf(const std::string &text) {
  polyrank::Budget budget(0);
  auto read = readProgram(program(nodeWith(text)), "model.json", budget);
  EXPECT_TRUE(read) << read.error().message;
  return read ? read->graph.nodes[0].inputs[0].value : Argument();
}

} // namespace

TEST(Program, ReadsArgumentsOfEveryKind) {
  using Kind = Argument::Kind;
  EXPECT_EQ(argumentOf(R"({"as_none": true})").kind, Kind::None);
  EXPECT_EQ(argumentOf(R"({"as_tensor": {"name": "x"}})").text, "x");
  EXPECT_EQ(argumentOf(R"({"as_sym_int": {"as_name": "s"}})").text, "s");
  EXPECT_EQ(argumentOf(R"({"as_sym_int": {"as_int": 3}})").integer, 3);
  EXPECT_EQ(argumentOf(R"({"as_ints": [1, 2]})").elements.size(), 2u);
  EXPECT_EQ(
      argumentOf(
          R"({"as_optional_tensors": [{"as_none": true}, {"as_tensor": {"name": "i"}}]})")
          .elements[1]
          .text,
      "i");
  EXPECT_EQ(argumentOf(R"({"as_scalar_type": 7})").kind, Kind::ScalarType);
  EXPECT_EQ(argumentOf(R"({"as_device": {"type": "cpu", "index": null}})").text,
            "cpu");
  EXPECT_EQ(argumentOf(R"({"as_complex": {"real": 1, "imag": 2}})").kind,
            Kind::Unsupported);
}

TEST(Program, ReadsFloatsThatJsonLacks) {
  EXPECT_EQ(argumentOf(R"({"as_float": "-Infinity"})").number, -INFINITY);
  EXPECT_EQ(argumentOf(R"({"as_float": Infinity})").number, INFINITY);
  EXPECT_TRUE(std::isnan(argumentOf(R"({"as_float": NaN})").number));
}

TEST(Program, ReadsGraphsInsideOfNodes) {
  Argument argument = argumentOf(
      R"({"as_graph": {"name": "g", "graph": {"inputs": [], "outputs": [], "tensor_values": {}, "nodes": []}}})");
  EXPECT_EQ(argument.kind, Argument::Kind::Graph);
  EXPECT_TRUE(argument.graph->nodes.empty());
}

//===-- what is refused --------------------------------------------------===//

TEST(Program, WhatIsNoJsonIsRefused) {
  EXPECT_NE(errorOf("{").find("model.json: "), std::string::npos);
}

TEST(Program, DeepJsonIsRefused) {
  EXPECT_EQ(errorOf(std::string(1000, '[')),
            "model.json: nested more than 256 deep");
}

TEST(Program, AnotherObjectIsNoProgram) {
  EXPECT_EQ(errorOf("[]"), "model.json: no JSON object");
  EXPECT_EQ(
      errorOf("{}"),
      "model.json: it has no schema_version, so it is no exported program");
}

TEST(Program, AnotherVersionIsRefusedWithTheWayOut) {
  EXPECT_EQ(errorOf(program("[]", "[]", "9")),
            "model.json: schema version 9.1 of torch 2.13.0; versions 8.x are "
            "understood, which torch 2.6 to 2.13 "
            "write. Export the model again with one of these");
}

TEST(Program, AMissingGraphIsNamed) {
  EXPECT_EQ(errorOf(R"({"schema_version": {"major": 8, "minor": 1}})"),
            "model.json: it has no graph_module");
  EXPECT_EQ(
      errorOf(
          R"({"schema_version": {"major": 8, "minor": 1}, "graph_module": {}})"),
      "model.json: its graph_module has no graph or no signature");
}

TEST(Program, AMissingFieldIsShownWithItsPlace) {
  EXPECT_EQ(errorOf(program(R"([{"inputs": [], "outputs": []}])")),
            "model.json: missing value at "
            "model.json.graph_module.graph.nodes[0].target");
  EXPECT_NE(errorOf(program(nodeWith(R"({"as_tensor": {}})")))
                .find("nodes[0].inputs[0].arg.name"),
            std::string::npos);
}

TEST(Program, AnArgumentOfTwoKindsIsRefused) {
  EXPECT_NE(errorOf(program(nodeWith(R"({"as_int": 1, "as_bool": true})")))
                .find("expected an object of one key"),
            std::string::npos);
}

TEST(Program, AFloatThatIsNoneIsRefused) {
  EXPECT_NE(errorOf(program(nodeWith(R"({"as_float": "much"})")))
                .find("expected a number"),
            std::string::npos);
}

TEST(Program, InputsAndOutputsOfUnknownKindsAreRefused) {
  EXPECT_NE(errorOf(program("[]", R"([{"future": {"arg": {"name": "x"}}}])"))
                .find("an input of a kind that is not known"),
            std::string::npos);
  EXPECT_NE(errorOf(program("[]", "[]", "8",
                            R"([{"future": {"arg": {"name": "x"}}}])"))
                .find("an output of a kind that is not known"),
            std::string::npos);
  EXPECT_NE(
      errorOf(program("[]", R"([{"parameter": {"parameter_name": "w"}}])"))
          .find("missing value at arg"),
      std::string::npos);
}
