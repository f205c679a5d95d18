// A test fixture with a function to which PyTorch's operators add ops.

#pragma once

#include <gtest/gtest.h>

#include "frontends/aten/Operators.h"
#include "frontends/import/ModuleBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::test {

using namespace polyrank::frontends;
using aten::Value;

class OperatorTest : public testing::Test {
protected:
  OperatorTest() : context(load()), builder(context, "model.pt2", 1 << 20) {}

  static mlir::MLIRContext &load() {
    static mlir::MLIRContext context;
    context.loadDialect<mlir::func::FuncDialect, graph::GraphDialect>();
    return context;
  }

  void SetUp() override {
    // One input of floats and one of integers.
    mlir::OpBuilder b(&context);
    builder.createFunction(
        {},
        {{"x", mlir::RankedTensorType::get({2, 3}, b.getF32Type()), {}, false},
         {"i",
          mlir::RankedTensorType::get({2, 3}, b.getI64Type()),
          {},
          false}});
    x = tensor(builder.getInput(0), ElementType::F32);
    i = tensor(builder.getInput(1), ElementType::I64);
  }

  static Value tensor(Imported contents, ElementType type) {
    return std::make_shared<aten::Tensor>(std::move(contents), type);
  }
  /// Returns a tensor of known integers.
  Value known(llvm::ArrayRef<int64_t> values) {
    return tensor(builder.getEmitter().integers(values), ElementType::I64);
  }

  Value call(llvm::StringRef name, llvm::ArrayRef<Value> arguments,
             const aten::Keywords &keywords = {},
             std::optional<llvm::StringRef> overload = std::nullopt) {
    return aten::call(operators, name, overload, arguments, keywords);
  }
  /// Returns the reasons of all failures so far.
  std::string reasons() {
    std::vector<UnsupportedNodes> all;
    (void)failures.report(builder.getLocation(), &all);
    std::string text;
    for (const UnsupportedNodes &each : all)
      text += each.reason + "\n";
    return text;
  }
  /// Returns the only element of a known tensor.
  double number(const Value &value) {
    Imported elements = value.getTensor()->read(builder.getEmitter());
    EXPECT_TRUE(elements.isConstant());
    return elements.constant->at(0);
  }
  std::vector<int64_t> integers(const Value &value) {
    return value.getTensor()->read(builder.getEmitter()).constant->integers;
  }

  mlir::MLIRContext &context;
  ModuleBuilder builder;
  ImportOptions options;
  Failures failures;
  aten::Context operators{
      builder.getEmitter(), options, failures, "`node`", 0, 0};
  Value x, i;
};

} // namespace polyrank::test
