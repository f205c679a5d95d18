// Devices are made by the target of a program, with the best image that this
// machine can run.

#include "runtime/device/MakeDevice.h"

#include "runtime/device/DeviceAccess.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cpu/OneDnn.h"
#include "test/runtime/PlanBuilder.h"
#include "test/runtime/PlanParts.h"

#include <gtest/gtest.h>
#include <numeric>

namespace polyrank::runtime::test {
namespace {

using Strings = std::vector<std::string>;

/// Built plans, which nobody verified.
class MakeDeviceTest : public testing::Test {
protected:
  PlanT built = linearPlan({});
  std::vector<uint8_t> bytes;

  const Plan &plan() {
    bytes = serialise(built);
    return *GetPlan(bytes.data());
  }
  const Image &image(uint32_t number) { return *plan().images()->Get(number); }
  std::string refusal() {
    const Plan &packed = plan();
    auto device =
        makeDevice(packed, *packed.programs()->Get(0), makeTeam(packed));
    return device ? "" : device.error().message;
  }
  /// Adds an image with kernels that this machine cannot run.
  ImageT &addForeign(int place, const std::string &machine) {
    auto image = testImage();
    image->requirements->machine = machine;
    image->requirements->features = {"avx9000"};
    image->bytes = {1, 2, 3}; // no ELF image: loading it is an error
    return **built.images.insert(built.images.begin() + place,
                                 std::move(image));
  }
  /// Runs the kernel `difference` on the device, and returns 7 - 3.
  float difference() {
    LaunchT launch =
        test::launch(Kernel::difference, 1,
                     {BufferRef(0, 4, 0, 0, 0, 0, 0, Region::Private),
                      BufferRef(4, 4, 0, 0, 0, 0, 0, Region::Private)},
                     {BufferRef(8, 4, 0, 0, 0, 0, 0, Region::Private)});
    built.programs[0]->segments[0]->commands[0]->body.Set(std::move(launch));
    const Plan &packed = plan();
    const Program &program = *packed.programs()->Get(0);
    auto device = makeDevice(packed, program, makeTeam(packed));
    if (!device) {
      ADD_FAILURE() << device.error().message;
      return 0;
    }
    alignas(64) float memory[] = {7, 3, 0};
    ArenaView arena{
        {},
        DeviceAccess::spanOf(std::as_writable_bytes(std::span(memory))),
        {}};
    auto operation = (*device)->prepare(
        *program.segments()->Get(0)->commands()->Get(0)->body_as_Launch(),
        arena);
    EXPECT_TRUE(operation);
    EXPECT_TRUE((*device)->enqueue(**operation, {}, {}));
    return memory[2];
  }
};

TEST_F(MakeDeviceTest, ThatRunsTheImagesOfItsTarget) {
  EXPECT_EQ(difference(), 4);
}

TEST_F(MakeDeviceTest, ThatTakesTheFirstImageThatThisMachineRuns) {
  addForeign(0, "x86-64-v9");
  EXPECT_EQ(difference(), 4) << "the second one";
  std::swap(built.images[0], built.images[1]);
  EXPECT_EQ(difference(), 4) << "the first one";
  built.images[1]->requirements->features = {};
  EXPECT_EQ(difference(), 4) << "the first one of two that run";
  std::swap(built.images[0], built.images[1]);
  EXPECT_NE(refusal(), "") << "the first one, which is no ELF image";
}

TEST_F(MakeDeviceTest, ThatTakesNoImageOfAnotherTarget) {
  addForeign(0, "").target = "abacus";
  built.images[0]->requirements->features = {};
  EXPECT_EQ(difference(), 4);
}

TEST_F(MakeDeviceTest, WhichFailsIfThisMachineRunsNoImage) {
  built.images.clear();
  addForeign(0, "x86-64-v9");
  addForeign(1, "x86-64-v8").requirements->features = {"sse2", "+avx8000",
                                                       "-avx512f"};
  std::string message =
      "the plan's kernels were compiled for CPU 'x86-64-v9' and need avx9000, "
      "which this CPU lacks; others were compiled for CPU 'x86-64-v8' and need "
      "+avx8000, which this CPU lacks: compile again here, or with --cpu "
      "x86-64-v3";
  EXPECT_EQ(refusal(), message);
  auto checked = checkDevices(plan());
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message, message);
  // Without kernels there is nothing that a machine could lack.
  for (auto &image : built.images)
    image->symbols.clear();
  EXPECT_EQ(refusal(), "");
}

TEST_F(MakeDeviceTest, WhichFailsForATargetThatThisProgramLacks) {
  built.programs[0]->target = "abacus";
  built.images[0]->target = "abacus";
  built.images.push_back(testImage());
  built.images.push_back(testImage());
  std::string message =
      "the plan is for abacus; this polyrank-run has cpu: compile the model "
      "again for that, or use a polyrank-run that was built with abacus";
  EXPECT_EQ(refusal(), message);
  auto checked = checkDevices(plan());
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message, message);
  auto libraries = librariesOf(plan());
  ASSERT_FALSE(libraries);
  EXPECT_EQ(libraries.error().message, message);
}

TEST_F(MakeDeviceTest, OrOnlyChecksThatItCouldBeMade) {
  auto checked = checkDevices(plan());
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(*checked, Strings{"x86-64"});
  built.images[0]->bytes = {1, 2, 3};
  EXPECT_FALSE(checkDevices(plan()));
}

TEST_F(MakeDeviceTest, WhoseLibrariesAreThoseOfItsCalls) {
  auto libraries = librariesOf(plan());
  ASSERT_TRUE(libraries);
  EXPECT_EQ(*libraries, Strings{oneDnnLibrary});
  auto &commands = built.programs[0]->segments[0]->commands;
  // A call in a loop is one too.
  LoopT loop;
  loop.count = 1;
  loop.commands.push_back(std::move(commands[1]));
  commands[1] = command(std::move(loop), "loop");
  for (auto &segment : built.programs[0]->segments)
    std::erase_if(segment->commands, [](const auto &each) {
      return each->body.AsCall() != nullptr;
    });
  libraries = librariesOf(plan());
  ASSERT_TRUE(libraries);
  EXPECT_EQ(*libraries, Strings{oneDnnLibrary});
  commands[1]->body.AsLoop()->commands.clear();
  libraries = librariesOf(plan());
  ASSERT_TRUE(libraries);
  EXPECT_EQ(*libraries, Strings());
}

TEST_F(MakeDeviceTest, OnATeamWithThePlansDenormals) {
  for (Denormals mode : {Denormals::flush, Denormals::keep}) {
    built.denormals = mode;
    const Plan &packed = plan();
    makeTeam(packed)->parallelFor(1, 1, [&](int64_t, int64_t) {
      volatile float tiny = 1e-38f;
      EXPECT_EQ(tiny * 0.01f == 0, mode == Denormals::flush);
    });
  }
}

} // namespace
} // namespace polyrank::runtime::test
