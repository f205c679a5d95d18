// Finds the stages that the user's patterns choose.

#include "compiler/stages/StagePatterns.h"

#include <set>

#include "dialects/graph/NamePattern.h"
#include "dialects/graph/Provenance.h"
#include "mlir/IR/Diagnostics.h"
#include "support/KeyValue.h"
#include "support/Names.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::stages;

Result<StagePattern> StagePattern::parse(StringRef text, int64_t stages) {
  StagePattern pattern;
  pattern.text = text.trim().str();
  auto fail = [&](const Twine &reason) {
    return Error{("--stage '" + pattern.text + "': " + reason).str()};
  };
  constexpr PairForm form{"PATTERN=STAGE", "'transformer.h.[0-5].*=0'"};
  auto pair = parsePair(pattern.text, form, Separator::Last);
  auto number = pair ? integerOf(pair->value) : std::nullopt;
  if (!number || *number < 0)
    return Error{"--stage: " + notPair(pattern.text, form).message};
  StringRef glob = pair->key;
  pattern.stage = *number;
  if (std::string reason = graph::explainPattern(glob); !reason.empty())
    return fail("not a glob: " + reason);
  if (pattern.stage >= stages)
    return fail("there is no stage " + Twine(pattern.stage) +
                "; the stages are 0 to " + Twine(stages - 1));
  pattern.glob = glob.str();
  return pattern;
}

/// Both `h.*` and `h` name everything inside module `h`.
bool StagePattern::matchesModule(StringRef name) const {
  StringRef module = glob;
  return graph::matchesName(glob, name) ||
         (module.consume_back(".*") && !module.empty() &&
          graph::matchesName(module, name));
}

bool StagePattern::matches(Operation *op) {
  StringRef scope = graph::getScope(op);
  auto [known, isNew] = scopes.try_emplace(scope, false);
  if (isNew)
    for (StringRef prefix = scope; !prefix.empty();
         prefix = prefix.contains('.') ? prefix.rsplit('.').first : "")
      known->second |= matchesModule(prefix);
  return known->second || graph::matchesName(glob, graph::getUserName(op));
}

/// The error that a pattern names nothing.
static LogicalResult refuseName(Operation *root, ArrayRef<Operation *> ops,
                                const StagePattern &pattern) {
  std::set<std::string> names;
  for (Operation *op : ops) {
    names.insert(graph::getUserName(op));
    for (StringRef prefix = graph::getScope(op); !prefix.empty();
         prefix = prefix.contains('.') ? prefix.rsplit('.').first : "")
      names.insert(prefix.str());
  }
  std::vector<std::string> list(names.begin(), names.end());
  return emitError(root->getLoc())
         << "--stage '" << pattern.getText() << "' matches no module or op"
         << nearestNames(pattern.getGlob(), list);
}

FailureOr<std::vector<int>>
polyrank::stages::findPatterns(Operation *root, ArrayRef<Operation *> ops,
                               MutableArrayRef<StagePattern> patterns) {
  std::vector<int> result(ops.size(), -1);
  std::vector<bool> isUsed(patterns.size());
  for (auto [i, op] : llvm::enumerate(ops))
    for (auto [p, pattern] : llvm::enumerate(patterns))
      if (pattern.matches(op)) {
        result[i] = static_cast<int>(p);
        isUsed[p] = true;
      }
  for (auto [p, pattern] : llvm::enumerate(patterns))
    if (!isUsed[p])
      return refuseName(root, ops, pattern);
  // For each op, the op on the highest stage among those that it depends on.
  llvm::DenseMap<Operation *, size_t> highest;
  auto stageOf = [&](size_t op) { return patterns[result[op]].getStage(); };
  for (auto [i, op] : llvm::enumerate(ops)) {
    std::optional<size_t> most;
    for (Value operand : op->getOperands())
      if (auto found = highest.find(operand.getDefiningOp());
          found != highest.end() &&
          (!most || stageOf(found->second) > stageOf(*most)))
        most = found->second;
    if (result[i] >= 0) {
      if (most && stageOf(*most) > stageOf(i))
        return emitError(op->getLoc())
               << "--stage '" << patterns[result[i]].getText() << "' puts "
               << graph::describe(op) << " on stage " << stageOf(i)
               << ", but it depends on " << graph::describe(ops[*most])
               << ", which --stage '" << patterns[result[*most]].getText()
               << "' puts on stage " << stageOf(*most)
               << "; values go to later stages only";
      most = i;
    }
    if (most)
      highest[op] = *most;
  }
  return result;
}
