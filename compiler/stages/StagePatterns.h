// The little language of --stage: PATTERN=K.
//
//   transformer.h.[0-5].*=0     the modules 0 to 5, with all that is in them
//   lm_head=3                   a module, or an op by its name
//
// PATTERN is a glob over modules and ops in which leading modules may be left
// out.

#pragma once

#include <string>
#include <vector>

#include "mlir/IR/Operation.h"
#include "support/Result.h"
#include "llvm/ADT/StringMap.h"

namespace polyrank::stages {

class StagePattern {
public:
  /// Fails with what is wrong and an example.
  static Result<StagePattern> parse(llvm::StringRef text, int64_t stages);

  /// Whether it names the op or a module that the op is in.
  bool matches(mlir::Operation *op);

  /// As the user wrote it.
  const std::string &getText() const { return text; }
  const std::string &getGlob() const { return glob; }
  int64_t getStage() const { return stage; }

private:
  bool matchesModule(llvm::StringRef name) const;

  std::string text, glob;
  int64_t stage = 0;
  llvm::StringMap<bool> scopes; // those asked about before
};

/// For each of `ops` the last pattern that names it; -1: none. Emits an error
/// where a pattern names none of them, or an op would be on a stage below that
/// of an op that it depends on. `ops` are in an order with operands in front.
mlir::FailureOr<std::vector<int>>
findPatterns(mlir::Operation *root, llvm::ArrayRef<mlir::Operation *> ops,
             llvm::MutableArrayRef<StagePattern> patterns);

} // namespace polyrank::stages
