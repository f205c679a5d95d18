// Where the values of a plan's stored tensors come from.

#pragma once

#include "runtime/checkpoint/SafetensorsSet.h"
#include "runtime/exec/RankProgram.h"

#include <memory>
#include <set>

namespace polyrank::runtime {

/// The sources of all stored tensors of a plan: the spans of the user's model
/// file that the plan names, or a file of weights that replaces them.
class Weights {
public:
  /// `init` empty: the plan's spans. A relative path in a plan is relative to
  /// the plan's own directory. Else a safetensors file, or a folder of them or
  /// its index, in which each tensor is found by its name, by an alias, or,
  /// where file or model has one more wrapper in front, by the only name that
  /// ends alike.
  static Result<Weights> open(const LoadedPlan &plan, const std::string &init);

  const std::vector<StoredSource> &sources() const { return stored; }
  /// The source of the next stored tensor, where none is opened; `path` is for
  /// messages.
  void add(StoredSource source, const std::string &path,
           const plan::StoredTensor &tensor);
  /// The same, but reading a NaN is an error that names file and element. It
  /// costs a look at what is read anyway.
  std::vector<StoredSource> sourcesWithoutNan() const;
  /// Are the bytes of the plan's spans those that it was compiled with? Looks
  /// at the blocks of digests whose number, over all spans, is `first` and each
  /// `step`-th from there: ranks share the work.
  Result<void> checkDigests(uint64_t first, uint64_t step) const;
  /// Does a file of `init` that has a tied tensor under several of its names
  /// have the same values there? Reads those tensors.
  Result<void> checkTied() const;
  /// Names in the file of `init` that no tensor of the plan has, sorted.
  const std::vector<std::string> &unread() const { return notRead; }
  /// Reads everything, as ranks do it between them: does all of it match its
  /// digests, and is nothing NaN (with `allowNan` not asked)?
  Result<void> checkAll(bool allowNan) const;
  /// Tells the files of `init` from all others (SafetensorsSet::identity), as
  /// they are now: asked after the values were read, it also tells that nobody
  /// wrote to them meanwhile. Empty without `init`.
  Result<std::string> identity() const;
  /// Bytes of all stored tensors, as they are stored.
  uint64_t bytes() const;
  /// The files that they are read from.
  std::set<std::string> files() const;

private:
  /// What the plan says of a stored tensor's bytes, and the file that has them.
  struct Span {
    const plan::StoredTensor *stored;
    std::shared_ptr<InputFile> file;
  };

  std::vector<StoredSource> stored;
  std::vector<Span> spans; // none with `init`
  /// Of each, for messages; empty where the plan itself holds it.
  std::vector<std::string> paths;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<bool> areComplex; // whose last dim has the parts
  std::shared_ptr<const SafetensorsSet> fromInit; // of `init`
  /// Tensors of `fromInit` that are one of the plan's under several names.
  std::vector<std::vector<const SafetensorsSet::Tensor *>> tied;
  std::vector<std::string> notRead;
  std::set<std::string> alsoRead; // of a folder, files that hold none of them
};

/// The stored tensor's shape as the model knows it.
std::vector<int64_t> shapeOf(const plan::StoredTensor &stored);

/// Its name and aliases, each once.
std::vector<std::string> namesOf(const plan::StoredTensor &stored);

} // namespace polyrank::runtime
