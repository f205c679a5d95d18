// The syntax of --stage: PATTERN=K.
//
//   transformer.h.[0-5].*=0     the modules 0 to 5, with all that is in them
//   lm_head=3                   a module, or an op by its name
//
// PATTERN is a glob over the names of modules and ops. Leading modules may be
// left out.

#pragma once

#include <string>
#include <vector>

#include "mlir/IR/Operation.h"
#include "support/Result.h"
#include "llvm/ADT/StringMap.h"

namespace polyrank::stages {

class StagePattern {
public:
  /// On failure the error says what is wrong and gives an example.
  static Result<StagePattern> parse(llvm::StringRef text, int64_t stages);

  /// Returns true if the pattern names the op or a module that contains it.
  bool matches(mlir::Operation *op);

  /// The text that the user wrote.
  const std::string &getText() const { return text; }
  const std::string &getGlob() const { return glob; }
  int64_t getStage() const { return stage; }

private:
  bool matchesModule(llvm::StringRef name) const;

  std::string text, glob;
  int64_t stage = 0;
  llvm::StringMap<bool> scopes; // results of earlier queries
};

/// Returns for each of `ops` the index of the last pattern that names it, or
/// -1. Emits an error if a pattern names none of them, or if an op would be on
/// an earlier stage than an op that it depends on. `ops` are listed with
/// operands first.
mlir::FailureOr<std::vector<int>>
findPatterns(mlir::Operation *root, llvm::ArrayRef<mlir::Operation *> ops,
             llvm::MutableArrayRef<StagePattern> patterns);

} // namespace polyrank::stages
