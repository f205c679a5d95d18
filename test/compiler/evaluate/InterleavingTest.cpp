// Programs that run one at a time.

#include "compiler/evaluate/Interleaving.h"

#include "mlir/IR/BuiltinOps.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace polyrank::evaluate;

namespace {

class InterleavingTest : public testing::Test {
protected:
  InterleavingTest() { context.printOpOnDiagnostic(false); }

  /// Runs three programs that each print their number four times, and yield to
  /// the others in between.
  std::string talk(std::optional<uint64_t> seed) {
    Interleaving interleaving(3, seed);
    std::string said;
    EXPECT_TRUE(succeeded(interleaving.run([&](size_t program) {
      for (int i = 0; i < 4; ++i) {
        said += std::to_string(program);
        if (failed(interleaving.pause(program)))
          return failure();
      }
      return success();
    })));
    return said;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> op{ModuleOp::create(UnknownLoc::get(&context), "here")};
};

TEST_F(InterleavingTest, WithoutASeedEachRunsUntilItWaits) {
  EXPECT_EQ(talk(std::nullopt), "000011112222");
  int count = 0;
  Interleaving interleaving(2, std::nullopt);
  std::string said;
  EXPECT_TRUE(succeeded(interleaving.run([&](size_t program) {
    for (int i = 0; i < 3; ++i) {
      if (failed(interleaving.await(program, *op, "", [&] {
            return count % 2 == static_cast<int>(program);
          })))
        return failure();
      said += std::to_string(program);
      ++count;
    }
    return success();
  })));
  EXPECT_EQ(said, "010101");
}

TEST_F(InterleavingTest, ASeedFixesTheOrder) {
  bool differ = false;
  for (uint64_t seed = 1; seed < 8; ++seed) {
    EXPECT_EQ(talk(seed), talk(seed)) << seed;
    differ |= talk(seed) != talk(0);
  }
  EXPECT_TRUE(differ);
}

TEST_F(InterleavingTest, AllThatWaitForeverAreNamed) {
  std::string said;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    said = diagnostic.str();
    for (Diagnostic &note : diagnostic.getNotes())
      said += "; " + note.str();
    return success();
  });
  Interleaving interleaving(3, std::nullopt);
  EXPECT_TRUE(failed(interleaving.run([&](size_t program) {
    return program == 1 ? success()
                        : interleaving.await(program, *op,
                                             std::to_string(program) + " waits",
                                             [] { return false; });
  })));
  EXPECT_EQ(said, "'builtin.module' op is where all wait for each other: 0 "
                  "waits; 2 waits");
}

TEST_F(InterleavingTest, OneThatFailsEndsThoseThatWait) {
  std::string said;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    said += diagnostic.str();
    return success();
  });
  Interleaving interleaving(2, std::nullopt);
  bool isOver = false;
  EXPECT_TRUE(failed(interleaving.run([&](size_t program) -> LogicalResult {
    if (program == 1)
      return failure();
    isOver = failed(interleaving.await(program, *op, "", [] { return false; }));
    return failure();
  })));
  EXPECT_TRUE(isOver);
  EXPECT_EQ(said, "");
}

} // namespace
