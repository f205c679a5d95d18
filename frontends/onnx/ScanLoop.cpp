// Scans that become a single op, because all iterations are alike.

#include "frontends/emit/Scan.h"
#include "frontends/onnx/GraphImporter.h"
#include "frontends/onnx/Origin.h"

using namespace mlir;
using namespace polyrank::frontends;
using namespace polyrank::frontends::onnx;

/// Returns true if nothing in the body is random, is a loop, or changes a
/// parameter: a scan can contain none of these.
static bool mayBeLooped(const Model &model, const Graph &body) {
  static constexpr StringRef others[] = {"LSTM",
                                         "GRU",
                                         "RNN",
                                         "Dropout",
                                         "Bernoulli",
                                         "Multinomial",
                                         "RandomNormal",
                                         "RandomUniform",
                                         "RandomNormalLike",
                                         "RandomUniformLike",
                                         "BatchNormalization"};
  return llvm::none_of(body.nodes, [&](const Node &node) {
    return isControlFlow(node.domain, node.type) || model.findFunction(node) ||
           llvm::is_contained(others, StringRef(node.type));
  });
}

std::optional<SmallVector<Imported>> GraphImporter::importScanAsLoop(
    const Node &node, const Graph &body, ArrayRef<Imported> carried,
    ArrayRef<ScannedSequence> sequences, bool isBackward, const Scope &scope,
    Place place) {
  if (!mayBeLooped(model, body) ||
      llvm::any_of(carried, [](const Imported &x) { return !x || x.sequence; }))
    return std::nullopt;
  // A scan of known values is evaluated at import.
  auto isKnown = [](const Imported &x) { return bool(x.constant); };
  if (llvm::all_of(carried, isKnown) &&
      llvm::all_of(sequences, [&](const ScannedSequence &sequence) {
        return isKnown(sequence.tensor);
      }))
    return std::nullopt;
  // A body that needs a carried value to be known, such as a counter, is
  // unrolled instead; the failed attempt leaves no trace.
  Failures before = failures;
  int64_t nodesBefore = importedNodes;
  SmallVector<Imported> given;
  std::vector<Imported> of;
  for (const ScannedSequence &sequence : sequences) {
    SmallVector<int64_t> permutation = {sequence.dim};
    for (int64_t d = 0; d < sequence.tensor.getRank(); ++d)
      if (d != sequence.dim)
        permutation.push_back(d);
    of.push_back(sequence.dim == 0
                     ? sequence.tensor
                     : emit.transpose(sequence.tensor, permutation));
  }
  auto iterate = [&](ArrayRef<Imported> elements,
                     ArrayRef<Imported> now) -> std::optional<Scanned> {
    SmallVector<Imported> arguments(now);
    llvm::append_range(arguments, elements);
    for (auto [i, argument] : llvm::enumerate(arguments))
      argument.held = i < carried.size()
                          ? carried[i].held
                          : sequences[i - carried.size()].tensor.held;
    auto results = importGraph(node, body, arguments, scope, place);
    bool isLoop = results && llvm::none_of(*results, [](const Imported &x) {
                    return x.sequence != nullptr;
                  });
    for (auto [i, value] : llvm::enumerate(now))
      isLoop = isLoop && (*results)[i].getType() == value.getType();
    if (!isLoop)
      return std::nullopt;
    given.assign(results->begin(), results->end());
    Scanned turn;
    turn.carried.assign(given.begin(), given.begin() + now.size());
    turn.stacks.assign(given.begin() + now.size(), given.end());
    return turn;
  };
  std::optional<Scanned> all = scan(emit, of, carried, isBackward, iterate);
  if (!all) {
    failures = std::move(before);
    importedNodes = nodesBefore;
    emit.takeError();
    return std::nullopt;
  }
  SmallVector<Imported> results(all->carried.begin(), all->carried.end());
  llvm::append_range(results, all->stacks);
  for (auto [result, turn] : llvm::zip_equal(results, given))
    result.held = turn.held;
  return results;
}
