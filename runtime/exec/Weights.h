// The sources of the values of a plan's stored tensors.

#pragma once

#include "runtime/checkpoint/SafetensorsSet.h"
#include "runtime/exec/RankProgram.h"

#include <map>
#include <memory>
#include <set>

namespace polyrank::runtime {

/// The sources of all stored tensors of a plan: the spans of the user's model
/// file that the plan names, or a file of weights that replaces them.
class Weights {
public:
  /// If `init` is empty, opens the plan's spans; their relative paths are
  /// relative to the plan's directory. Otherwise `init` is a safetensors file,
  /// a folder of them, or its index. Each tensor is found by its name, by an
  /// alias, or, if file or model has an additional wrapper prefix, by the only
  /// name with the same ending.
  static Result<Weights> open(const LoadedPlan &plan, const std::string &init);

  const std::vector<StoredSource> &sources() const { return stored; }
  /// Adds the source of the next stored tensor, instead of `open`; `path` is
  /// for messages.
  void add(StoredSource source, const std::string &path,
           const plan::StoredTensor &tensor);
  /// The same sources, except that reading a NaN is an error that names file
  /// and element. Only the elements that are read anyway are inspected.
  std::vector<StoredSource> sourcesWithoutNan() const;
  /// Fails unless the bytes of the plan's spans are those that it was compiled
  /// with. Checks the digests of block `first` and every `step`-th block after
  /// it, counted over all spans, so that ranks share the work.
  Result<void> checkDigests(uint64_t first, uint64_t step) const;
  /// Fails unless a tied tensor that `init` has under several names has the
  /// same values under all of them. Reads those tensors.
  Result<void> checkTied() const;
  /// Names in the file of `init` that no tensor of the plan has, sorted.
  const std::vector<std::string> &unread() const { return notRead; }
  /// Reads everything that ranks otherwise read between them. Fails unless all
  /// of it matches its digests and, without `allowNan`, nothing is NaN.
  Result<void> checkAll(bool allowNan) const;
  /// Identifies the files of `init` (SafetensorsSet::identity) in their current
  /// state: a call after the values were read also detects a write in between.
  /// Empty without `init`.
  Result<std::string> identity() const;
  /// The bytes of all stored tensors, in their stored types.
  uint64_t bytes() const;
  /// The files from which they are read.
  std::set<std::string> files() const;

private:
  /// A stored tensor as the plan describes it, and the file with its bytes.
  struct Span {
    const plan::StoredTensor *stored;
    std::shared_ptr<InputFile> file;
  };

  /// Finds all stored tensors in the files of `init`.
  Result<void> openInit(const LoadedPlan &plan, const std::string &init);
  /// Adds the source of a stored tensor that the plan describes: its own data,
  /// or bytes of one of `files`, which it opens where they are not yet.
  Result<void>
  openSpan(const LoadedPlan &plan, const plan::StoredTensor &tensor,
           std::map<std::string, std::shared_ptr<InputFile>> &files);

  std::vector<StoredSource> stored;
  std::vector<Span> spans; // none with `init`
  /// By stored tensor, for messages; empty if the plan itself has the data.
  std::vector<std::string> paths;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<bool> areComplex; // the last dim has real and imaginary part
  std::shared_ptr<const SafetensorsSet> fromInit; // the files of `init`
  /// For each tied tensor, the tensors of `fromInit` under its several names.
  std::vector<std::vector<const SafetensorsSet::Tensor *>> tied;
  std::vector<std::string> notRead;
  std::set<std::string> alsoRead; // all files of `init`, also those not needed
};

/// The stored tensor's shape as the model knows it.
std::vector<int64_t> shapeOf(const plan::StoredTensor &stored);

/// Its name and aliases, each once.
std::vector<std::string> namesOf(const plan::StoredTensor &stored);

} // namespace polyrank::runtime
