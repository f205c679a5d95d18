// A TorchScript file: its object graph, its constants and its code.

#pragma once

#include "frontends/archive/StoredTensor.h"
#include "frontends/torchscript/DebugInfo.h"
#include "frontends/torchscript/Syntax.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace polyrank::frontends::torchscript {

/// The newest supported version of the format; PyTorch 1.12 to 2.14 write it.
/// The version tells which operators have an old meaning, see
/// `Archive::getVersion`.
constexpr int64_t newestVersion = 10;

class Archive {
public:
  /// Opens the file. An error says what a file is that is not TorchScript: a
  /// state dict, a pickled module, a file for mobile devices.
  static Result<std::unique_ptr<Archive>> open(const std::string &path);

  const std::string &path() const { return zip.file()->path(); }
  const ZipFile &getZip() const { return zip; }
  /// The budget for all memory taken to read the file and to hold its contents.
  Budget &getBudget() const { return *zip.budget(); }
  /// The version in the file, at most `newestVersion`. A file has the lowest
  /// version that its operators need: `div` of version 3 rounds down for
  /// integers.
  int64_t getVersion() const { return version; }

  /// The root module; an object.
  const archive::PickleValue &getModule() const { return data->root(); }
  /// The constants that the code calls CONSTANTS.c0, ..
  const std::vector<const archive::PickleValue *> &getConstants() const {
    return constants->root().elements;
  }
  /// The arguments with which `forward` was traced; null if it was not traced.
  const archive::PickleValue *getTracedInputs() const;

  enum class Folder { Data, Constants, TracedInputs };
  /// Locates the elements of a tensor. `name` is used in messages.
  Result<archive::StoredTensor> locate(const archive::PickledTensor &tensor,
                                       Folder folder,
                                       const std::string &name) const;

  /// The class or function such as `__torch__.nn.Linear`, with the file that
  /// contains it. A file is parsed when something in it is first requested.
  template <typename T>
  struct Found {
    const T *definition = nullptr; // null: not found
    const SourceFile *file = nullptr;
    std::string module; // "__torch__.nn"
  };
  Result<Found<Class>> findClass(const std::string &name) const;
  Result<Found<Function>> findFunction(const std::string &name) const;

  /// The line of the user's source for the code at `offset` of the file of
  /// `module`; if the file does not give it, the line of the code itself.
  SourceLine sourceOf(const std::string &module, uint32_t offset) const;

private:
  struct Code {
    SourceFile file;
    DebugInfo debug;
  };

  explicit Archive(ZipFile zip) : zip(std::move(zip)) {}
  Result<void> findRoot();
  Result<void> readVersion();
  Result<archive::Pickle> readPickle(const std::string &name) const;
  /// Null if the archive has no such file.
  Result<const Code *> codeOf(const std::string &module) const;
  std::string memberOf(const std::string &module) const;

  ZipFile zip;
  std::string root; // "model/"
  int64_t version = 0;
  std::optional<archive::Pickle> data, constants, traced;
  mutable std::map<std::string, std::unique_ptr<Code>> codes; // by module
};

} // namespace polyrank::frontends::torchscript
