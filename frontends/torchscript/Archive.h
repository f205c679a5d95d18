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

/// The newest version of the format that is understood; PyTorch 1.12 to 2.14
/// write it. It stands for which operators have an old meaning, see
/// `Archive::getVersion`.
constexpr int64_t newestVersion = 10;

class Archive {
public:
  /// Opens the file. What is no TorchScript is refused with what it is instead:
  /// a state dict, a pickled module, a file for mobile devices.
  static Result<std::unique_ptr<Archive>> open(const std::string &path);

  const std::string &path() const { return zip.file()->path(); }
  const ZipFile &getZip() const { return zip; }
  /// Of all that is read of the file and made of its contents.
  Budget &getBudget() const { return *zip.budget(); }
  /// From the file, at most `newestVersion`. A file has the least version that
  /// its operators need: `div` of 3 divides integers down.
  int64_t getVersion() const { return version; }

  /// The root module; an object.
  const archive::PickleValue &getModule() const { return data->root(); }
  /// What the code calls CONSTANTS.c0, ..
  const std::vector<const archive::PickleValue *> &getConstants() const {
    return constants->root().elements;
  }
  /// With which arguments `forward` was traced; null where it was not.
  const archive::PickleValue *getTracedInputs() const;

  enum class Folder { Data, Constants, TracedInputs };
  /// Where the elements of a tensor lie. `name` stands in messages.
  Result<archive::StoredTensor> locate(const archive::PickledTensor &tensor,
                                       Folder folder,
                                       const std::string &name) const;

  /// The class or function `__torch__.nn.Linear`, with the file that it is in.
  /// Files are parsed when something of them is first asked for.
  template <typename T>
  struct Found {
    const T *definition = nullptr; // null: there is none
    const SourceFile *file = nullptr;
    std::string module; // "__torch__.nn"
  };
  Result<Found<Class>> findClass(const std::string &name) const;
  Result<Found<Function>> findFunction(const std::string &name) const;

  /// The user's line for the code at `offset` of the file of `module`, or where
  /// the file does not say, that of the code.
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
  /// Null where the archive has no such file.
  Result<const Code *> codeOf(const std::string &module) const;
  std::string memberOf(const std::string &module) const;

  ZipFile zip;
  std::string root; // "model/"
  int64_t version = 0;
  std::optional<archive::Pickle> data, constants, traced;
  mutable std::map<std::string, std::unique_ptr<Code>> codes; // by module
};

} // namespace polyrank::frontends::torchscript
