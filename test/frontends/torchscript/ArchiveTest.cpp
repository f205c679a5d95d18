// TorchScript files as a whole: the contents of one, and which archives are
// refused with what they are instead.

#include "frontends/torchscript/Archive.h"

#include "test/support/TemporaryFolder.h"
#include "test/support/ZipBuilder.h"

#include <gtest/gtest.h>

using namespace polyrank;
using namespace polyrank::frontends::torchscript;
using runtime::test::buildZip;
using runtime::test::BuiltMember;
using runtime::test::TemporaryFolder;

namespace {

template <size_t N>
std::string bytesOf(const char (&text)[N]) {
  return std::string(text, N - 1);
}

const std::string code = "class Net(Module):\n"
                         "  def forward(self, x: Tensor) -> Tensor:\n"
                         "    y = torch.relu(x)\n"
                         "    return y\n"
                         "def double(x: Tensor) -> Tensor:\n"
                         "  return x\n";
const std::string module = bytesOf("\x80\2c__torch__.a\nNet\n)\x81}b.");

/// BINUNICODE.
std::string text(const std::string &value) {
  return "X" + std::string(1, char(value.size())) + bytesOf("\0\0\0") + value;
}

/// Three records: from offset 0 nothing, from 61 what begins at 5 in the text
/// of lines 10 and following of model.py, from 80 a stack of frames.
const std::string debug =
    bytesOf("\x80\2") + text("FORMAT_WITH_STRING_TABLE") + "(" + text("") +
    text("a\nb\n") + text("cd\n") + text("model.py") +
    text("/site-packages/torch/nn/modules/linear.py(134): forward\n") +
    text("/home/me/net.py(12): run\n") + "t(" +
    bytesOf("K\0(](K\0eK\0K\0tK\0K\0\x87K\0\x87"
            "K\x3d(](K\1K\2eK\3K\x9tK\5K\6\x87K\1\x87"
            "K\x50(](K\4K\5eK\0K\0tK\0K\1\x87K\2\x87"
            "t\x87.");

std::vector<BuiltMember> goodMembers() {
  return {{"m/data.pkl", module},
          {"m/code/__torch__/a.py", code, true},
          {"m/code/__torch__/a.py.debug_pkl", debug, true},
          {"m/constants.pkl", bytesOf("\x80\2K\1\x85.")},
          {"m/version", "3\n"}};
}

class Archives : public testing::Test {
protected:
  Result<std::unique_ptr<Archive>> open(std::vector<BuiltMember> members) {
    return Archive::open(folder.write("m.pt", buildZip(members, true)));
  }
  void expectProblem(std::vector<BuiltMember> members,
                     const std::string &problem) {
    auto archive = open(std::move(members));
    ASSERT_FALSE(archive) << problem;
    EXPECT_NE(archive.error().message.find("m.pt"), std::string::npos);
    EXPECT_NE(archive.error().message.find(problem), std::string::npos)
        << archive.error().message;
  }
  /// The good archive with another content of one member, or without it.
  std::vector<BuiltMember> with(const std::string &name,
                                std::optional<std::string> content) {
    auto members = goodMembers();
    for (size_t i = 0; i < members.size(); ++i)
      if (members[i].name == name) {
        if (content)
          members[i].contents = *content;
        else
          members.erase(members.begin() + i);
        return members;
      }
    if (content)
      members.push_back({name, *content});
    return members;
  }

