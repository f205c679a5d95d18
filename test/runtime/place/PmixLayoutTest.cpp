// Our part of PMIx's interface against its own headers, where these are
// installed, and the refusals of an exchange without a launcher.

#include "runtime/place/PmixLayout.h"
#include "runtime/place/Pmix.h"

#include <gtest/gtest.h>

#ifdef POLYRANK_TEST_PMIX
#include <pmix.h>
#endif

namespace polyrank::runtime::test {
namespace {

#ifdef POLYRANK_TEST_PMIX
TEST(PmixLayout, ItIsThatOfTheHeaders) {
  EXPECT_EQ(sizeof(pmix::Process), sizeof(pmix_proc_t));
  EXPECT_EQ(offsetof(pmix::Process, rank), offsetof(pmix_proc_t, rank));
  EXPECT_EQ(sizeof(pmix::Value), sizeof(pmix_value_t));
  EXPECT_EQ(offsetof(pmix::Value, string), offsetof(pmix_value_t, data));
  EXPECT_EQ(sizeof(pmix::Info), sizeof(pmix_info_t));
  EXPECT_EQ(offsetof(pmix::Info, flags), offsetof(pmix_info_t, flags));
  EXPECT_EQ(offsetof(pmix::Info, value), offsetof(pmix_info_t, value));
  EXPECT_EQ(pmix::everyRank, PMIX_RANK_WILDCARD);
  EXPECT_EQ(pmix::toAll, PMIX_GLOBAL);
  EXPECT_EQ(pmix::typeBool, PMIX_BOOL);
  EXPECT_EQ(pmix::typeString, PMIX_STRING);
  EXPECT_EQ(pmix::typeInt, PMIX_INT);
  EXPECT_STREQ(pmix::collectData, PMIX_COLLECT_DATA);
  EXPECT_STREQ(pmix::timeout, PMIX_TIMEOUT);
  EXPECT_EQ(PMIX_SUCCESS, 0);
}
#endif

TEST(PmixExchange, WithoutALauncherItFailsAndNamesTheWayOut) {
  PmixExchange exchange(2);
  Result<std::vector<std::string>> texts = exchange.gather("x");
  ASSERT_FALSE(texts);
  EXPECT_NE(texts.error().message.find("--machines N --machine I"),
            std::string::npos)
      << texts.error().message;
}

} // namespace
} // namespace polyrank::runtime::test
