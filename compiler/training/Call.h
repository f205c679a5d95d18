// The little language of --loss and --optimizer: name(value, .., key=value,
// ..).

#pragma once

#include <string>
#include <utility>

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace polyrank::training {

using EmitError = llvm::function_ref<mlir::InFlightDiagnostic()>;

/// `adamw(lr=1e-3,betas=0.9:0.999)`, or a bare `adamw`.
struct Call {
  std::string name;
  llvm::SmallVector<std::string> positional;
  llvm::SmallVector<std::pair<std::string, std::string>> named;
};

/// Fails with what is wrong and what is expected. Positional arguments come
/// before named ones; no name is given twice.
mlir::FailureOr<Call> parseCall(llvm::StringRef text, EmitError emitError);

/// Named arguments, each taken by its one reader.
class NamedArguments {
public:
  NamedArguments(const Call &call, EmitError emitError)
      : call(call), emitError(emitError), rest(call.named) {}

  /// Leave the value as it is where the argument is not given.
  void take(llvm::StringRef name, double &value);
  void take(llvm::StringRef name, int64_t &value);
  void take(llvm::StringRef name, bool &value);
  /// Separated by ':'.
  void take(llvm::StringRef name, llvm::SmallVectorImpl<std::string> &value);
  void takePair(llvm::StringRef name, double &first, double &second);

  /// Fails where a value was malformed or an argument was not taken.
  mlir::LogicalResult finish();

private:
  const std::string *find(llvm::StringRef name);
  void reject(llvm::StringRef name, llvm::StringRef value,
              llvm::StringRef expected);

  const Call &call;
  EmitError emitError;
  llvm::SmallVector<std::pair<std::string, std::string>> rest;
  llvm::SmallVector<std::string> known;
  bool failed = false;
};

} // namespace polyrank::training
