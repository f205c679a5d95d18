// The plan verifier: images of kernels, and what programs, launches and calls
// take from them.

#include "test/runtime/plan/Lies.h"

namespace polyrank::runtime::test {
namespace {

ImageT &imageOf(PlanT &plan, int number = 0) { return *plan.images[number]; }

ImageT &addImage(PlanT &plan) {
  plan.images.push_back(testImage());
  return *plan.images.back();
}

const Lie lies[] = {
    {"noImage", [](PlanT &p) { p.images.clear(); }, "has no image of kernels"},
    {"manyImages",
     [](PlanT &p) {
       while (p.images.size() <= 64)
         addImage(p).bytes.resize(1);
     },
     "has 65 images of kernels; at most 64 are possible"},
    {"unknownTarget", [](PlanT &p) { addImage(p).target = "abacus"; },
     "image 1: target 'abacus' does not exist; there are: cpu, cuda"},
    {"unknownFormat", [](PlanT &p) { addImage(p).format = ImageFormat(7); },
     "image 1: the target 'cpu' has no images of format 7"},
    {"kernelsWithoutBytes", [](PlanT &p) { imageOf(p).bytes.clear(); },
     "image 0: names 7 kernels and has no bytes"},
    {"fewerKernels", [](PlanT &p) { addImage(p).symbols.pop_back(); },
     "image 1: has 6 kernels, and the first image for 'cpu' has 7"},
    {"moreKernels", [](PlanT &p) { addImage(p).symbols.push_back("more"); },
     "image 1: has 8 kernels, and the first image for 'cpu' has 7"},
    {"programWithoutImage", [](PlanT &p) { programOf(p).target = "abacus"; },
     "runs on the target 'abacus', for which there is no image"},
    {"denormals", [](PlanT &p) { p.denormals = Denormals(2); },
     "denormals 2 do not exist"},
    {"negativeDenormals", [](PlanT &p) { p.denormals = Denormals(-1); },
     "denormals -1 do not exist"},
};

class Images : public testing::TestWithParam<Lie> {};

TEST_P(Images, AreRefusedWhereTheyAreWrong) { expectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(VerifyImages, Images, testing::ValuesIn(lies),
                         [](const auto &info) { return info.param.name; });

TEST(VerifyImages, AcceptsSeveralOfOneTarget) {
  PlanT plan = goodPlan();
  addImage(plan).requirements->features = {"avx9000"};
  expectAccepted(plan);
}

TEST(VerifyImages, AcceptsOneWithoutKernelsAndBytes) {
  PlanT plan = goodPlan();
  imageOf(plan).symbols.clear();
  imageOf(plan).bytes.clear();
  for (auto &segment : programOf(plan).segments)
    std::erase_if(segment->commands, [](const auto &command) {
      return command->body.AsLaunch() != nullptr;
    });
  expectAccepted(plan);
}

TEST(VerifyImages, RefusesLaunchesOfATypeThatDoesNotExist) {
  std::vector<uint8_t> bytes = serialise(goodPlan());
  const Launch *launch = GetPlan(bytes.data())
                             ->programs()
                             ->Get(0)
                             ->segments()
                             ->Get(firstSegment)
                             ->commands()
                             ->Get(2)
                             ->body_as_Launch();
  // The builder writes no body of such a type, so its type is changed.
  auto *type = const_cast<uint8_t *>(
      reinterpret_cast<const flatbuffers::Table *>(launch)->GetAddressOf(
          Launch::VT_BODY_TYPE));
  ASSERT_EQ(*type, uint8_t(LaunchBody::CpuLaunch));
  for (uint8_t other : {0, 9}) {
    *type = other;
    auto verified = verifyPlan(bytes);
    ASSERT_FALSE(verified);
    EXPECT_EQ(verified.error().message,
              "segment 'first', command 2 (Launch, loss): a launch of type " +
                  std::to_string(other) +
                  ", where the target 'cpu' has CpuLaunch");
  }
}

/// A second target: it has kernels that are launched with no data, and no
/// library calls.
std::vector<PlanTarget> twoTargets() {
  static constexpr ImageFormat formats[] = {ImageFormat(7)};
  std::vector<PlanTarget> targets(planTargets().begin(), planTargets().end());
  targets.push_back({"abacus", formats, LaunchBody::NONE, {}});
  return targets;
}

ImageT &addAbacus(PlanT &plan) {
  ImageT &image = addImage(plan);
  image.target = "abacus";
  image.format = ImageFormat(7);
  return image;
}

std::string refusalWithTwoTargets(const PlanT &plan) {
  std::vector<PlanTarget> targets = twoTargets();
  auto verified = verifyPlan(serialise(plan), targets);
  return verified ? "" : verified.error().message;
}

TEST(VerifyImages, AcceptsOtherTargetsWithOtherKernels) {
  PlanT plan = goodPlan();
  addAbacus(plan).symbols.pop_back();
  EXPECT_EQ(refusalWithTwoTargets(plan), "");
}

TEST(VerifyImages, RefusesAFormatOfAnotherTarget) {
  PlanT plan = goodPlan();
  addAbacus(plan).format = ImageFormat::elf;
  EXPECT_EQ(refusalWithTwoTargets(plan),
            "image 1: the target 'abacus' has no images of format 0");
}

TEST(VerifyImages, RefusesALaunchForAnotherTargetThanTheProgram) {
  PlanT plan = goodPlan();
  addAbacus(plan);
  programOf(plan).target = "abacus";
  for (auto &segment : programOf(plan).segments)
    std::erase_if(segment->commands, [](const auto &command) {
      return command->body.AsCall() != nullptr;
    });
  EXPECT_NE(refusalWithTwoTargets(plan).find(
                "(Launch, loss): a launch of type 1, where the target 'abacus' "
                "has NONE"),
            std::string::npos)
      << refusalWithTwoTargets(plan);
}

TEST(VerifyImages, RefusesACallForAnotherTargetThanTheProgram) {
  PlanT plan = goodPlan();
  addAbacus(plan);
  programOf(plan).target = "abacus";
  for (auto &segment : programOf(plan).segments)
    std::erase_if(segment->commands, [](const auto &command) {
      return command->body.AsLaunch() != nullptr;
    });
  EXPECT_NE(refusalWithTwoTargets(plan).find(
                "the target 'abacus' has no calls of type 1"),
            std::string::npos)
      << refusalWithTwoTargets(plan);
}

} // namespace
} // namespace polyrank::runtime::test
