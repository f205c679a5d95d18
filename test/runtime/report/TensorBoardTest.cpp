// Event files: their frames to the byte, and their names in order.

#include "runtime/report/TensorBoard.h"
#include "test/support/TemporaryFolder.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

TEST(Crc32c, IsThatOfTheStandard) { // RFC 3720, B.4
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

/// Builds a record as TensorFlow's documentation of the format defines it.
std::string recordOf(const std::string &data) {
  auto word = [](auto value) {
    return std::string(reinterpret_cast<const char *>(&value), sizeof(value));
  };
  auto masked = [&](const std::string &bytes) {
    uint32_t crc = crc32c(bytes);
    return word(((crc >> 15) | (crc << 17)) + 0xa282ead8);
  };
  std::string length = word(uint64_t(data.size()));
  return length + masked(length) + data + masked(data);
}

std::vector<std::string> recordsIn(const std::string &text) {
  std::vector<std::string> records;
  for (size_t at = 0; at < text.size();) {
    uint64_t length = 0;
    std::memcpy(&length, text.data() + at, 8);
    records.push_back(text.substr(at + 12, length));
    EXPECT_EQ(text.substr(at, length + 16), recordOf(records.back()));
    at += length + 16;
  }
  return records;
}

/// Returns a message without its first field, wall_time (9 bytes).
std::string withoutTime(const std::string &event) {
  EXPECT_EQ(event[0], '\x09');
  return event.substr(9);
}

TEST(EventFile, HoldsVersionStartAndScalars) {
  TemporaryFolder folder;
  std::string runs = folder.path("runs");
  auto events = EventFile::create(runs, 5);
  ASSERT_TRUE(events) << events.error().message;
  std::vector<std::pair<std::string, double>> scalars{{"a", 1.0}, {"b", -2.0}};
  ASSERT_TRUE(events->add(300, scalars));
  std::string name = events->path().substr(folder.path("").size());
  EXPECT_EQ(name.find("runs/events.out.tfevents."), 0u);
  auto records = recordsIn(folder.read(name));
  ASSERT_EQ(records.size(), 3u);
  // file_version = 3, a string.
  EXPECT_EQ(withoutTime(records[0]), std::string("\x1a\x0d") + "brain.Event:2");
  // step = 2, session_log = 7 with status = 1: START.
  EXPECT_EQ(withoutTime(records[1]), "\x10\x05\x3a\x02\x08\x01");
  // summary = 5 with value = 1, each with tag = 1 and simple_value = 2.
  EXPECT_EQ(withoutTime(records[2]), std::string("\x10\xac\x02\x2a\x14", 5) +
                                         std::string("\x0a\x08\x0a\x01"
                                                     "a\x15\x00\x00\x80\x3f",
                                                     10) +
                                         std::string("\x0a\x08\x0a\x01"
                                                     "b\x15\x00\x00\x00\xc0",
                                                     10));
}

TEST(EventFile, IsLaterByNameThanAllThatAreThere) {
  TemporaryFolder folder;
  folder.write("events.out.tfevents.9999999990.elsewhere.1.0", "");
  std::vector<std::string> paths;
  for (int i = 0; i < 3; ++i) {
    auto events = EventFile::create(folder.path(""), 1);
    ASSERT_TRUE(events) << events.error().message;
    paths.push_back(events->path());
  }
  EXPECT_NE(paths[0].find("tfevents.9999999991."), std::string::npos);
  EXPECT_NE(paths[2].find("tfevents.9999999993."), std::string::npos);
  EXPECT_EQ(folder.count(), 4u);
}

TEST(EventFile, IsRefusedWhereThereCanBeNone) {
  TemporaryFolder folder;
  folder.write("file", "x");
  for (const char *wrong : {"file", "none/runs"}) {
    auto events = EventFile::create(folder.path(wrong), 1);
    ASSERT_FALSE(events);
    EXPECT_EQ(events.error().message.find("--tensorboard"), 0u);
  }
  EXPECT_EQ(folder.count(), 1u);
}

} // namespace
} // namespace polyrank::runtime::test
