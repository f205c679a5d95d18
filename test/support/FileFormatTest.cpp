// Files of another format than the requested one.

#include "support/FileFormat.h"

#include <gtest/gtest.h>

using namespace polyrank;
using std::string_view_literals::operator""sv;

namespace {

/// A zip archive whose first member has this name.
std::string zipOf(std::string_view member) {
  std::string header("PK\3\4", 4);
  header.resize(30);
  header[26] = static_cast<char>(member.size());
  return header + std::string(member) + "...";
}

void expect(std::string_view start, WantedFile wanted, const char *says) {
  std::string found = foreignFormat(start, wanted);
  if (*says)
    EXPECT_NE(found.find(says), found.npos) << found;
  else
    EXPECT_EQ(found, "");
}

void expectForAll(std::string_view start, const char *says) {
  for (WantedFile wanted :
       {WantedFile::Model, WantedFile::Weights, WantedFile::Data})
    expect(start, wanted, says);
}

} // namespace

TEST(FileFormat, WhatNoPartReadsIsNamedWithTheWayOut) {
  expectForAll("\x1f\x8b\x08\0"sv,
               "compressed with gzip; unpack it first: gzip -dk");
  expectForAll("BZh91AY&SY"sv, "bzip2 -dk");
  expectForAll("\xfd"
               "7zXZ\0"sv,
               "xz -dk");
  expectForAll("\x28\xb5\x2f\xfd"sv, "zstd -dk");
  expectForAll("version https://git-lfs.github.com/spec/v1\n"sv,
               "git lfs pull");
  for (const char *member : {"archive/data.pkl", "archive/data/0"})
    expectForAll(zipOf(member), "what torch.save writes");
  for (const char *member : {"archive/data/weights/weight_0",
                             "x/models/model.json", "x/archive_format"})
    expectForAll(zipOf(member), "what torch.export.save writes");
  expect(zipOf("readme.txt"), WantedFile::Model, "unzip");
  expect(zipOf("readme.txt"), WantedFile::Weights, "unzip");
  expectForAll("\x80\x02\x8a\nl\xfc\x9c\x46"sv, "what torch.save writes");
  expectForAll("\x80\x04\x95\x10\0\0\0\0\0\0\0}"sv, "a pickle");
  expectForAll("GGUF\3\0\0\0"sv, "GGUF");
  expectForAll("\x89HDF\r\n\x1a\n"sv, "HDF5");
  expectForAll("POLYRANK\1"sv, "a plan");
}

TEST(FileFormat, WhatOnePartReadsIsForeignToTheOthers) {
  auto safetensors = "\x10\0\0\0\0\0\0\0{\"a\":"sv;
  expect(safetensors, WantedFile::Model, "has weights and no graph");
  expect(safetensors, WantedFile::Weights, "");
  expect(safetensors, WantedFile::Data, "numpy.savez");
  auto onnx = "\x08\x0a\x12\x07pytorch\x1a"sv;
  expect(onnx, WantedFile::Model, "");
  expect(onnx, WantedFile::Weights,
         "an ONNX model; save the weights with safetensors.torch.save_model");
  expect(onnx, WantedFile::Data, "an ONNX model");
  for (std::string set : {zipOf("input_ids.npy"), std::string("\x93NUMPY\1")}) {
    expect(set, WantedFile::Model, "torch.onnx.export");
    expect(set, WantedFile::Weights, "NumPy");
    expect(set, WantedFile::Data, "");
  }
  for (const char *page : {"\n <!DOCTYPE html>", "<HTML><body>"}) {
    expect(page, WantedFile::Model, "a web page (HTML)");
    expect(page, WantedFile::Weights, "a web page");
    expect(page, WantedFile::Data, ""); // as good a text as any
  }
}

/// Tokens and texts may begin with any bytes.
TEST(FileFormat, WhatOnlyLooksLikeAnotherIsTakenAsItIs) {
  expectForAll("", "");
  expectForAll("BZhang wrote", "");
  for (const char *cut : {"B", "BZh", "BZh9", "BZh91AY&S", "GGUF", "POLYRANK"})
    expectForAll(cut, "");
  expectForAll("GGUF is a format", "");
  expectForAll("POLYRANK compiles", "");
  expectForAll("\x80\x04\x95\x10\0\0\0\0\0\0\1}"sv, "");
  expectForAll("\x80\x02tokens"sv, "");
  expectForAll("\x08\x0a\x12\x07pyt\x01rch"sv, "");
  expectForAll("\x08\x0a\x12\x20short"sv, "");
  expectForAll("\x08\x7a\x12\x02xy"sv, "");
  expectForAll("\xff\xff\xff\xff\xff\0\0\0{\"a\":"sv, "");
  expectForAll("\x10\0\0\0\0\0\0\0{a"sv, "");
}
