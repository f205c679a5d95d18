// The calls that begin and end a region of torch.vmap.

#include "frontends/exported_program/Transforms.h"

#include "frontends/aten/Batched.h"
#include "test/frontends/aten/Program.h"

namespace polyrank::test {
namespace {

class TransformCalls : public OperatorTest {
protected:
  Value run(llvm::StringRef name, llvm::ArrayRef<Value> arguments = {}) {
    return transforms.run(name, arguments);
  }
  bool refuses(llvm::StringRef name, const aten::Keywords &keywords = {}) {
    return transforms.refusesToDraw(name, keywords);
  }

  frontends::exported_program::Transforms transforms{operators};
};

TEST_F(TransformCalls, ATensorEntersAndLeaves) {
  EXPECT_TRUE(run("lazy_load_decompositions").isNone());
  EXPECT_TRUE(
      run("_vmap_increment_nesting", {Value(2), Value(std::string("error"))})
          .isNone());
  Value inside = run("_add_batch_dim", {x, Value(0), Value(1)});
  EXPECT_TRUE(aten::asBatched(inside));
  Value outside =
      run("_remove_batch_dim", {inside, Value(1), Value(2), Value(1)});
  EXPECT_EQ(outside.getTensor()->getShape(), Shape({3, 2}));
  EXPECT_TRUE(run("_vmap_decrement_nesting").isNone());
  EXPECT_EQ(reasons(), "");
}

TEST_F(TransformCalls, OtherCallsAndOtherArgumentsAreRefused) {
  EXPECT_TRUE(run("_vmap_decrement_nesting").isUnknown()); // none is open
  EXPECT_TRUE(run("_add_batch_dim", {x, Value(0)}).isUnknown());
  EXPECT_TRUE(run("_add_batch_dim", {x, Value(0), Value(0.5)}).isUnknown());
  EXPECT_TRUE(
      run("_remove_batch_dim", {x, Value(1), Value(), Value(0)}).isUnknown());
  EXPECT_TRUE(run("_grad_increment_nesting").isUnknown());
  std::string said = reasons();
  for (const char *name : {"_vmap_decrement_nesting", "_add_batch_dim",
                           "_remove_batch_dim", "_grad_increment_nesting"})
    EXPECT_NE(said.find("torch._functorch.predispatch." + std::string(name) +
                        " of a function that is transformed (torch.func) is "
                        "not supported; PyTorch can decompose the region"),
              std::string::npos)
        << said;
}

TEST_F(TransformCalls, WhatIsUnknownStaysSoWithoutAReason) {
  EXPECT_TRUE(run("_add_batch_dim", {Value::unknown(), Value(0), Value(1)})
                  .isUnknown());
  EXPECT_EQ(reasons(), "");
}

TEST_F(TransformCalls, NumbersAreDrawnOutsideOfRegions) {
  EXPECT_FALSE(refuses("aten::rand"));
  run("_vmap_increment_nesting", {Value(2), Value(std::string("same"))});
  EXPECT_FALSE(refuses("aten::add"));
  EXPECT_FALSE(refuses("aten::dropout", {{"train", Value(false)}}));
  EXPECT_EQ(reasons(), "");
  EXPECT_TRUE(refuses("aten::rand"));
  EXPECT_TRUE(refuses("aten::bernoulli_"));
  EXPECT_TRUE(
      refuses("aten::dropout_", {{"p", Value(0.5)}, {"train", Value(true)}}));
  EXPECT_FALSE(
      refuses("aten::dropout", {{"p", Value(0.0)}, {"train", Value(true)}}));
  EXPECT_FALSE(refuses("aten::scaled_dot_product_attention"));
  EXPECT_TRUE(refuses("aten::scaled_dot_product_attention",
                      {{"dropout_p", Value(0.1)}}));
  options.dropout = 0.5;
  EXPECT_TRUE(refuses("aten::scaled_dot_product_attention"));
  EXPECT_TRUE(refuses("aten::dropout", {{"train", Value(false)}}));
  run("_vmap_decrement_nesting");
  EXPECT_FALSE(refuses("aten::rand"));
}

} // namespace
} // namespace polyrank::test
