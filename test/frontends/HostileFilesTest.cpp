// Files that attack their reader, in each of PyTorch's formats: what is known
// of archives (CVE-2022-25882 and its successors, archives that unpack to more
// than any disk holds) and of pickles (CVE-2025-32434, CVE-2026-24747). Each
// file is valid except for one defect, and only the check of that defect
// refuses it.

#include "frontends/exported_program/Archive.h"
#include "frontends/torchscript/Archive.h"
#include "frontends/torchscript/ModelState.h"

#include "test/support/TemporaryFolder.h"
#include "test/support/ZipBuilder.h"

#include <gtest/gtest.h>

using namespace polyrank;
using namespace polyrank::frontends;
using runtime::test::buildZip;
using runtime::test::BuiltMember;
using runtime::test::deflated;
using runtime::test::put;
using runtime::test::TemporaryFolder;

namespace {

using Members = std::vector<BuiltMember>;

template <size_t N>
std::string bytesOf(const char (&text)[N]) {
  return std::string(text, N - 1);
}

/// BINUNICODE.
std::string text(const std::string &value) {
  std::string bytes = "X";
  put(bytes, value.size(), 4);
  return bytes + value;
}

/// A tensor of six floats, whose offset, sizes and strides are these opcodes.
std::string tensor(const std::string &offset = bytesOf("K\0"),
                   const std::string &sizes = "K\6\x85",
                   const std::string &strides = "K\1\x85") {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") +
         "ctorch\nFloatStorage\n" + text("0") + text("cpu") + "K\6tQ" + offset +
         sizes + strides + "\x89" + "ccollections\nOrderedDict\n)RtR";
}

const std::string weight(24, 'w');

/// A format: a file of it that is read, and how.
struct Format {
  const char *name;
  /// `value` is the pickle of weight `w`; unused where there is no pickle.
  Members (*members)(const std::string &value);
  /// Opens it and looks for its weight.
  Result<void> (*read)(const std::string &path);
  bool hasPickle;
};

Members torchScript(const std::string &value) {
  return {{"m/data.pkl", "\x80\2"
                         "c__torch__\nM\n)\x81}" +
                             text("w") + value + "sb."},
          {.name = "m/code/__torch__.py",
           .contents = "class M(Module):\n  def forward(self, x: Tensor) -> "
                       "Tensor:\n    return x\n",
           .deflate = true},
          {"m/constants.pkl", "\x80\2)."},
          {"m/data/0", weight},
          {"m/version", "10"}};
}

Result<void> readTorchScript(const std::string &path) {
  POLYRANK_ASSIGN(archive, torchscript::Archive::open(path));
  POLYRANK_ASSIGN(found, archive->findClass("__torch__.M"));
  if (!found.definition)
    return Error{path + ": no class"};
  const archive::PickleValue *value = archive->getModule().find("w");
  if (!value || !value->tensor)
    return Error{path + ": no weight"};
  POLYRANK_ASSIGN(
      located,
      archive->locate(*value->tensor, torchscript::Archive::Folder::Data, "w"));
  return located.sizes.empty() ? Result<void>(Error{path + ": no dims"})
                               : Result<void>();
}

const std::string program = R"({"schema_version": {"major": 8, "minor": 1},
  "graph_module": {"graph": {"inputs": [], "outputs": [], "nodes": [],
    "tensor_values": {}},
  "signature": {"input_specs": [], "output_specs": []}}})";

