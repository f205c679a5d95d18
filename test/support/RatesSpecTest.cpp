// The text of --rates.

#include <gtest/gtest.h>

#include "support/RatesSpec.h"

using namespace polyrank;

namespace {

TEST(RatesSpec, HasBothRatesInAnyOrder) {
  for (const char *text :
       {"compute=120,memory=16", "memory=16,compute=120", "120:16"}) {
    auto rates = RatesSpec::parse(text);
    ASSERT_TRUE(rates) << rates.error().message;
    EXPECT_EQ(rates->gigaflops, 120) << text;
    EXPECT_EQ(rates->gigabytes, 16) << text;
  }
}

TEST(RatesSpec, HasTheRatesOfNarrowProducts) {
  auto rates = RatesSpec::parse("bf16=240,compute=120,f16=0.5,memory=16");
  ASSERT_TRUE(rates) << rates.error().message;
  EXPECT_EQ(rates->gigaflops, 120);
  EXPECT_EQ(rates->gigabytes, 16);
  using Rate = std::pair<ElementType, double>;
  EXPECT_EQ(rates->narrow, (std::vector<Rate>{{ElementType::BF16, 240},
                                              {ElementType::F16, 0.5}}));
  EXPECT_TRUE(RatesSpec::parse("compute=120,memory=16")->narrow.empty());
}

TEST(RatesSpec, IsRefusedWithItsForm) {
  for (const char *text :
       {"", "fast", "120", "120:", "120:16:1", "compute=120",
        "compute=120,reads=16", "compute=120,compute=16",
        "compute=120,memory=16,memory=16", "compute=120,memory=much",
        "compute=120,bf16=240", "compute=120,memory=16,bf16=240,bf16=1",
        "compute=120,memory=16,f32=1", "compute=120,memory=16,f64=1",
        "compute=120,memory=16,bf16=fast"}) {
    auto rates = RatesSpec::parse(text);
    ASSERT_FALSE(rates) << text;
    EXPECT_EQ(rates.error().message,
              "'" + std::string(text) +
                  "' is not compute=GFLOPS,memory=GB_PER_S, as in "
                  "compute=120,memory=16");
  }
}

TEST(RatesSpec, HasLimits) {
  for (const char *text : {"1e-3:1e-3", "1e7:1e6"})
    EXPECT_TRUE(RatesSpec::parse(text)) << text;
  for (const char *text :
       {"9e-4:1", "1.1e7:1", "1:9e-4", "1:1.1e6", "nan:1", "1:nan", "-1:1",
        "compute=0,memory=1", "compute=1,memory=1,bf16=0",
        "compute=1,memory=1,f16=1.1e7"}) {
    auto rates = RatesSpec::parse(text);
    ASSERT_FALSE(rates) << text;
    EXPECT_EQ(rates.error().message,
              "'" + std::string(text) +
                  "': from 1e-3 to 1e7 GFLOP/s and from 1e-3 to 1e6 GB/s are "
                  "possible");
  }
}

} // namespace
