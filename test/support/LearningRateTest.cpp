// Learning-rate schedules: their formulas, their ends, and the errors of
// invalid texts. test/parity/test_learning_rates.py compares whole runs with
// PyTorch's.

#include "support/LearningRate.h"

#include <cmath>
#include <gtest/gtest.h>

namespace polyrank::test {
namespace {

/// The rates of some steps, of a base of 8.
std::vector<double> ratesOf(std::string_view text,
                            std::initializer_list<uint64_t> steps) {
  auto schedule = LearningRateSchedule::parse(text);
  EXPECT_TRUE(schedule) << schedule.error().message;
  std::vector<double> rates;
  for (uint64_t step : steps)
    rates.push_back((*schedule).at(8, step));
  return rates;
}

using Rates = std::vector<double>;

TEST(LearningRate, WithoutATextIsAlwaysItsBase) {
  EXPECT_EQ(ratesOf("", {0, 1000}), (Rates{8, 8}));
  EXPECT_EQ(ratesOf("constant", {0, 1000}), (Rates{8, 8}));
  EXPECT_EQ(ratesOf(" constant ( ) ", {0}), (Rates{8}));
}

TEST(LearningRate, RisesInALineUntilTheStepBehindTheWarmUp) {
  EXPECT_EQ(ratesOf("constant(warmup=4)", {0, 1, 3, 4, 5}),
            (Rates{0, 2, 6, 8, 8}));
  EXPECT_EQ(ratesOf("constant(warmup=4,warmup_start=0.5)", {0, 1, 4}),
            (Rates{4, 5, 8}));
  EXPECT_EQ(ratesOf("constant(warmup=2, warmup_start=1/4)", {0, 1}),
            (Rates{2, 5}));
}

TEST(LearningRate, OfEachScheduleFollowsItsFormula) {
  EXPECT_EQ(ratesOf("linear(total=4,start=0.5,end=0.25)", {0, 1, 2, 4}),
            (Rates{4, 3.5, 3, 2}));
  EXPECT_EQ(ratesOf("polynomial(total=4,power=2,min=4)", {0, 2, 4}),
            (Rates{8, 5, 4}));
  EXPECT_EQ(ratesOf("cosine(total=4,min=x0.5)", {0, 2, 4}), (Rates{8, 6, 4}));
  EXPECT_EQ(ratesOf("inverse_sqrt(timescale=3)", {0, 9}), (Rates{8, 4}));
  EXPECT_EQ(ratesOf("wsd(total=10,decay=4,decay_type=linear)", {0, 6, 8, 10}),
            (Rates{8, 8, 4, 0}));
  EXPECT_EQ(ratesOf("wsd(total=10,decay=4,decay_type=1-sqrt)", {7}),
            (Rates{4}));
  EXPECT_EQ(ratesOf("exponential(gamma=0.5)", {0, 1, 3}), (Rates{8, 4, 1}));
  EXPECT_EQ(ratesOf("step(size=3,gamma=0.5)", {2, 3, 5, 6}),
            (Rates{8, 4, 4, 2}));
  EXPECT_EQ(ratesOf("one_cycle(total=11,pct_start=0.5,div_factor=4,"
                    "final_div_factor=2,anneal_strategy=linear)",
                    {0, 10}),
            (Rates{2, 1}));
}

TEST(LearningRate, BehindAWarmUpASheduleBeginsAtItsFirstStep) {
  EXPECT_EQ(ratesOf("linear(warmup=2,total=6)", {1, 2, 4, 6}),
            (Rates{4, 8, 4, 0}));
  EXPECT_EQ(ratesOf("step(warmup=2,size=3,gamma=0.5)", {2, 4, 5}),
            (Rates{8, 8, 4}));
  EXPECT_EQ(ratesOf("inverse_sqrt(warmup=4)", {4, 16}), (Rates{8, 4}));
}

// Past its end a cosine would rise again, and a one-cycle schedule fall below
// its end.
TEST(LearningRate, StaysWhereItsScheduleEnds) {
  for (std::string text :
       {"linear(total=6,end=0.5)", "polynomial(total=6,min=4)",
        "cosine(total=6,min=4)", "wsd(total=6,decay=2,min=4)",
        "one_cycle(total=6,final_div_factor=0.08)"}) {
    Rates rates = ratesOf(text, {6, 7, 9, 1000});
    for (double rate : rates)
      EXPECT_NEAR(rate, 4, 1e-12) << text;
    EXPECT_EQ((*LearningRateSchedule::parse(text)).getTotal(), 6u) << text;
  }
  EXPECT_EQ((*LearningRateSchedule::parse("step(size=6)")).getTotal(), 0u);
}

TEST(LearningRate, OfACosineWithCyclesComesUpAgain) {
  Rates rates = ratesOf("cosine(total=8,cycles=1)", {0, 4, 8});
  EXPECT_NEAR(rates[0], 8, 1e-12);
  EXPECT_NEAR(rates[1], 0, 1e-12);
  EXPECT_NEAR(rates[2], 8, 1e-12);
}

struct Wrong {
  const char *text, *message;
};
class WrongSchedules : public testing::TestWithParam<Wrong> {};

TEST_P(WrongSchedules, SayWhatIsExpected) {
  auto schedule = LearningRateSchedule::parse(GetParam().text);
  ASSERT_FALSE(schedule);
  EXPECT_NE(schedule.error().message.find(GetParam().message),
            std::string::npos)
      << schedule.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    LearningRate, WrongSchedules,
    testing::Values(
        Wrong{"cosin(total=5)", "there is no schedule 'cosin'; there are: "
                                "constant, linear, polynomial, cosine, "
                                "one_cycle, inverse_sqrt, wsd, exponential, "
                                "step; nearest: 'cosine'"},
        Wrong{"cosine(total=5", "the bracket behind 'cosine' is not closed"},
        Wrong{"cosine(5)", "cosine: '5' is not KEY=VALUE"},
        Wrong{"cosine(=5)", "cosine: '=5' is not KEY=VALUE"},
        Wrong{"cosine(total=5,total=6)", "cosine: 'total' is given twice"},
        Wrong{"cosine(min=0)", "cosine: give total=N, the number of steps of "
                               "the whole training"},
        Wrong{"cosine(totl=5,total=5)",
              "cosine: there is no option 'totl'; its options are: warmup, "
              "warmup_start, total, min, cycles; nearest: 'total'"},
        Wrong{"cosine(total=0)", "'total=0': expected a number of steps, 1 or "
                                 "more"},
        Wrong{"cosine(total=5.5)", "'total=5.5': expected a number of steps"},
        Wrong{"cosine(total=9007199254740993)", "expected a number of steps"},
        Wrong{"cosine(total=5,warmup=5)",
              "total=5 leaves no step after warmup=5"},
        Wrong{"cosine(total=5,warmup=-1)", "'warmup=-1': expected a number of "
                                           "steps"},
        Wrong{"cosine(total=5,warmup=1,warmup_start=2)",
              "'warmup_start=2': expected a factor from 0 to 1"},
        Wrong{"cosine(total=5,min=-1)", "'min=-1': expected a rate"},
        Wrong{"cosine(total=5,min=inf)", "'min=inf': expected a rate"},
        Wrong{"cosine(total=5,min=x)", "'min=x': expected a rate"},
        Wrong{"cosine(total=5,cycles=0)", "'cycles=0': expected"},
        Wrong{"linear(total=5,end=1.5)", "'end=1.5': expected a factor"},
        Wrong{"linear(total=5,end=1/0)", "'end=1/0': expected a factor"},
        Wrong{"linear(total=5,start=nan)", "'start=nan': expected a factor"},
        Wrong{"polynomial(total=5,power=-1)", "'power=-1': expected"},
        Wrong{"wsd(total=5)", "wsd: give decay=N, the last steps"},
        Wrong{"wsd(total=5,decay=6)", "decay=6 is more than the 5 steps"},
        Wrong{"wsd(total=5,decay=1,decay_type=sine)",
              "'decay_type=sine': expected one of cosine, linear, 1-sqrt"},
        Wrong{"exponential", "exponential: give gamma=X"},
        Wrong{"exponential(gamma=0)", "'gamma=0': expected"},
        Wrong{"step(gamma=0.5)", "step: give size=N"},
        Wrong{"step(size=0)", "'size=0': expected"},
        Wrong{"inverse_sqrt(timescale=0)", "'timescale=0': expected"},
        Wrong{"one_cycle(total=10,pct_start=0.1)", "pct_start is one step"},
        Wrong{"one_cycle(total=10,pct_start=2)", "'pct_start=2': expected"},
        Wrong{"one_cycle(total=10,cycle_momentum=true)",
              "cycle_momentum=true: the momentum stays"}));

} // namespace
} // namespace polyrank::test