std::string metaOf(const std::string &sizes, const std::string &strides,
                   const std::string &offset) {
  return R"({"config": {"w": {"path_name": "weight_0", "is_param": true,
    "use_pickle": false, "tensor_meta": {"dtype": 7, "sizes": [)" +
         sizes + R"(], "strides": [)" + strides +
         R"(], "storage_offset": {"as_int": )" + offset +
         R"(}, "requires_grad": true, "layout": 7}}}})";
}
const std::string goodMeta =
    metaOf(R"({"as_int": 6})", R"({"as_int": 1})", "0");

Members exported(const std::string &) {
  return {
      {.name = "m/models/model.json", .contents = program, .deflate = true},
      {"m/data/weights/model_weights_config.json", goodMeta},
      {"m/data/weights/weight_0", weight},
      {"m/data/constants/model_constants_config.json", R"({"config": {}})"}};
}

/// Members as torch 2.7 wrote them: weights are an archive in the archive.
Members exportedOld(const std::string &value) {
  Members inner = {{"in/data.pkl", "\x80\2}" + text("w") + value + "s."},
                   {"in/data/0", weight}};
  return {{.name = "serialized_exported_program.json",
           .contents = program,
           .deflate = true},
          {"serialized_state_dict.pt", buildZip(inner)},
          {"serialized_constants.pt", ""}};
}

Result<void> readExported(const std::string &path) {
  POLYRANK_ASSIGN(archive, exported_program::Archive::open(path));
  POLYRANK_ASSIGN(located, archive->findWeight("w"));
  return located.sizes.empty() ? Result<void>(Error{path + ": no dims"})
                               : Result<void>();
}

const Format formats[] = {
    {"TorchScript", torchScript, readTorchScript, true},
    {"ExportedProgram", exported, readExported, false},
    {"ExportedProgram27", exportedOld, readExported, true}};

class HostileFiles : public testing::TestWithParam<Format> {
protected:
  Result<void> read(const std::string &bytes) {
    return GetParam().read(folder.write("hostile.pt", bytes));
  }
  void expectProblem(const std::string &bytes, const std::string &problem) {
    Result<void> done = read(bytes);
    ASSERT_FALSE(done) << problem;
    EXPECT_NE(done.error().message.find("hostile.pt"), std::string::npos);
    EXPECT_NE(done.error().message.find(problem), std::string::npos)
        << done.error().message;
  }
  Members good() { return GetParam().members(tensor()); }
  /// With one more member.
  std::string with(BuiltMember member) {
    Members members = good();
    members.push_back(std::move(member));
    return buildZip(members);
  }
  void expectPickle(const std::string &value, const std::string &problem) {
    expectProblem(buildZip(GetParam().members(value)), problem);
  }

  TemporaryFolder folder;
};

/// Tests of the formats that have a pickle.
class HostilePickles : public HostileFiles {};

TEST_P(HostileFiles, TheGoodFileIsRead) {
  auto done = read(buildZip(good()));
  EXPECT_TRUE(done) << done.error().message;
  done = read(buildZip(good(), true, true));
  EXPECT_TRUE(done) << done.error().message;
  done = read(with({good()[0].name + ".txt", "a member of no consequence"}));
  EXPECT_TRUE(done) << done.error().message;
}

TEST_P(HostileFiles, ZipSlip) {
  for (const char *name :
       {"../../etc/cron.d/x", "m/../../x", "/etc/passwd", "m\\..\\x", "C:\\x"})
    expectProblem(with({name, "x"}), "leaves the archive");
  expectProblem(with({bytesOf("m/x\0.txt"), "x"}), "leaves the archive");
}

TEST_P(HostileFiles, TwoMembersOfOneName) {
  expectProblem(with({good()[0].name, "x"}), "two members are called");
}

TEST_P(HostileFiles, OverlappingSpans) {
  // A member whose header and bytes lie in those of another, as in an archive
  // that unpacks one block many times.
  std::string inside = buildZip({{"m/in", "12"}}).substr(0, 30 + 4 + 2);
  Members members = good();
  members.insert(members.begin(), {"m/out", inside});
  EXPECT_TRUE(read(buildZip(members)));
  members.push_back({.name = "m/in", .contents = "12", .localOffset = 30 + 5});
  expectProblem(buildZip(members), "overlap");
}

TEST_P(HostileFiles, Bombs) {
  // A member that states more bytes than it can inflate to, or than the limit,
  // is not inflated.
  for (auto [shift, problem] :
       {std::pair(26, "cannot inflate to 67108864 bytes"),
        std::pair(31, "has 2147483648 bytes, where at most")}) {
    Members members = good();
    for (BuiltMember &member : members)
      if (member.deflate)
        member.statedSize = int64_t(1) << shift;
    expectProblem(buildZip(members), problem);
  }
  // Inflating stops at the stated size.
  Members members = good();
  for (BuiltMember &member : members)
    if (member.deflate) {
      std::string packed =
          deflated(member.contents + std::string(1 << 20, ' '));
      member.statedSize = static_cast<int64_t>(member.contents.size());
      member.method = 8;
      member.deflate = false;
      member.statedCompressed = static_cast<int64_t>(packed.size());
      member.contents = packed;
    }
  expectProblem(buildZip(members), "is damaged");
}

TEST_P(HostileFiles, LengthsThatOverflow) {
  std::string field = bytesOf("\1\0\x10\0");
  put(field, ~uint64_t(0) - 40, 8);
  put(field, ~uint64_t(0) - 40, 8);
  expectProblem(with({.name = "m/x",
                      .contents = "x",
                      .statedSize = 0xffffffff,
                      .statedCompressed = 0xffffffff,
                      .extra = field}),
                "goes beyond the file");
}

TEST_P(HostileFiles, HugeCounts) {
  std::string bytes = buildZip(good());
  EXPECT_TRUE(read(bytes));
  std::string count;
  put(count, 0xfffe, 2);
  expectProblem(bytes.replace(bytes.size() - 22 + 10, 2, count),
                "its directory is not where its end says");
  bytes = buildZip(good(), true, true);
  count.clear();
  put(count, uint64_t(1) << 60, 8);
  expectProblem(bytes.replace(bytes.size() - 22 - 20 - 56 + 32, 8, count),
                "its directory is not where its end says");
}

TEST_P(HostilePickles, Globals) {
  expectPickle("cos\nsystem\n" + text("true") + "\x85R", "names `os.system`");
  expectPickle("cposix\nsystem\n" + text("true") + "\x85R", "`posix.system`");
  expectPickle("cbuiltins\n__import__\n" + text("os") + "\x85R",
               "`builtins.__import__`");
  expectPickle(bytesOf("ctorch.serialization\nload\n)R"),
               "`torch.serialization.load`");
  expectPickle(text("os") + text("system") + "\x93", "opcode STACK_GLOBAL");
  expectPickle("(" + text("true") + "ios\nsystem\n", "opcode INST");
  expectPickle("(cos\nsystem\n" + text("true") + "o", "names `os.system`");
  expectPickle(bytesOf("\x82\1"), "opcode EXT1");
  // Allowed names are not functions, or do not take these arguments.
  expectPickle("ctorch\nfloat32\n)R", "calls `torch.float32`");
  expectPickle("ctorch._utils\n_rebuild_tensor_v2\nctorch\nfloat32\n\x85R",
               "with arguments that it does not take");
}

TEST_P(HostilePickles, Recursion) {
  std::string nested = "N";
  for (int i = 0; i < 100000; ++i)
    nested += "\x85";
  expectPickle(nested, "nests values more than 256 deep");
  expectPickle(bytesOf("]q\1h\1a"), "contains itself");
}

TEST_P(HostilePickles, LengthsAndCounts) {
  expectPickle(bytesOf("X\xff\xff\xff\x7f"), "is cut off");
  expectPickle(bytesOf("\x8b\xff\xff\xff\x7f"), "opcode LONG4");
  expectPickle(bytesOf("j\xff\xff\xff\x7f"), "refers to value 2147483647");
  // CVE-2026-24747: what is set is no dict.
  expectPickle("]K\1K\2s", "sets items of a list");
}

TEST_P(HostileFiles, TensorsBeyondTheirStorage) {
  auto number = [](int64_t value) {
    std::string bytes = "\x8a\x8";
    put(bytes, static_cast<uint64_t>(value), 8);
    return bytes;
  };
  int64_t huge = int64_t(1) << 62;
  auto json = [](const std::vector<int64_t> &values) {
    std::string all;
    for (int64_t value : values)
      all += (all.empty() ? "" : ", ") +
             ("{\"as_int\": " + std::to_string(value) + "}");
    return all;
  };
  auto pickled = [&](const std::vector<int64_t> &values) {
    std::string all = "(";
    for (int64_t value : values)
      all += number(value);
    return all + "t";
  };
  struct View {
    int64_t offset;
    std::vector<int64_t> sizes, strides;
    const char *problem;
  };
  const View views[] = {
      {0, {7}, {1}, "has elements beyond the 24 bytes"},
      {1, {6}, {1}, "has elements beyond"},
      {-1, {6}, {1}, "has elements beyond"},
      {0, {2}, {huge}, "has elements beyond"},
      {huge, {2}, {1}, "has elements beyond"},
      {0, {huge, 4}, {0, 0}, "has sizes that no tensor has"},
      {0, {-1}, {1}, "has sizes that no tensor has"},
      {0, {int64_t(1) << 40}, {0}, "repeats those of a storage of 24 bytes"},
      {0, {6}, {1, 1}, "has 1 sizes and 2 strides"}};
  for (const View &view : views) {
    if (GetParam().hasPickle) {
      expectPickle(tensor(number(view.offset), pickled(view.sizes),
                          pickled(view.strides)),
                   view.problem);
      continue;
    }
    Members members = good();
    members[1].contents = metaOf(json(view.sizes), json(view.strides),
                                 std::to_string(view.offset));
    expectProblem(buildZip(members), view.problem);
  }
}

std::string nameOf(const testing::TestParamInfo<Format> &info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Formats, HostileFiles, testing::ValuesIn(formats),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Formats, HostilePickles,
                         testing::Values(formats[0], formats[2]), nameOf);

TEST(HostileTorchScript, CodeOfAnyDepthAndSize) {
  TemporaryFolder folder;
  auto problemOf = [&](const std::string &code) {
    Members members = torchScript(tensor());
    members[1].contents = code;
    auto done = readTorchScript(folder.write("hostile.pt", buildZip(members)));
    return done ? std::string() : done.error().message;
  };
  std::string open(100000, '('), close(100000, ')');
  EXPECT_NE(
      problemOf("class M(Module):\n  x : int = " + open + "1" + close + "\n")
          .find("deep"),
      std::string::npos);
  EXPECT_NE(problemOf("import os\n").find("a class or a function is expected"),
            std::string::npos);
}

TEST(HostileExportedProgram, JsonOfAnyDepthAndTablesThatLeaveTheArchive) {
  TemporaryFolder folder;
  auto problemOf = [&](size_t member, const std::string &contents) {
    Members members = exported("");
    members[member].contents = contents;
    auto done = readExported(folder.write("hostile.pt", buildZip(members)));
    return done ? std::string() : done.error().message;
  };
  std::string open(100000, '['), close(100000, ']');
  EXPECT_NE(problemOf(0, open + close).find("nested more than 256"),
            std::string::npos);
  EXPECT_NE(problemOf(1, open + close).find("nested more than 256"),
            std::string::npos);
  std::string meta = goodMeta;
  meta.replace(meta.find("weight_0"), 8, "../../../../etc/passwd");
  EXPECT_NE(problemOf(1, meta).find("which the file does not hold"),
            std::string::npos);
}

/// Returns the error for a module M with these opcodes as attributes.
std::string problemOfState(const std::string &attributes,
                           const std::string &more = "") {
  Members members = torchScript("");
  members[0].contents = "\x80\2"
                        "c__torch__\nM\n)\x81}(" +
                        attributes + "ub.";
  members[1].contents += more;
  TemporaryFolder folder;
  auto archive =
      torchscript::Archive::open(folder.write("hostile.pt", buildZip(members)));
  if (!archive)
    return archive.error().message;
  torchscript::ModelState state(**archive);
  auto found = state.find();
  return found ? std::to_string(state.getEntries().size()) + " tensors"
               : found.error().message;
}

/// Shared values are created once; others count against the file's budget.
TEST(HostileTorchScript, AttributesThatShareWhatTheyHold) {
  std::string lists = text("a") + bytesOf("](K\1eq\0"),
              dicts = text("a") + bytesOf("}K\1K\2sq\0");
  for (int level = 0; level < 60; ++level) {
    std::string below(1, static_cast<char>(level)),
        here(1, static_cast<char>(level + 1));
    std::string name = text("a" + std::to_string(level));
    lists += name + "](h" + below + "h" + below + "eq" + here;
    dicts += name + "}(K\1h" + below + "K\2h" + below + "uq" + here;
  }
  EXPECT_EQ(problemOfState(lists), "0 tensors");
  EXPECT_EQ(problemOfState(dicts), "0 tensors");

  const std::string type = "class S(Module):\n  __parameters__ = [\"w\", ]\n";
  auto places = [&](int count, const std::string &weight) {
    std::string all =
        text("s") + "c__torch__\nS\n)\x81}" + text(weight) + tensor() + "sbq\1";
    for (int i = 1; i < count; ++i)
      all += text("s" + std::to_string(i)) + "h\1";
    return all;
  };
  EXPECT_EQ(problemOfState(places(40'000, "w"), type), "40000 tensors");
  const std::string budget = "takes more than 134217728 bytes of memory";
  EXPECT_NE(problemOfState(places(2000, std::string(100'000, 'w')), type)
                .find(budget),
            std::string::npos);
  std::string texts = text("a") + "(" + text(std::string(1 << 20, 't')) + "q\1";
  for (int i = 0; i < 200; ++i)
    texts += "h\1";
  EXPECT_NE(problemOfState(texts + "l").find(budget), std::string::npos);
}

} // namespace
