// Sizes from text.

#include "support/Bytes.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

TEST(Bytes, HaveAUnit) {
  for (auto [text, bytes] : {std::pair("1B", uint64_t(1)),
                             {"2KB", 2000},
                             {"500MB", 500'000'000},
                             {"5GB", 5'000'000'000},
                             {"1tb", 1'000'000'000'000},
                             {"3KiB", 3 << 10},
                             {"7mib", 7 << 20},
                             {"2GiB", uint64_t(2) << 30},
                             {"1TIB", uint64_t(1) << 40},
                             {"1048576TiB", uint64_t(1) << 60}}) {
    Result<uint64_t> parsed = parseBytes(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(*parsed, bytes) << text;
  }
  for (const char *text :
       {"", "5", "GB", "0GB", "-1GB", "1.5GB", "5 GB", "5GBs", "5XB",
        "1048577TiB", "99999999999999999999GB", "18446744073709551615KB"})
    EXPECT_FALSE(parseBytes(text)) << text;
}

} // namespace
} // namespace polyrank::runtime::test
