// The little language of --loss and --optimizer: name(value, .., key=value,
// ..), and sums of such calls.

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
/// before named ones; no name is given twice. Commas within brackets separate
/// nothing: `betas=(0.9,0.95)`. A bare word that is one of `flags` is that name
/// with the value `true`.
mlir::FailureOr<Call> parseCall(llvm::StringRef text, EmitError emitError,
                                llvm::ArrayRef<llvm::StringRef> flags = {});

/// A call with its weight in a sum.
struct WeightedCall {
  double weight = 1;
  Call call;
  std::string text; // of the call alone
};

/// `cross_entropy(a,ya)+0.5*mse(b,yb)`: at least one term. Weights are finite
/// numbers in front of their call or behind it (`mse(b,yb)/2`).
mlir::FailureOr<llvm::SmallVector<WeightedCall>> parseSum(llvm::StringRef text,
                                                          EmitError emitError);

/// Named arguments, each taken by its one reader.
class NamedArguments {
public:
  NamedArguments(const Call &call, EmitError emitError)
      : call(call), emitError(emitError), rest(call.named) {}

  /// Leave the value as it is where the argument is not given.
  void take(llvm::StringRef name, double &value);
  void take(llvm::StringRef name, int64_t &value);
  void take(llvm::StringRef name, std::optional<int64_t> &value);
  void take(llvm::StringRef name, bool &value);
  /// A word, in quotes or not; None leaves it as it is.
  void take(llvm::StringRef name, std::string &value);
  /// Separated by ':'.
  void take(llvm::StringRef name, llvm::SmallVectorImpl<std::string> &value);
  /// 0.2:1:3, as Python writes it, (0.2,1,3), or a file that holds them as a
  /// row, FILE.npy.
  void take(llvm::StringRef name, llvm::SmallVectorImpl<double> &value);
  /// 0.9:0.999, or as Python writes it: (0.9,0.999).
  void takePair(llvm::StringRef name, double &first, double &second);
  /// Of a few numbers, of which None leaves what is there. `example` is the
  /// end of the message where they are none.
  void takeTuple(llvm::StringRef name, llvm::MutableArrayRef<double> values,
                 llvm::StringRef example);
  /// What `take` takes has names that begin with this, in front of those given.
  void setPrefix(llvm::StringRef prefix) { this->prefix = prefix.str(); }
  /// Whether the argument is given, as something else than False or None. It is
  /// no option that messages list.
  bool drop(llvm::StringRef name);

  /// Fails where a value was malformed or an argument was not taken; `hint`
  /// ends the message on the latter.
  mlir::LogicalResult finish(llvm::StringRef hint = "");

private:
  const std::string *find(llvm::StringRef name);
  void reject(llvm::StringRef name, llvm::StringRef value,
              llvm::StringRef expected);

  const Call &call;
  EmitError emitError;
  llvm::SmallVector<std::pair<std::string, std::string>> rest;
  llvm::SmallVector<std::string> known;
  std::string prefix;
  bool failed = false;
};

} // namespace polyrank::training
