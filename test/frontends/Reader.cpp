// The ONNX file reader: the contents of a well-formed file, and that any file
// yields a model or a message.

#include "frontends/onnx/Model.h"

#include <gtest/gtest.h>
#include <protozero/pbf_writer.hpp>

#include <filesystem>
#include <fstream>
#include <random>
#include <unistd.h>

using namespace polyrank;
using namespace polyrank::frontends::onnx;
using protozero::pbf_writer;

namespace {

std::string message(auto build) {
  std::string bytes;
  pbf_writer writer(bytes);
  build(writer);
  return bytes;
}

std::string entry(const std::string &key, const std::string &value) {
  return message([&](pbf_writer &w) {
    w.add_string(1, key);
    w.add_string(2, value);
  });
}

std::string modelOf(const std::string &graph) {
  return message([&](pbf_writer &w) {
    w.add_int64(1, 10);
    w.add_message(7, graph);
    w.add_message(8, message([](pbf_writer &o) { o.add_int64(2, 20); }));
  });
}

std::string rawTensor(const std::string &name, std::vector<int64_t> dims,
                      int type, const std::string &raw) {
  return message([&](pbf_writer &w) {
    w.add_packed_int64(1, dims.begin(), dims.end());
    w.add_int32(2, type);
    w.add_string(8, name);
    w.add_bytes(9, raw);
  });
}

std::string externalTensor(std::vector<int64_t> dims,
                           std::vector<std::string> entries) {
  return message([&](pbf_writer &w) {
    w.add_packed_int64(1, dims.begin(), dims.end());
    w.add_int32(2, 1);
    w.add_string(8, "w");
    for (const std::string &each : entries)
      w.add_message(13, each);
    w.add_int32(14, 1);
  });
}

std::string graphWithInitializer(const std::string &tensor) {
  return message([&](pbf_writer &w) { w.add_message(5, tensor); });
}

/// A model with every kind of message the reader knows.
std::string completeModel() {
  std::string subgraph =
      message([](pbf_writer &w) { w.add_string(2, "inner"); });
  std::string node = message([&](pbf_writer &w) {
    w.add_string(1, "x");
    w.add_string(1, "");
    w.add_string(2, "y");
    w.add_string(3, "node_y");
    w.add_string(4, "Gemm");
    w.add_message(5, message([](pbf_writer &a) {
                    a.add_string(1, "alpha");
                    a.add_float(2, 0.5f);
                    a.add_int32(20, 1);
                  }));
    w.add_message(5, message([&](pbf_writer &a) {
                    a.add_string(1, "body");
                    a.add_message(6, subgraph);
                    a.add_int32(20, 5);
                  }));
    w.add_message(5, message([](pbf_writer &a) {
                    std::vector<int64_t> perm = {1, 0};
                    a.add_string(1, "perm");
                    a.add_packed_int64(8, perm.begin(), perm.end());
                    a.add_int64(8, 7); // repeated fields may be mixed
                    a.add_int32(20, 7);
                  }));
    w.add_message(9, entry("namespace", "layer"));
  });
  std::string input = message([](pbf_writer &w) {
    w.add_string(1, "x");
    w.add_message(2, message([](pbf_writer &t) {
                    t.add_message(
                        1, message([](pbf_writer &tensor) {
                          tensor.add_int32(1, 7);
                          tensor.add_message(
                              2, message([](pbf_writer &shape) {
                                shape.add_message(1, message([](pbf_writer &d) {
                                                    d.add_string(2, "batch");
                                                  }));
                                shape.add_message(1, message([](pbf_writer &d) {
                                                    d.add_int64(1, 8);
                                                  }));
                              }));
                        }));
                  }));
  });
  return modelOf(message([&](pbf_writer &w) {
    w.add_message(1, node);
    w.add_message(5, rawTensor("w", {2, 3}, 1, std::string(24, '\1')));
    w.add_message(5, message([](pbf_writer &t) { // varint elements
                    std::vector<int32_t> values = {-1, 2};
                    t.add_int64(1, 2);
                    t.add_int32(2, 7);
                    t.add_string(8, "indices");
                    t.add_packed_int32(7, values.begin(), values.end());
                  }));
    w.add_message(5, message([](pbf_writer &t) { // packed floats
                    std::vector<float> values = {1.5f, -2.f};
                    t.add_packed_float(4, values.begin(), values.end());
                    t.add_int64(1, 2);
                    t.add_int32(2, 1);
                    t.add_string(8, "floats");
                  }));
    w.add_message(11, input);
    w.add_message(12, input);
  }));
}

class Reader : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() /
             ("polyrank-reader-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder / "model");
    path = folder / "model" / "model.onnx";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void write(const std::filesystem::path &file, const std::string &bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
  }
  std::unique_ptr<Model> read(const std::string &bytes) {
    write(path, bytes);
    return readFrom(path);
  }
  /// Null where it fails, for the reason in `error`.
  std::unique_ptr<Model> readFrom(const std::filesystem::path &file) {
    auto model = readModel(file);
    error = model ? "" : model.error().message;
    return model ? std::move(*model) : nullptr;
  }
  void expectError(const std::string &bytes, const std::string &part) {
    EXPECT_EQ(read(bytes), nullptr);
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }

  std::filesystem::path folder, path;
  std::string error;
};

TEST_F(Reader, FindsNodesAttributesShapesAndMetadata) {
  auto model = read(completeModel());
  ASSERT_TRUE(model) << error;
  ASSERT_EQ(model->graph.nodes.size(), 1u);
  const Node &node = model->graph.nodes[0];
  EXPECT_EQ(node.inputs, (std::vector<std::string_view>{"x", ""}));
  EXPECT_EQ(node.attributes[0].f, 0.5f);
  EXPECT_EQ(node.attributes[1].g->name, "inner");
  EXPECT_EQ(node.attributes[2].ints, (std::vector<int64_t>{1, 0, 7}));
  EXPECT_EQ(find(node.metadata, "namespace"), "layer");
  const ValueInfo &input = model->graph.inputs[0];
  EXPECT_EQ(input.type, ElementType::I64);
  EXPECT_EQ((*input.shape)[0].parameter, "batch");
  EXPECT_EQ((*input.shape)[1].value, 8);
  EXPECT_EQ(model->opsets[0].version, 20);
}

TEST_F(Reader, WeightsStaySpansOfTheFile) {
  std::string bytes = completeModel();
  auto model = read(bytes);
  ASSERT_TRUE(model);
  const StoredTensor &weight = model->graph.initializers[0];
  ASSERT_TRUE(weight.span);
  EXPECT_EQ(bytes.substr(weight.span->offset, weight.span->length),
            std::string(24, '\1'));
  const StoredTensor &floats = model->graph.initializers[2];
  ASSERT_TRUE(floats.span);
  float values[2];
  memcpy(values, bytes.data() + floats.span->offset, sizeof(values));
  EXPECT_EQ(values[1], -2.f);
}

TEST_F(Reader, VarintElementsAreDecoded) {
  auto model = read(completeModel());
  ASSERT_TRUE(model);
  const StoredTensor &indices = model->graph.initializers[1];
  EXPECT_FALSE(indices.span);
  std::vector<char> bytes;
  ASSERT_TRUE(model->load(indices, bytes));
  int64_t values[2];
  ASSERT_EQ(bytes.size(), sizeof(values));
  memcpy(values, bytes.data(), sizeof(values));
  EXPECT_EQ(values[0], -1);
  EXPECT_EQ(values[1], 2);
}

TEST_F(Reader, ExternalDataIsASpanOfItsFile) {
  write(folder / "model" / "weights.bin", std::string(64, '\2'));
  auto model = read(modelOf(graphWithInitializer(
      externalTensor({4}, {entry("location", "weights.bin"),
                           entry("offset", "32"), entry("length", "16")}))));
  ASSERT_TRUE(model) << error;
  const StoredTensor &weight = model->graph.initializers[0];
  EXPECT_EQ(weight.span->path, (folder / "model" / "weights.bin").string());
  EXPECT_EQ(weight.span->offset, 32u);
  std::vector<char> bytes;
  ASSERT_TRUE(model->load(weight, bytes));
  EXPECT_EQ(bytes, std::vector<char>(16, '\2'));
}

TEST_F(Reader, ExternalDataNeverLeavesTheModelsFolder) {
  write(folder / "secret", std::string(16, 's'));
  write(folder / "model" / "weights.bin", std::string(16, 'w'));
  std::filesystem::create_symlink(folder / "secret", folder / "model" / "link");
  std::filesystem::create_directory_symlink(folder, folder / "model" / "up");
  std::filesystem::create_hard_link(folder / "secret",
                                    folder / "model" / "hard");
  auto reject = [&](const std::string &location, const std::string &part) {
    expectError(modelOf(graphWithInitializer(
                    externalTensor({4}, {entry("location", location)}))),
                part);
  };
  reject("../secret", "leaves the model's folder");
  reject("./x/../../secret", "");
  reject((folder / "secret").string(), "not a path relative");
  reject("link", "symbolic link");
  reject("up/secret", "symbolic link");
  reject("hard", "hard links");
  reject(".", "names a folder");
  reject("", "not a path relative");
  reject(std::string("weights.bin\0x", 13), "not a path relative");
  reject("absent", "No such file");
}

TEST_F(Reader, ExternalDataMustLieInsideItsFile) {
  write(folder / "model" / "weights.bin", std::string(16, 'w'));
  auto reject = [&](std::string offset, std::string length,
                    const std::string &part) {
    expectError(modelOf(graphWithInitializer(externalTensor(
                    {4}, {entry("location", "weights.bin"),
                          entry("offset", offset), entry("length", length)}))),
                part);
  };
  reject("4", "16", "lies at bytes 4 to 20");
  reject("18446744073709551615", "16", "no place in a file");
  reject("100", "16", "lies at bytes 100 to 116");
  reject("-1", "16", "offset of its external data is `-1`");
  reject("0", "12", "needs 16 bytes");
  reject("0", "99999999999999999999999999", "length");
}

TEST_F(Reader, EnormousClaimsAreRefused) {
  int64_t big = int64_t(1) << 40;
  expectError(
      modelOf(graphWithInitializer(rawTensor("w", {big, big, big}, 1, "abcd"))),
      "has more than 2^48 elements");
  expectError(modelOf(graphWithInitializer(rawTensor("w", {big}, 1, "abcd"))),
              "needs 4398046511104 bytes");
  expectError(modelOf(graphWithInitializer(rawTensor("w", {-1}, 1, "abcd"))),
              "dim of -1");
  expectError(modelOf(graphWithInitializer(
                  rawTensor("w", std::vector<int64_t>(1000, 1), 1, "abcd"))),
              "more than 64 dims");
  // A zero dim makes any other harmless.
  EXPECT_TRUE(read(modelOf(
      graphWithInitializer(rawTensor("w", {big, 0, big, big}, 1, "")))));
}

TEST_F(Reader, DeepNestingIsRefused) {
  std::string graph;
  for (int depth = 0; depth < 2000; ++depth)
    graph = message([&](pbf_writer &w) {
      w.add_message(1, message([&](pbf_writer &node) {
                      node.add_message(5, message([&](pbf_writer &a) {
                                         a.add_message(6, graph);
                                       }));
                    }));
    });
  expectError(modelOf(graph), "nested more than");
}

TEST_F(Reader, EveryTruncationGivesAModelOrAMessage) {
  std::string bytes = completeModel();
  for (size_t length = 1; length < bytes.size(); ++length)
    read(bytes.substr(0, length));
}

TEST_F(Reader, EveryByteMayBeWrong) {
  std::mt19937 random(1);
  std::string bytes = completeModel();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int round = 0; round < 4; ++round) {
      std::string mutant = bytes;
      mutant[at] = static_cast<char>(random());
      read(mutant);
    }
  }
  for (int round = 0; round < 500; ++round) {
    std::string noise(random() % 200 + 1, '\0');
    for (char &byte : noise)
      byte = static_cast<char>(random());
    read(noise);
  }
}

TEST_F(Reader, NamesTheFileThatIsNoModel) {
  EXPECT_EQ(readFrom(folder / "absent.onnx"), nullptr);
  EXPECT_NE(error.find("absent.onnx: No such file"), std::string::npos);
  EXPECT_EQ(readFrom(folder), nullptr);
  EXPECT_NE(error.find("not a regular file"), std::string::npos);
  expectError("", "empty");
  expectError(message([](pbf_writer &w) { w.add_int64(1, 10); }),
              "holds no graph");
}

} // namespace
