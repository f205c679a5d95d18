// Finds the parameters of a state_dict in a model that lost their names.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/NamedTensors.h"
#include "frontends/onnx/RenamedWeights.h"

#include <set>

namespace polyrank::frontends::onnx {

/// Matches the model's state with the tensors of a file, in these steps:
///
/// - `identify`: a nameless initializer that has the elements of a tensor of
///   the file, or of its transpose, is that tensor. Matrices with equal
///   elements are tied, unless each consists of a single repeated value. If
///   several tensors are possible, the use decides: the module of the node, or
///   that of the other parameters beside it; then what is left over.
/// - `addMissing`: tensors that are still not found become parameters whose
///   elements lie in their file, so that constants can be computed from them
///   (FoldedConstants.h, FoldedNorms.h).
/// - `finish`: all get the file's names; what was not found is kept as it is,
///   with a warning.
///
/// Until `finish`, parameters have the names of the export, which may have a
/// prefix of modules that the file's names lack, or the reverse.
class NamedParameters {
public:
  /// Keeps references to all arguments.
  NamedParameters(const Model &model, const ExportRecord &record,
                  const Consumers &consumers, const NamedTensors &named,
                  bool tie, ModelState &state);

  void identify(llvm::ArrayRef<const StoredTensor *> nameless);
  void addMissing();
  void finish();

  /// Marks a parameter that others replace; `finish` removes it.
  void drop(size_t index) { dropped.insert(index); }
  /// The parameters that `addMissing` added.
  llvm::ArrayRef<size_t> getMissing() const { return missing; }
  /// The export's name for a tensor of the file.
  std::string toExported(llvm::StringRef name) const;

private:
  struct Candidate {
    const StoredTensor *tensor = nullptr;
    bool transposed = false;
  };
  /// An initializer that could be any of several tensors.
  struct Ambiguous {
    const StoredTensor *stored = nullptr;
    llvm::SmallVector<Candidate> candidates;
    bool isNamed = false; // is a parameter already
  };

  void findPrefix();
  std::string toFile(llvm::StringRef name) const;
  llvm::SmallVector<Candidate> candidatesOf(const StoredTensor &stored) const;
  bool isTelling(const StoredTensor &tensor) const;
  std::optional<size_t> find(const StoredTensor &tensor) const;
  bool isTrained(llvm::StringRef exportedName) const;
  void removeDropped();
  size_t parameterOf(const StoredTensor &stored, Candidate candidate);
  void tie(const StoredTensor &stored, llvm::ArrayRef<Candidate> equal);
  void resolve(std::vector<Ambiguous> &all);
  bool resolveByUse(Ambiguous &each);
  bool isNear(const Node &node, size_t operand,
              const StoredTensor &candidate) const;

  const Model &model;
  const ExportRecord &record;
  const Consumers &consumers;
  const NamedTensors &named;
  const bool ties;
  ModelState &state;
  llvm::StringMap<const Node *> producers;
  llvm::StringMap<const StoredTensor *> byName;
  /// The prefix that names have only in the export, and the one that they have
  /// only in the file.
  std::string exportedPrefix, filePrefix;
  std::vector<size_t> missing;
  std::set<size_t> dropped;
  /// By parameter: the file's tensor, if the export calls it by another name.
  std::map<size_t, const StoredTensor *> renamed;
  std::vector<std::string> found, changed, unclear;
};

} // namespace polyrank::frontends::onnx
