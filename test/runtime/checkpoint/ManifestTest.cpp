// Manifests: what is written is read back; everything else is refused, each
// defect by a check of its own.

#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/Checksum.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

namespace polyrank::runtime::test {
namespace {

using Json = nlohmann::ordered_json;

/// A matrix in two chunks, and a count of steps.
Manifest small() {
  Manifest manifest;
  manifest.step = 100;
  manifest.seed = -3;
  manifest.program = "polyrank-run 0.1.0";
  manifest.model = "model.onnx";
  manifest.planHash = "00ff";
  manifest.mesh = "data=2";
  manifest.data = {"text.txt: 9 samples", "abcd", "random", 9, 4, 10};
  manifest.metrics = {{"loss", 1.5},
                      {"norm", std::numeric_limits<double>::quiet_NaN()}};
  manifest.files = {{shardFileName(0, 2), 512}, {shardFileName(1, 2), 256}};
  ManifestTensor weight{
      "w", TensorRole::Parameter, {}, {}, ElementType::F32, {4, 3}, {}};
  weight.chunks = {{0, "w", {{0, 0}, {3, 3}}, {0x0123456789abcdef}},
                   {1, "w", {{3, 0}, {1, 3}}, {7}}};
  ManifestTensor step{
      "step", TensorRole::State, "", "step", ElementType::I64, {}, {}};
  step.chunks = {{0, "state.step", {}, {9}}};
  manifest.tensors = {weight, step};
  return manifest;
}

/// The text of a body with a digest that fits.
std::string sealed(const std::string &body) {
  return "{\"digest\":\"" + digestOf(body) + "\",\"manifest\":" + body + "}\n";
}

Json bodyOf(const Manifest &manifest) {
  return Json::parse(textOf(manifest)).at("manifest");
}

std::string problemOf(const std::string &text) {
  Result<Manifest> read = manifestFromText("m", text);
  return read ? "" : read.error().message;
}

TEST(Manifest, ComesBackAsItWasWritten) {
  Manifest manifest = small();
  Result<Manifest> read = manifestFromText("m", textOf(manifest));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(textOf(*read), textOf(manifest));
  EXPECT_EQ(read->step, 100u);
  EXPECT_EQ(read->seed, -3);
  EXPECT_EQ(read->data.origin, 10u);
  EXPECT_TRUE(std::isnan(read->metrics[1].second));
  EXPECT_EQ(read->tensors[0].chunks[0].checksums[0], 0x0123456789abcdefu);
  EXPECT_EQ(read->find(TensorRole::State, "step")->suffix, "step");
  EXPECT_EQ(read->findStored("w")->bytes(), 48u);
  EXPECT_EQ(read->findStored("step"), nullptr);
  EXPECT_EQ(read->bytes(), 768u);
}

TEST(Manifest, AnEvaluationMakesItOneOfVersion2) {
  Manifest manifest = small();
  EXPECT_EQ(bodyOf(manifest)["version"], 1);
  manifest.evaluation = {
      .step = 90, .bestStep = 80, .without = 3, .bestLoss = 0.1 + 0.2};
  EXPECT_EQ(bodyOf(manifest)["version"], 2);
  Result<Manifest> read = manifestFromText("m", textOf(manifest));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_TRUE(read->evaluation);
  EXPECT_EQ(read->evaluation->step, 90u);
  EXPECT_EQ(read->evaluation->bestStep, 80u);
  EXPECT_EQ(read->evaluation->without, 3u);
  EXPECT_EQ(read->evaluation->bestLoss, 0.1 + 0.2); // to the bit
  manifest.evaluation = {.step = 90};               // whose loss was NaN
  read = manifestFromText("m", textOf(manifest));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(std::isinf(read->evaluation->bestLoss));
  auto changed = [&](const std::function<void(Json &)> &change) {
    Json body = bodyOf(manifest);
    change(body);
    return problemOf(sealed(body.dump()));
  };
  EXPECT_NE(changed([](Json &b) {
              b["evaluation"]["step"] = 101;
            }).find("'evaluation' is of a later step"),
            std::string::npos);
  EXPECT_NE(changed([](Json &b) {
              b["evaluation"]["best_step"] = 91;
            }).find("'evaluation' is of a later step"),
            std::string::npos);
  EXPECT_NE(changed([](Json &b) {
              b["evaluation"]["best_loss"] = "low";
            }).find("'best_loss' is no number"),
            std::string::npos);
  EXPECT_NE(changed([](Json &b) { b["version"] = 1; }).find("an unknown key"),
            std::string::npos);
}

TEST(Manifest, NoByteOfItCanChangeUnseen) {
  std::string text = textOf(small());
  for (size_t at = 0; at < text.size(); ++at) {
    std::string damaged = text;
    damaged[at] ^= 1;
    EXPECT_NE(problemOf(damaged), "") << at;
  }
  for (size_t length = 0; length < text.size(); length += 7)
    EXPECT_NE(problemOf(text.substr(0, length)), "") << length;
}

TEST(Manifest, OneOfANewerVersionIsNoDamage) {
  Json body = bodyOf(small());
  body["version"] = 99;
  Result<Manifest> read = manifestFromText("m", sealed(body.dump()));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().cause, Error::Cause::Version);
  EXPECT_NE(read.error().message.find("it has version 99"), std::string::npos);
  EXPECT_NE(read.error().message.find("the newer program that wrote it"),
            std::string::npos);
  body["version"] = 0;
  EXPECT_EQ(manifestFromText("m", sealed(body.dump())).error().cause,
            Error::Cause::Content);
}

TEST(Manifest, EverythingThatItForbidsIsRefused) {
  struct Row {
    const char *problem;
    std::function<void(Json &)> change;
  };
  auto tensor = [](Json &body) -> Json & { return body["tensors"][0]; };
  auto chunk = [](Json &body) -> Json & {
    return body["tensors"][0]["chunks"][0];
  };
  const Row rows[] = {
      {"", [](Json &) {}},
      {"is of another format", [](Json &b) { b["format"] = "x"; }},
      {"it has version 0", [](Json &b) { b["version"] = 0; }},
      {"has no 'step'", [](Json &b) { b.erase("step"); }},
      {"the manifest has an unknown key", [](Json &b) { b["x"] = 1; }},
      {"'step' is no whole number", [](Json &b) { b["step"] = -1; }},
      {"'step' is no whole number", [](Json &b) { b["step"] = 1.5; }},
      {"'seed' is no integer", [](Json &b) { b["seed"] = ~uint64_t(0); }},
      {"'model' is no text", [](Json &b) { b["model"] = 1; }},
      {"'files' is no array", [](Json &b) { b["files"] = 1; }},
      {"'data' is no object", [](Json &b) { b["data"] = 1; }},
      {"'data' has an unknown key", [](Json &b) { b["data"]["x"] = 1; }},
      {"its data begin after its step",
       [](Json &b) { b["data"]["origin"] = 101; }},
      {"'metrics' is no object", [](Json &b) { b["metrics"] = 1; }},
      {"metric 'loss' is no number",
       [](Json &b) { b["metrics"]["loss"] = "low"; }},
      {"blocks of another size", [](Json &b) { b["checksum_block"] = 1; }},
      {"a file has an unknown key", [](Json &b) { b["files"][0]["x"] = 1; }},
      {"is no name of a shard",
       [](Json &b) { b["files"][0]["name"] = "../../etc/passwd"; }},
      {"is no name of a shard",
       [](Json &b) {
         b["files"][0]["name"] = "shard-00003-of-00002.safetensors";
       }},
      {"is no name of a shard",
       [](Json &b) {
         b["files"][0]["name"] = "shard-00001-of-00002.safetensors/x";
       }},
      {"' is named twice",
       [](Json &b) { b["files"][1]["name"] = b["files"][0]["name"]; }},
      {"tensor 'w' is named twice",
       [](Json &b) { b["tensors"].push_back(b["tensors"][0]); }},
      {"tensor 'w' is named twice",
       [](Json &b) {
         b["tensors"].push_back(b["tensors"][0]);
         b["tensors"][2]["role"] = "buffer";
       }},
      {"the unknown role 'x'", [&](Json &b) { tensor(b)["role"] = "x"; }},
      {"the unknown dtype 'f31'", [&](Json &b) { tensor(b)["dtype"] = "f31"; }},
      {"a tensor has an unknown key", [&](Json &b) { tensor(b)["x"] = 1; }},
      {"list of up to 32 sizes", [&](Json &b) { tensor(b)["shape"][0] = -4; }},
      {"list of up to 32 sizes",
       [&](Json &b) { tensor(b)["shape"][0] = ~uint64_t(0); }},
      {"list of up to 32 sizes",
       [&](Json &b) { tensor(b)["shape"] = std::vector<int>(33, 1); }},
      {"impossible shape",
       [&](Json &b) {
         tensor(b)["shape"] = {int64_t(1) << 40, int64_t(1) << 40};
       }},
      {"has an unknown key", [&](Json &b) { chunk(b)["x"] = 1; }},
      {"is in file number 2 of 2", [&](Json &b) { chunk(b)["file"] = 2; }},
      {"is in file number 4294967296",
       [&](Json &b) { chunk(b)["file"] = uint64_t(1) << 32; }},
      {"the key 'w' stands twice",
       [&](Json &b) { tensor(b)["chunks"][1]["file"] = 0; }},
      {"has another rank", [&](Json &b) { chunk(b)["offsets"] = {0}; }},
      {"has another rank", [&](Json &b) { chunk(b)["sizes"] = {9}; }},
      {"has elements 0 + 0 of dim 1",
       [&](Json &b) {
         chunk(b)["sizes"] = {3, 0};
         chunk(b)["xxh3"] = Json::array();
       }},
      {"has elements 2 + 3 of dim 0, which has 4",
       [&](Json &b) { chunk(b)["offsets"] = {2, 0}; }},
      {"has elements 9 + 3 of dim 0",
       [&](Json &b) { chunk(b)["offsets"] = {9, 0}; }},
      {"is too large",
       [&](Json &b) {
         chunk(b)["sizes"] = {int64_t(1) << 62, int64_t(1) << 62};
       }},
      {"has 2 checksums instead of 1",
       [&](Json &b) { chunk(b)["xxh3"].push_back("0123456789abcdef"); }},
      {"has a checksum that is none",
       [&](Json &b) { chunk(b)["xxh3"][0] = "0123456789ABCDEF"; }},
      {"has a checksum that is none",
       [&](Json &b) { chunk(b)["xxh3"][0] = 7; }},
      {"has a checksum that is none",
       [&](Json &b) { chunk(b)["xxh3"][0] = "123"; }},
      {"elements are missing", [&](Json &b) { tensor(b)["chunks"].erase(1); }},
      {"some elements are there more than once",
       [&](Json &b) { chunk(b)["sizes"] = {4, 3}; }},
      {"more than once, and others not at all",
       [&](Json &b) { tensor(b)["chunks"][1]["offsets"] = {2, 0}; }},
  };
  for (const Row &row : rows) {
    Json body = bodyOf(small());
    row.change(body);
    std::string problem = problemOf(sealed(body.dump(1)));
    if (*row.problem)
      EXPECT_NE(problem.find(row.problem), std::string::npos)
          << row.problem << ": " << problem;
    else
      EXPECT_EQ(problem, "");
  }
}

TEST(Manifest, TextThatIsNoneIsRefused) {
  std::string body = bodyOf(small()).dump(1);
  EXPECT_NE(problemOf(sealed("{" + body)).find("not JSON"), std::string::npos);
  EXPECT_NE(problemOf(sealed("[" + body + "]")).find("is no object"),
            std::string::npos);
  EXPECT_NE(problemOf(sealed("{\"step\":1," + body.substr(1)))
                .find("the key 'step' stands twice"),
            std::string::npos);
  std::string deep = std::string(20, '[') + std::string(20, ']');
  EXPECT_NE(problemOf(sealed(deep)).find("nested too deeply"),
            std::string::npos);
  std::string many = "[";
  for (int i = 0; i < 1'100'000; ++i)
    many += "[],";
  EXPECT_NE(problemOf(sealed(many + "0]"))
                .find("takes more than 134217728 bytes of memory"),
            std::string::npos);
  EXPECT_NE(problemOf(sealed(body) + " ").find("cut off"), std::string::npos);
  EXPECT_NE(problemOf("").find("not a checkpoint's manifest"),
            std::string::npos);
}

// Every set of boxes of a small matrix is a tiling if and only if counting says
// so.
TEST(Box, TilingsAreThoseThatCountingFinds) {
  std::vector<int64_t> shape{3, 2};
  std::vector<Box> all;
  for (int64_t a = 0; a < 3; ++a)
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t c = 1; a + c <= 3; ++c)
        for (int64_t d = 1; b + d <= 2; ++d)
          all.push_back({{a, b}, {c, d}});
  size_t tilings = 0;
  for (uint64_t set = 0; set < uint64_t(1) << all.size(); set += 1) {
    if (__builtin_popcountll(set) > 4)
      continue;
    std::vector<Box> boxes;
    int counts[3][2] = {};
    for (size_t n = 0; n < all.size(); ++n)
      if (set >> n & 1) {
        boxes.push_back(all[n]);
        for (int64_t i = 0; i < all[n].sizes[0]; ++i)
          for (int64_t j = 0; j < all[n].sizes[1]; ++j)
            ++counts[all[n].offsets[0] + i][all[n].offsets[1] + j];
      }
    bool once = true;
    for (auto &row : counts)
      for (int count : row)
        once &= count == 1;
    tilings += once;
    ASSERT_EQ(bool(checkTiling(shape, boxes)), once) << set;
  }
  EXPECT_GT(tilings, 10u);
}

