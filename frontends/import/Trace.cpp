// Python stack traces, which exporters keep for each node.

#include "frontends/import/Trace.h"

#include <tuple>

#include "support/Names.h"

using namespace llvm;

namespace polyrank::frontends {

SmallVector<Frame> framesOf(StringRef trace) {
  SmallVector<Frame> frames;
  StringRef line;
  while (!trace.empty()) {
    std::tie(line, trace) = trace.split('\n');
    line = line.trim();
    if (line.consume_front("File \"")) {
      auto [file, where] = line.split('"');
      frames.push_back({file, where.split(", in ").second, ""});
    } else if (!frames.empty() && frames.back().source.empty()) {
      frames.back().source = line;
    }
  }
  return frames;
}

bool isOfRegion(ArrayRef<Frame> frames) {
  return !frames.empty() && frames.back().file.starts_with("<eval_with_key>") &&
         frames.back().source.contains("torch.ops.");
}

StringRef functionOf(ArrayRef<Frame> frames) {
  for (size_t i = 0; i + 1 < frames.size(); ++i) {
    size_t call = frames[i].source.find(".apply(");
    if (call == StringRef::npos)
      continue;
    // Between the two there may be frames of PyTorch itself that call forward.
    size_t next = i + 1;
    while (next + 1 < frames.size() &&
           frames[next].file.ends_with("autograd_function.py"))
      ++next;
    if (frames[next].function != "forward")
      continue;
    StringRef before = frames[i].source.take_front(call);
    size_t start = before.find_last_not_of(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    return start == StringRef::npos ? before : before.drop_front(start + 1);
  }
  return "";
}

std::string warnOfRegion(const std::vector<std::string> &leaving) {
  return "a part of the model was exported as a graph of its own, as "
         "torch.no_grad(), torch.autocast() and checkpointing make one; the "
         "file does not say which, and its gradient is computed. What leaves "
         "it: " +
         groupNames(leaving) + ". Where it is no_grad(), add --detach '" +
         leaving[0] + "'" + (leaving.size() > 1 ? " and so on" : "") +
         ", or write .detach() in the model";
}

std::string warnOfFunction(const std::string &name,
                           const std::vector<std::string> &leaving) {
  return "the backward of the autograd.Function `" + name +
         "` is not in the file: the gradient is that of the ops of its "
         "forward. What it gives: " +
         groupNames(leaving) +
         ". Where its backward passes nothing on, add --detach '" + leaving[0] +
         "'; a straight-through estimator is written x + (f(x) - "
         "x).detach()";
}

} // namespace polyrank::frontends
