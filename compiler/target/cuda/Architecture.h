// The architectures of NVIDIA's GPUs for which there is machine code.

#pragma once

#include <string>
#include <vector>

#include "support/Result.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::cuda {

/// An architecture, by the name that `ptxas` and LLVM give it.
struct Architecture {
  llvm::StringLiteral name;
  /// The compute capability times ten: 90 for sm_90 and sm_90a.
  int capability;
  /// The version of PTX that LLVM writes for it by default, times ten. The
  /// driver must be able to read it.
  int ptxVersion;
};

/// That of the PTX that plans have, which GPUs of all later architectures
/// compile: code for an architecture such as sm_90a runs on no other one.
inline constexpr llvm::StringLiteral oldestArchitecture = "sm_80";

/// Those of a plan whose user names none.
inline constexpr llvm::StringLiteral defaultArchitectures = "sm_90a,sm_100a";

/// All architectures, oldest first.
llvm::ArrayRef<Architecture> architectures();

/// Returns null if there is none of this name.
const Architecture *findArchitecture(llvm::StringRef name);

/// Reads a list such as "sm_90a,sm_100a". Fails if one is unknown, too old for
/// bf16 and maxima that keep NaN, or named twice.
Result<std::vector<std::string>> parseArchitectures(llvm::StringRef list);

} // namespace polyrank::cuda
