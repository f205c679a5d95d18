// The object graph of a TorchScript file: its modules, and the tensors that
// they hold by their names in the state dict.

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
  /// A tensor is what its module's class says: a parameter, a buffer, or else a
  /// constant. One that several modules hold, or one module under several
  /// names, is an entry for each. A tensor that is one of these in one place
  /// and a plain attribute, or an element of a list, in another (the weights of
  /// recurrent layers are) is the parameter in both.
  Result<void> find();

  llvm::ArrayRef<aten::StateEntry> getEntries() const { return entries; }
  const std::shared_ptr<Instance> &getRoot() const { return root; }
  /// CONSTANTS.c0, ..
  llvm::ArrayRef<Value> getConstants() const { return constants; }

  /// Gives the modules their tensors: one value for each entry.
  void setTensors(llvm::ArrayRef<Value> values);
  /// The value that an attribute has now which began as entry `i`; unset where
  /// the entry is no attribute of a module (a constant of the code).
  const Value *getCurrent(size_t i) const;

private:
  /// An attribute or element that is an entry's tensor.
  struct Holder {
    Instance *module = nullptr; // else an element of `list`
    std::string attribute;
    Value list;
    size_t index = 0;
    bool isConstant = false; // of the code
  };

  /// The value of `pickled`, which is at `path`; tensors in it are entries with
  /// that name. Unset where `problem` is.
  Value convert(const archive::PickleValue &pickled, const std::string &path,
                aten::Role role, Archive::Folder folder, Holder holder);
  Value convertObject(const archive::PickleValue &pickled,
                      const std::string &path);
  Value convertTensor(const archive::PickledTensor &tensor,
                      const std::string &path, aten::Role role,
                      Archive::Folder folder, Holder holder);
  /// The tensors of a module that stands at `path` too, under their names
  /// there.
  void addAliases(const Instance &module, const std::string &path);
  void findShared();
  void fail(std::string message) {
    if (problem.empty())
      problem = std::move(message);
  }
  /// Takes `bytes` from the file's budget for what is at `path`, or fails.
  bool charge(uint64_t bytes, const std::string &path);

  static constexpr size_t maxEntries = 1 << 20;

  const Archive &archive;
  std::string problem;
  std::vector<aten::StateEntry> entries;
  std::vector<Holder> holders; // by entry
  /// By entry: the one that it is too, for constants that are parameters.
  std::vector<size_t> same;
  std::shared_ptr<Instance> root;
  std::vector<Value> constants;
  /// Containers and objects: whoever holds one twice has one value twice, or
  /// a dict of a dict twice would double with each level.
  std::unordered_map<const archive::PickleValue *, Value> converted;
  /// By module: the entries that were found in it, one behind the other.
  std::unordered_map<const Instance *, std::pair<size_t, size_t>> inside;
};

} // namespace polyrank::frontends::torchscript
