// Finds the lines of the user's source.

#include "frontends/import/Source.h"

using namespace mlir;

namespace polyrank::frontends {

Location sourceOf(MLIRContext *context, StringRef trace) {
  // Frames are `  File "model.py", line 12, in forward`, the innermost last.
  Location source = UnknownLoc::get(context);
  while (!trace.empty()) {
    auto [before, frame] = trace.rsplit("File \"");
    auto [file, rest] = frame.split('"');
    unsigned line = 0;
    if (rest.consume_front(", line ") && !rest.consumeInteger(10, line)) {
      bool isTorch =
          file.contains("/site-packages/torch/") || file.starts_with("torch/");
      if (!isTorch || isa<UnknownLoc>(source))
        source = FileLineColLoc::get(context, file, line, 0);
      if (!isTorch)
        break;
    }
    trace = frame.empty() ? StringRef() : before;
  }
  return source;
}

} // namespace polyrank::frontends