TEST(Box, WhatIsLeftTilesTheRest) {
  Box whole = wholeBox(std::vector<int64_t>{4, 5, 3});
  std::vector<Box> parts{{{0, 1, 0}, {2, 2, 3}}, {{1, 3, 1}, {3, 2, 1}}};
  std::vector<Box> boxes = subtract(whole, parts);
  boxes.insert(boxes.end(), parts.begin(), parts.end());
  EXPECT_TRUE(checkTiling(whole.sizes, boxes));
  EXPECT_TRUE(subtract(whole, std::vector{whole}).empty());
  EXPECT_FALSE(checkTiling(std::vector<int64_t>(11, 2),
                           std::vector{Box{std::vector<int64_t>(11, 0),
                                           std::vector<int64_t>(11, 1)}}));
}

/// The boxes are the single elements of a matrix, except that one overlaps
/// another and so leaves a hole.
TEST(Box, AnOverlapBesideAHoleOfItsSizeIsFound) {
  constexpr int64_t rows = 200, columns = 100;
  std::vector<int64_t> shape{rows, columns};
  std::vector<Box> boxes;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      boxes.push_back({{row, column}, {1, 1}});
  EXPECT_TRUE(checkTiling(shape, boxes));
  boxes[77].offsets = boxes[12345].offsets;
  auto tiled = checkTiling(shape, boxes);
  ASSERT_FALSE(tiled);
  EXPECT_EQ(tiled.error().message,
            "some elements are there more than once, and others not at all");
}

// A box of n dims has 2^n corners, which are not visited one by one: 32,768
// boxes of 15 dims have a billion of them.
TEST(Box, ManyBoxesOfManyDimsAreChecked) {
  constexpr size_t rank = 15;
  std::vector<int64_t> shape(rank, 2);
  std::vector<Box> boxes;
  for (int64_t number = 0; number < int64_t(1) << rank; ++number) {
    Box box{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 1)};
    for (size_t d = 0; d < rank; ++d)
      box.offsets[d] = number >> d & 1;
    boxes.push_back(std::move(box));
  }
  EXPECT_TRUE(checkTiling(shape, boxes));
  boxes.back() = boxes.front();
  EXPECT_FALSE(checkTiling(shape, boxes));
}

} // namespace
} // namespace polyrank::runtime::test