  TemporaryFolder folder;
};

TEST_F(Archives, ModuleConstantsAndCodeAreFound) {
  auto archive = open(goodMembers());
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_EQ((*archive)->getVersion(), 3);
  EXPECT_EQ((*archive)->getModule().text, "__torch__.a.Net");
  ASSERT_EQ((*archive)->getConstants().size(), 1u);
  EXPECT_EQ((*archive)->getConstants()[0]->integer, 1);
  EXPECT_EQ((*archive)->getTracedInputs(), nullptr);
  auto found = (*archive)->findClass("__torch__.a.Net");
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_TRUE(found->definition);
  EXPECT_EQ(found->module, "__torch__.a");
  auto function = (*archive)->findFunction("__torch__.a.double");
  ASSERT_TRUE(function);
  EXPECT_TRUE(function->definition);
  for (const char *absent : {"__torch__.a.Other", "__torch__.b.Net", "Net"}) {
    auto none = (*archive)->findClass(absent);
    ASSERT_TRUE(none);
    EXPECT_EQ(none->definition, nullptr) << absent;
  }
}

TEST_F(Archives, PlacesInTheCodeHaveLinesOfTheUsers) {
  auto archive = open(goodMembers());
  ASSERT_TRUE(archive) << archive.error().message;
  auto found = (*archive)->findClass("__torch__.a.Net");
  ASSERT_TRUE(found) << found.error().message;
  SourceLine line = (*archive)->sourceOf(found->module, 70);
  EXPECT_EQ(line.file, "model.py");
  EXPECT_EQ(line.line, 11);
  line = (*archive)->sourceOf(found->module, 90);
  EXPECT_EQ(line.file, "/home/me/net.py");
  EXPECT_EQ(line.line, 12);
  line = (*archive)->sourceOf(found->module, 20);
  EXPECT_EQ(line.file, "m/code/__torch__/a.py");
  EXPECT_EQ(line.line, 2);
}

/// The code's own line is said instead.
TEST_F(Archives, APlaceThatItsTextHasNotIsNoLineOfTheUsers) {
  auto fileOf = [&](const std::string &debug) {
    auto archive = open(with("m/code/__torch__/a.py.debug_pkl", debug));
    EXPECT_TRUE(archive) << archive.error().message;
    auto found = (*archive)->findClass("__torch__.a.Net");
    EXPECT_TRUE(found) << found.error().message;
    return (*archive)->sourceOf(found->module, 70).file;
  };
  // The text of the second record has 7 bytes.
  std::string record = bytesOf("tK\5K\6\x87K\1"), last = record,
              behind = record;
  last[2] = 7;
  behind[2] = 8;
  size_t at = debug.find(record);
  EXPECT_EQ(fileOf(std::string(debug).replace(at, record.size(), last)),
            "model.py");
  EXPECT_EQ(fileOf(std::string(debug).replace(at, record.size(), behind)),
            "m/code/__torch__/a.py");
  // One text 256 times over has 16 MiB; with one more it has no lines.
  auto many = [&](int times) {
    std::string texts;
    for (int i = 0; i < times; ++i)
      texts += bytesOf("K\1");
    return bytesOf("\x80\2") + text("FORMAT_WITH_STRING_TABLE") + "(" +
           text("model.py") + bytesOf("X\0\0\1\0") + std::string(1 << 16, 'x') +
           "t(" + bytesOf("K\0((](") + texts +
           bytesOf("eK\0K\0tK\0K\1tK\0\x87t\x87.");
  };
  EXPECT_EQ(fileOf(many(256)), "model.py");
  EXPECT_EQ(fileOf(many(257)), "m/code/__torch__/a.py");
}

/// Like a scripted function of that many lines: one text with as many parts,
/// and a record for each. Memory for each part of each record would be 80 GB,
/// and so would be the bytes read for all of them.
TEST_F(Archives, RecordsShareTheTextThatTheyAreOf) {
  constexpr int lines = 100'000;
  auto integer = [](int value) {
    return bytesOf("J") + std::string(reinterpret_cast<char *>(&value), 4);
  };
  std::string pickle = bytesOf("\x80\2") + text("FORMAT_WITH_STRING_TABLE") +
                       "(" + text("x\n") + text("") + text("model.py") + "t(";
  for (int i = 0; i < lines; ++i) {
    pickle += integer(i) + "(";
    if (i == 0) {
      pickle += "(](";
      for (int line = 0; line < lines; ++line)
        pickle += bytesOf("K\0K\1");
      pickle += bytesOf("eK\2K\7tq\0");
    } else {
      pickle += bytesOf("h\0");
    }
    pickle += integer(2 * i) + integer(2 * i + 1) + "t" + bytesOf("K\0\x87");
  }
  pickle += bytesOf("t\x87.");
  auto archive = open(with("m/code/__torch__/a.py.debug_pkl", pickle));
  ASSERT_TRUE(archive) << archive.error().message;
  auto found = (*archive)->findClass("__torch__.a.Net");
  ASSERT_TRUE(found) << found.error().message;
  for (int i = 0; i < lines; ++i) {
    SourceLine line = (*archive)->sourceOf(found->module, i);
    ASSERT_EQ(line.file, "model.py");
    ASSERT_EQ(line.line, 7 + i);
  }
}

TEST_F(Archives, WithoutDebugInformationTheLineIsThatOfTheCode) {
  auto archive = open(with("m/code/__torch__/a.py.debug_pkl", std::nullopt));
  ASSERT_TRUE(archive) << archive.error().message;
  auto found = (*archive)->findClass("__torch__.a.Net");
  ASSERT_TRUE(found);
  EXPECT_EQ((*archive)->sourceOf(found->module, 70).line, 3);
}

TEST_F(Archives, WhatIsNoTorchScriptIsSaid) {
  expectProblem({{"m/data.pkl", module}, {"m/version", "3\n"}},
                "is what torch.save writes");
  expectProblem({{"m/data.pkl", module},
                 {"m/bytecode.pkl", ""},
                 {"m/constants.pkl", ""},
                 {"m/version", "3\n"}},
                "for mobile devices");
  expectProblem({{"m/archive_format", "pt2"}}, "has no data.pkl");
  expectProblem({{"data.pkl", module}}, "beside all folders");
  expectProblem(with("n/other", "x"), "has the folders 'm/' and 'n/'");
  std::string path = folder.write("text.pt", "no zip");
  auto archive = Archive::open(path);
  ASSERT_FALSE(archive);
  EXPECT_NE(archive.error().message.find("no end record"), std::string::npos);
}

TEST_F(Archives, TheVersionIsOneThatIsUnderstood) {
  expectProblem(with("m/version", std::nullopt), "states no version");
  expectProblem(with("m/.data/version", "3\n"), "states its version twice");
  expectProblem(with("m/version", "x"), "a version that is no number");
  expectProblem(with("m/version", "3x"), "a version that is no number");
  expectProblem(with("m/version", "11\n"), "has version 11 of the format");
  expectProblem(with("m/byteorder", "big"), "in 'big' byte order");
  EXPECT_TRUE(open(with("m/byteorder", "little")));
}

TEST_F(Archives, PicklesHoldWhatTheirNamesSay) {
  expectProblem(with("m/data.pkl", bytesOf("\x80\2N.")),
                "data.pkl holds None and no module");
  expectProblem(with("m/data.pkl", bytesOf("\x80\2cos\nsystem\n.")),
                "'m/data.pkl': names `os.system`");
  expectProblem(with("m/constants.pkl", bytesOf("\x80\2N.")),
                "constants.pkl holds None, not a tuple");
  auto broken = open(with("m/code/__torch__/a.py", "import os\n"));
  ASSERT_TRUE(broken);
  auto found = (*broken)->findClass("__torch__.a.Net");
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find(
                "m.pt, 'm/code/__torch__/a.py', line 1: a class or a function"),
            std::string::npos)
      << found.error().message;
}

TEST_F(Archives, DebugInformationThatIsNoneIsAnError) {
  for (const std::string &wrong :
       {bytesOf("\x80\2N."), bytesOf("\x80\2K\1\x85."),
        bytesOf("\x80\2X\1\0\0\0x\x85."),
        bytesOf("\x80\2X\x18\0\0\0FORMAT_WITH_STRING_TABLE)N\x87."),
        // A text that is not in the table, and offsets that decrease.
        bytesOf("\x80\2X\x18\0\0\0FORMAT_WITH_STRING_TABLE)(K\0(](K\0eK\0K\0tK"
                "\0K\0\x87K\0\x87t\x87."),
        bytesOf("\x80\2(K\2(X\0\0\0\0NK\0tK\0K\0\x87\x86K\1(X\0\0\0\0NK\0tK\0K"
                "\0\x87\x86t.")}) {
    auto archive = open(with("m/code/__torch__/a.py.debug_pkl", wrong));
    ASSERT_TRUE(archive);
    auto found = (*archive)->findClass("__torch__.a.Net");
    ASSERT_FALSE(found);
    EXPECT_NE(found.error().message.find("no debug information"),
              std::string::npos)
        << found.error().message;
  }
}

} // namespace
