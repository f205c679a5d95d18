// CUDA's assembler: what its report and its errors say, and architectures.

#include "compiler/target/cuda/Assembler.h"

#include <gtest/gtest.h>

#include "compiler/target/cuda/Architecture.h"

using namespace polyrank;
using namespace polyrank::cuda;

namespace {

TEST(Assembler, ReportsWhatEachKernelTakes) {
  auto reports = parseReports(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'kernel_one' for 'sm_90a'\n"
      "ptxas info    : Function properties for kernel_one\n"
      "    16 bytes stack frame, 24 bytes spill stores, 28 bytes spill loads\n"
      "ptxas info    : Used 30 registers, used 1 barriers, 16 bytes cumulative "
      "stack size, 1024 bytes smem\n"
      "ptxas info    : Compile time = 10.905 ms\n"
      "ptxas info    : Compiling entry function 'kernel_two' for 'sm_90a'\n"
      "ptxas info    : Function properties for kernel_two\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 8 registers, used 0 barriers\n");
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports["kernel_one"].registers, 30);
  EXPECT_EQ(reports["kernel_one"].stackBytes, 16);
  EXPECT_EQ(reports["kernel_one"].spillStores, 24);
  EXPECT_EQ(reports["kernel_one"].spillLoads, 28);
  EXPECT_EQ(reports["kernel_one"].sharedBytes, 1024);
  EXPECT_EQ(reports["kernel_two"].registers, 8);
  EXPECT_EQ(reports["kernel_two"].spillStores, 0);
  EXPECT_EQ(reports["kernel_two"].sharedBytes, 0);
}

TEST(Assembler, NamesTheLineOfItsFirstError) {
  EXPECT_EQ(lineOfFailure("ptxas /tmp/sm_90a.ptx, line 47; error   : Unknown "
                          "symbol 'a'"),
            47);
  EXPECT_EQ(lineOfFailure("ptxas fatal   : Value 'sm_100a' is not defined"), 0);
}

TEST(Architecture, ListsAreReadInTheirOrder) {
  auto read = parseArchitectures("sm_100a, sm_80");
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, (std::vector<std::string>{"sm_100a", "sm_80"}));
  EXPECT_TRUE(parseArchitectures(defaultArchitectures));
}

std::string refusal(llvm::StringRef list) {
  auto read = parseArchitectures(list);
  return read ? "" : read.error().message;
}

TEST(Architecture, UnknownOnesAreRefused) {
  EXPECT_NE(refusal("sm_75").find("is older than sm_80"), std::string::npos);
  EXPECT_NE(refusal("sm_91").find("there is no architecture 'sm_91'; there "
                                  "are: sm_80"),
            std::string::npos);
  EXPECT_NE(refusal("sm_91").find("sm_90"), std::string::npos);
  EXPECT_NE(refusal("").find("there is no architecture ''"), std::string::npos);
  EXPECT_EQ(refusal("sm_80,sm_80"), "names the architecture 'sm_80' twice");
}

} // namespace
