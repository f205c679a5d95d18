// A build without UCX says so by name.

#include "runtime/comm/net/Ucx.h"
#include "test/runtime/comm/net/WirePair.h"

namespace polyrank::runtime::net {
namespace {

TEST(WithoutUcx, WhoeverWantsItIsToldTheWaysOut) {
  test::Rank rank;
  std::array<uint8_t, 32> key{};
  auto made =
      createUcxWire({}, JobKey(key), Descriptor(), rank.bell.get(), rank);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, loadUcx().error().message);
  for (const char *part :
       {"--wire ucx", "was built without UCX", "libucx-dev", "--wire tcp"})
    EXPECT_NE(made.error().message.find(part), std::string::npos) << part;
}

} // namespace
} // namespace polyrank::runtime::net
