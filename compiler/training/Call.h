// The syntax of --loss and --optimizer: name(value, .., key=value, ..), and
// sums of such calls.

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

/// Parses a call. Errors say what is wrong and what is expected. Positional
/// arguments come before named ones; no name may be given twice. Commas within
/// brackets do not separate arguments: `betas=(0.9,0.95)`. A bare word in
/// `flags` means that name with the value `true`.
mlir::FailureOr<Call> parseCall(llvm::StringRef text, EmitError emitError,
                                llvm::ArrayRef<llvm::StringRef> flags = {});

/// A call with its weight in a sum.
struct WeightedCall {
  double weight = 1;
  Call call;
  std::string text; // of the call alone
};

/// Parses `cross_entropy(a,ya)+0.5*mse(b,yb)`: at least one term. Weights are
/// finite numbers before or after their call (`mse(b,yb)/2`).
mlir::FailureOr<llvm::SmallVector<WeightedCall>> parseSum(llvm::StringRef text,
                                                          EmitError emitError);

/// The named arguments of a call. Each is taken once, by the code that reads
/// it.
class NamedArguments {
public:
  NamedArguments(const Call &call, EmitError emitError)
      : call(call), emitError(emitError), rest(call.named) {}

  /// These leave `value` unchanged if the argument is not given.
  void take(llvm::StringRef name, double &value);
  void take(llvm::StringRef name, int64_t &value);
  void take(llvm::StringRef name, std::optional<int64_t> &value);
  void take(llvm::StringRef name, bool &value);
  /// Takes a word, in quotes or not; None leaves `value` unchanged.
  void take(llvm::StringRef name, std::string &value);
  /// Takes words that are separated by ':'.
  void take(llvm::StringRef name, llvm::SmallVectorImpl<std::string> &value);
  /// Takes numbers: 0.2:1:3, Python's (0.2,1,3), or FILE.npy with a row of
  /// numbers.
  void take(llvm::StringRef name, llvm::SmallVectorImpl<double> &value);
  /// Takes 0.9:0.999, or Python's (0.9,0.999).
  void takePair(llvm::StringRef name, double &first, double &second);
  /// Takes as many numbers as `values` has; None leaves its entry unchanged.
  /// `example` ends the error message.
  void takeTuple(llvm::StringRef name, llvm::MutableArrayRef<double> values,
                 llvm::StringRef example);
  /// Sets a prefix that is put before all names that are taken from now on.
  void setPrefix(llvm::StringRef prefix) { this->prefix = prefix.str(); }
  /// Removes an argument; returns true if it was given and is not False or
  /// None. Messages do not list it as an option.
  bool drop(llvm::StringRef name);

  /// Fails if a value was malformed or an argument was not taken; `hint` ends
  /// the message on the latter.
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
