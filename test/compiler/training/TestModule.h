// Helpers that parse, evaluate and compare modules.

#pragma once

#include <gtest/gtest.h>

#include "compiler/evaluate/Evaluator.h"
#include "compiler/training/Autodiff.h"
#include "dialects/graph/Graph.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

namespace polyrank::training {

class TrainingTest : public ::testing::Test {
protected:
  TrainingTest() {
    context.loadDialect<graph::GraphDialect, sharding::ShardingDialect,
                        mlir::func::FuncDialect>();
  }

  mlir::OwningOpRef<mlir::ModuleOp> parse(llvm::StringRef text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text.str();
    return module;
  }

  /// Runs the pass. Returns its diagnostics; "" if it succeeds.
  std::string run(mlir::ModuleOp module, std::unique_ptr<mlir::Pass> pass) {
    std::string messages;
    mlir::ScopedDiagnosticHandler handler(
        &context, [&](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
            messages += diagnostic.str() + "\n";
        });
    mlir::PassManager manager(&context);
    manager.addPass(std::move(pass));
    if (mlir::failed(manager.run(module)) && messages.empty())
      messages = "failed without a message";
    return messages;
  }

  static mlir::func::FuncOp function(mlir::ModuleOp module,
                                     llvm::StringRef name = "forward") {
    return module.lookupSymbol<mlir::func::FuncOp>(name);
  }

  static llvm::SmallVector<graph::Tensor>
  evaluate(mlir::func::FuncOp function,
           llvm::ArrayRef<graph::Tensor> arguments) {
    auto results = evaluate::evaluateGlobal(function, arguments);
    EXPECT_TRUE(mlir::succeeded(results));
    return mlir::succeeded(results) ? *results
                                    : llvm::SmallVector<graph::Tensor>();
  }

  /// `tolerance`: relative, 1e-9 for programs with the same constants.
  static void expectEqual(llvm::ArrayRef<graph::Tensor> left,
                          llvm::ArrayRef<graph::Tensor> right,
                          double tolerance = evaluate::roundingTolerance) {
    ASSERT_EQ(left.size(), right.size());
    for (size_t i = 0; i < left.size(); ++i) {
      std::string reason;
      EXPECT_TRUE(evaluate::agree(left[i], right[i], reason, tolerance))
          << "result " << i << ": " << reason;
    }
  }

  static void returnValues(mlir::func::FuncOp function,
                           mlir::ValueRange values) {
    function.getBody().front().getTerminator()->setOperands(values);
    function.setType(mlir::FunctionType::get(
        function.getContext(), function.getArgumentTypes(), values.getTypes()));
  }

  static llvm::SmallVector<mlir::Value>
  floatArguments(mlir::func::FuncOp function) {
    return llvm::to_vector(llvm::make_filter_range(
        mlir::ValueRange(function.getArguments()), [](mlir::Value value) {
          return llvm::isa<mlir::FloatType>(
              llvm::cast<mlir::RankedTensorType>(value.getType())
                  .getElementType());
        }));
  }

  /// Makes the function return the gradients of its result.
  void differentiate(mlir::func::FuncOp function) {
    mlir::Operation *terminator = function.getBody().front().getTerminator();
    mlir::OpBuilder builder(terminator);
    mlir::Value root = terminator->getOperand(0);
    mlir::Value seed =
        graph::SeedOp::create(builder, builder.getUnknownLoc(), root.getType(),
                              builder.getF64FloatAttr(1));
    auto gradients =
        buildGradients(builder, root, seed, floatArguments(function));
    ASSERT_TRUE(mlir::succeeded(gradients));
    for (mlir::Value gradient : *gradients)
      ASSERT_TRUE(gradient);
    returnValues(function, *gradients);
    ASSERT_TRUE(mlir::succeeded(mlir::verify(function)));
  }

  mlir::MLIRContext context;
};

} // namespace polyrank::training
