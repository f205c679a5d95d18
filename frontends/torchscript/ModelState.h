// The object graph of a TorchScript file: its modules, and their tensors under
// their names in the state dict.

#pragma once

#include <unordered_map>

#include "frontends/aten/State.h"
#include "frontends/torchscript/Objects.h"

namespace polyrank::frontends::torchscript {

class ModelState {
public:
  explicit ModelState(const Archive &archive) : archive(archive) {}

  /// Finds the modules, their tensors, and the constants of the code.
  ///
  /// The class of a module says what a tensor is: a parameter, a buffer, or
  /// else a constant. A tensor that several modules hold, or that is in a
  /// module with several names, has an entry for each. A tensor that is a
  /// parameter or buffer in one place and a plain attribute or an element of a
  /// list in another (like the weights of recurrent layers) is the parameter in
  /// both.
  Result<void> find();

  llvm::ArrayRef<aten::StateEntry> getEntries() const { return entries; }
  const std::shared_ptr<Instance> &getRoot() const { return root; }
  /// The values of CONSTANTS.c0, ..
  llvm::ArrayRef<Value> getConstants() const { return constants; }

  /// Sets the tensors of the modules: one value for each entry.
  void setTensors(llvm::ArrayRef<Value> values);
  /// The current value of the attribute that was initialised by entry `i`; null
  /// if the entry is not an attribute of a module (a constant of the code).
  const Value *getCurrent(size_t i) const;

private:
  /// The attribute or element that holds the tensor of an entry.
  struct Holder {
    Instance *module = nullptr; // null: an element of `list`
    std::string attribute;
    Value list;
    size_t index = 0;
    bool isConstant = false; // it is a constant of the code
  };

  /// Converts `pickled`, which is at `path`; its tensors become entries with
  /// names below that path. Unset if it sets `problem`.
  Value convert(const archive::PickleValue &pickled, const std::string &path,
                aten::Role role, Archive::Folder folder, Holder holder);
  Value convertObject(const archive::PickleValue &pickled,
                      const std::string &path);
  Value convertTensor(const archive::PickledTensor &tensor,
                      const std::string &path, aten::Role role,
                      Archive::Folder folder, Holder holder);
  /// Adds entries for the tensors of a module that is also at `path`, under
  /// their names there.
  void addAliases(const Instance &module, const std::string &path);
  void findShared();
  void fail(std::string message) {
    if (problem.empty())
      problem = std::move(message);
  }
  /// Takes `bytes` from the budget of the file for the value at `path`, or
  /// fails.
  bool charge(uint64_t bytes, const std::string &path);

  static constexpr size_t maxEntries = 1 << 20;

  const Archive &archive;
  std::string problem;
  std::vector<aten::StateEntry> entries;
  std::vector<Holder> holders; // by entry
  /// For each entry, the entry of which it is a duplicate, for constants that
  /// are parameters.
  std::vector<size_t> same;
  std::shared_ptr<Instance> root;
  std::vector<Value> constants;
  /// Converted containers and objects. A shared one must stay shared, or a dict
  /// that holds another dict twice would double with each level.
  std::unordered_map<const archive::PickleValue *, Value> converted;
  /// For each module, the range of entries that were found in it.
  std::unordered_map<const Instance *, std::pair<size_t, size_t>> inside;
};

} // namespace polyrank::frontends::torchscript
