// The reader of zip archives: the contents of valid ones, and one invalid
// archive for each check.

#include "support/ZipFile.h"

#include "test/support/TemporaryFolder.h"
#include "test/support/ZipBuilder.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

Result<ZipFile> openZip(const TemporaryFolder &folder,
                        const std::string &bytes) {
  POLYRANK_ASSIGN(file, InputFile::open(folder.write("a.zip", bytes)));
  return ZipFile::open(std::make_shared<InputFile>(std::move(file)),
                       "an archive");
}

std::string textOf(const std::vector<std::byte> &bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

void expectProblem(const std::string &bytes, const std::string &problem) {
  TemporaryFolder folder;
  auto zip = openZip(folder, bytes);
  ASSERT_FALSE(zip) << problem;
  EXPECT_NE(
      zip.error().message.find("a.zip: not an archive that can be read: "),
      std::string::npos)
      << zip.error().message;
  EXPECT_NE(zip.error().message.find(problem), std::string::npos)
      << zip.error().message;
}

std::string replaced(std::string bytes, size_t at, uint64_t value, int size) {
  std::string field;
  put(field, value, size);
  return bytes.replace(at, size, field);
}

constexpr size_t endSize = 22, locatorSize = 20, end64Size = 56;

TEST(ZipFile, StoredAndDeflatedMembersAreRead) {
  TemporaryFolder folder;
  std::string many(10000, 'x');
  for (auto [wide, escaped] : {std::pair(false, false), std::pair(true, false),
                               std::pair(true, true)}) {
    auto zip = openZip(
        folder,
        buildZip({{"m/data/0", "weights"},
                  {.name = "m/code.py", .contents = many, .deflate = true},
                  {.name = "empty", .contents = ""},
                  {.name = "padded",
                   .contents = "p",
                   .localExtra = std::string("FB\4\0zzzz", 8)}},
                 wide, escaped));
    ASSERT_TRUE(zip) << zip.error().message;
    ASSERT_EQ(zip->members().size(), 4u);
    const ZipMember *data = zip->find("m/data/0");
    ASSERT_TRUE(data);
    EXPECT_TRUE(data->isStored());
    EXPECT_EQ(data->offset, 30u + 8);
    for (auto [name, content] :
         {std::pair("m/data/0", std::string("weights")),
          std::pair("m/code.py", many), std::pair("empty", std::string()),
          std::pair("padded", std::string("p"))}) {
      auto bytes = zip->read(*zip->find(name));
      ASSERT_TRUE(bytes) << bytes.error().message;
      EXPECT_EQ(textOf(*bytes), content);
    }
    EXPECT_EQ(zip->find("m"), nullptr);
  }
}

TEST(ZipFile, SizesOf64BitsAreTakenFromTheirField) {
  TemporaryFolder folder;
  std::string field = std::string("\1\0\x10\0", 4);
  put(field, 7, 8);
  put(field, 7, 8);
  auto zip = openZip(folder, buildZip({{.name = "a",
                                        .contents = "weights",
                                        .statedSize = 0xffffffff,
                                        .statedCompressed = 0xffffffff,
                                        .extra = field}}));
  ASSERT_TRUE(zip) << zip.error().message;
  EXPECT_EQ(textOf(*zip->read(*zip->find("a"))), "weights");
}

TEST(ZipFile, AnArchiveInAnArchiveIsRead) {
  TemporaryFolder folder;
  auto outer = openZip(
      folder,
      buildZip({{"first", "1"}, {"in.pt", buildZip({{"a", "inner"}})}}));
  ASSERT_TRUE(outer) << outer.error().message;
  const ZipMember *member = outer->find("in.pt");
  auto inner =
      ZipFile::open(outer->file(), "an archive", member->offset, member->size);
  ASSERT_TRUE(inner) << inner.error().message;
  EXPECT_EQ(textOf(*inner->read(*inner->find("a"))), "inner");
  // Its members lie in the file of both.
  EXPECT_GT(inner->find("a")->offset, member->offset);
}

TEST(ZipFile, AnAmbiguousDirectoryIsAnError) {
  std::string one = buildZip({{"a", "weights"}});
  size_t end = one.size() - endSize;
  expectProblem(one.substr(0, one.size() - 1), "no end record");
  expectProblem(replaced(one, end + 4, 1, 2), "several parts");
  expectProblem(replaced(one, end + 16, 0xffffffff, 4), "no zip64 end record");
  expectProblem(replaced(one, end + 16, 1, 4), "not where its end says");
  expectProblem(replaced(one, end + 10, 3, 2), "not where its end says");
  expectProblem(replaced(one, end + 10, 0, 2), "longer than its entries");
  std::string two = buildZip({{"a", "weights"}, {"b", "weights"}});
  expectProblem(replaced(two, two.size() - endSize + 10, 1, 2),
                "longer than its entries");
  size_t entry = two.size() - endSize - 2 * (46 + 1);
  expectProblem(replaced(two, entry, 0, 4), "directory is malformed");
  expectProblem(replaced(two, entry + 46 + 1 + 28, 2, 2),
                "directory is malformed");

  std::string wide = buildZip({{"a", "weights"}}, true, true);
  size_t record = wide.size() - endSize - locatorSize - end64Size;
  expectProblem(replaced(wide, record, 0, 4), "no zip64 end record");
  expectProblem(replaced(wide, record + end64Size + 8, 1, 8),
                "no zip64 end record");
  expectProblem(replaced(wide, record + 48, ~0ull, 8),
                "not where its end says");
  expectProblem(replaced(buildZip({{"a", "weights"}}, true), record + 32, 0, 8),
                "end records disagree");
  // Every proper prefix of an archive is refused, without a crash.
  TemporaryFolder folder;
  for (size_t length = 0; length < wide.size(); ++length)
    EXPECT_FALSE(openZip(folder, wide.substr(0, length))) << length;
}

TEST(ZipFile, AMemberThatIsNotWhatTheDirectorySaysIsAnError) {
  expectProblem(buildZip({{"a", "1"}, {"a", "1"}}),
                "two members are called 'a'");
  expectProblem(buildZip({{.name = "a", .contents = "1", .flags = 1}}),
                "'a' is encrypted");
  expectProblem(buildZip({{.name = "a", .contents = "1", .localName = "b"}}),
                "the two headers of 'a' disagree");
  expectProblem(
      buildZip({{.name = "a", .contents = "1", .localOffset = 1 << 30}}),
      "'a' lies outside the file");
  expectProblem(buildZip({{.name = "a",
                           .contents = "1",
                           .statedSize = 1000,
                           .statedCompressed = 1000}}),
                "'a' goes beyond the file");
  expectProblem(buildZip({{.name = "a", .contents = "123", .statedSize = 2}}),
                "'a' has two sizes");
  expectProblem(buildZip({{.name = "a",
                           .contents = "1",
                           .extra = std::string("\2\0\x10\0", 4)}}),
                "malformed extra field");
  expectProblem(buildZip({{.name = "a",
                           .contents = "1",
                           .statedSize = 0xffffffff,
                           .extra = std::string("\1\0\4\0zzzz", 8)}}),
                "malformed zip64 field");
  // The second member's bytes begin within those of the first.
  std::string inner = buildZip({{"b", "12"}}).substr(0, 30 + 1 + 2);
  expectProblem(buildZip({{"a", inner},
                          {.name = "b", .contents = "12", .localOffset = 31}}),
                "'a' and 'b' overlap");
}

TEST(ZipFile, ANameThatLeavesTheArchiveIsAnError) {
  for (std::string name :
       {"../a", "m/../../a", "m/..", "/etc/passwd", "..", "m\\a", ""})
    expectProblem(buildZip({{name, "1"}}), "leaves the archive");
  expectProblem(buildZip({{std::string("a\0b", 3), "1"}}),
                "leaves the archive");
  TemporaryFolder folder;
  EXPECT_TRUE(openZip(folder, buildZip({{"m/..a/b..", "1"}})));
}

TEST(ZipFile, AContentThatIsNotWhatTheArchiveStatesIsAnError) {
  std::string many(5000, 'x');
  int64_t size = many.size();
  struct Row {
    BuiltMember member;
    const char *problem;
    uint64_t limit = UINT64_MAX;
  };
  const Row rows[] = {
      {{.name = "a", .contents = many, .badChecksum = true}, "is damaged"},
      {{.name = "a", .contents = many, .deflate = true, .badChecksum = true},
       "is damaged"},
      {{.name = "a", .contents = many, .deflate = true, .statedSize = size - 1},
       "is damaged"},
      {{.name = "a", .contents = many, .deflate = true, .statedSize = size + 1},
       "is damaged"},
      {{.name = "a", .contents = many, .method = 8}, "is damaged"},
      {{.name = "a", .contents = many, .deflate = true, .statedSize = 1 << 30},
       "cannot inflate to 1073741824 bytes"},
      {{.name = "a", .contents = many, .method = 12},
       "is compressed by method 12"},
      {{.name = "a", .contents = many + many}, "at most 9999 are read", 9999}};
  for (const Row &row : rows) {
    TemporaryFolder folder;
    auto zip = openZip(folder, buildZip({row.member}));
    ASSERT_TRUE(zip) << zip.error().message;
    auto content = zip->read(zip->members()[0], row.limit);
    ASSERT_FALSE(content) << row.problem;
    EXPECT_NE(content.error().message.find(row.problem), std::string::npos)
        << content.error().message;
  }
}

/// The bytes read of all members together are bounded by the file's budget; the
/// file may be a thousand times smaller.
TEST(ZipFile, MembersTogetherInflateToNoMoreThanTheBudget) {
  TemporaryFolder folder;
  std::string many(40 << 20, 'x');
  std::vector<BuiltMember> members;
  for (const char *name : {"a", "b", "c", "d"})
    members.push_back({.name = name, .contents = many, .deflate = true});
  auto zip = openZip(folder, buildZip(members));
  ASSERT_TRUE(zip) << zip.error().message;
  for (const char *name : {"a", "b", "c"})
    EXPECT_TRUE(zip->read(*zip->find(name)));
  auto last = zip->read(*zip->find("d"));
  ASSERT_FALSE(last);
  EXPECT_NE(last.error().message.find(
                "a.zip, 'd': has 41943040 bytes, and takes more than 134217728 "
                "bytes of memory with what was read before, which is the most "
                "that is made of a file of "),
            std::string::npos)
      << last.error().message;
  EXPECT_EQ(zip->budget()->getLeft(), Budget::least - 3 * (40 << 20));
}

TEST(Budget, IsASmallMultipleOfTheFile) {
  EXPECT_EQ(Budget(0).getAll(), Budget::least);
  EXPECT_EQ(Budget(uint64_t(1) << 30).getAll(), Budget::perByte << 30);
  EXPECT_EQ(Budget(UINT64_MAX).getAll(), UINT64_MAX);
  Budget budget(0);
  EXPECT_FALSE(budget.take(Budget::least + 1));
  EXPECT_TRUE(budget.take(Budget::least));
  EXPECT_FALSE(budget.take(1));
}

} // namespace
} // namespace polyrank::runtime::test
