// Separates names of the user's model from the compiler's own.

#include "dialects/graph/ParameterSymbols.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace polyrank::graph {

static constexpr StringRef mark = "parameter:";

/// Matches `forward`, `step`, the program `step_1` of a pipeline's stage,
/// `kernel`, and `kernel.add_mul`.
static bool isCompilers(StringRef name) {
  for (StringRef function : {"forward", "step"})
    if (StringRef rest = name; rest.consume_front(function))
      if (rest.empty() || (rest.consume_front("_") && all_of(rest, isDigit)))
        return true;
  return name.consume_front("kernel") &&
         (name.empty() || name.starts_with("."));
}

std::string symbolOf(StringRef name) {
  bool isMarked = isCompilers(name) || name.starts_with(mark);
  return (isMarked ? mark : StringRef()).str() + name.str();
}

StringRef nameOf(StringRef symbol) {
  symbol.consume_front(mark);
  return symbol;
}

} // namespace polyrank::graph
