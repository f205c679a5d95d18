// Finds the parameters of a state_dict in a model that lost their names.

#pragma once

#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/NamedTensors.h"
#include "frontends/onnx/RenamedWeights.h"

#include <set>

namespace polyrank::frontends::onnx {

/// The model's state beside the tensors of a file, in this order:
///
/// - `identify`: a nameless initializer with the elements of a tensor of the
///   file, or of its transpose, is that tensor. Matrices of equal elements are
///   tied, unless all elements of each are equal. What could be several tensors
///   is told by its use: the module of the node, or that of the other
///   parameters beside it; then by what is left.
/// - `addMissing`: tensors that are still not found become parameters whose
///   elements lie in their file, so that constants may be computed from them
///   (FoldedConstants.h, FoldedNorms.h).
/// - `finish`: all have the file's names; what was not found is kept as it is,
///   with a warning.
///
/// Until `finish` parameters go by the names that the export gives them, which
/// may have a prefix of modules that the file's names lack, or the reverse.
class NamedParameters {
public:
  /// Refers to all of its arguments.
  NamedParameters(const Model &model, const ExportRecord &record,
                  const Consumers &consumers, const NamedTensors &named,
                  bool tie, ModelState &state);

  void identify(llvm::ArrayRef<const StoredTensor *> nameless);
  void addMissing();
  void finish();

  /// A parameter in whose place there are others; `finish` removes it.
  void drop(size_t index) { dropped.insert(index); }
  /// The parameters that `addMissing` added.
  llvm::ArrayRef<size_t> getMissing() const { return missing; }
  /// What the export calls the file's tensor.
  std::string toExported(llvm::StringRef name) const;

private:
  struct Candidate {
    const StoredTensor *tensor = nullptr;
    bool transposed = false;
  };
  /// An initializer that several tensors could be.
  struct Ambiguous {
    const StoredTensor *stored = nullptr;
    llvm::SmallVector<Candidate> candidates;
    bool isNamed = false; // has a parameter already
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
  /// What stands in front of the file's names in the export, or in front of the
  /// export's names in the file.
  std::string exportedPrefix, filePrefix;
  std::vector<size_t> missing;
  std::set<size_t> dropped;
  /// The file's tensors of parameters that the export calls otherwise.
  std::map<size_t, const StoredTensor *> renamed;
  std::vector<std::string> found, changed, unclear;
};

} // namespace polyrank::frontends::onnx
