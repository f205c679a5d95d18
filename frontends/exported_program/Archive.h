// A `.pt2` file of torch.export.save: its program, and where its weights lie.

#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "frontends/archive/Pickle.h"
#include "frontends/archive/StoredTensor.h"
#include "frontends/exported_program/Program.h"

namespace polyrank::frontends::exported_program {

/// The number that c10 has for `exported`, as torch.export counts types;
/// nullopt for one that it does not have.
std::optional<archive::ScalarType> toScalarType(int64_t exported);

/// Three layouts are read:
///
/// - of torch 2.9 on: NAME/models/model.json beside NAME/data/weights/weight_I
///   and tables of what lies in which of them;
/// - of torch 2.8: NAME/models/model.json beside NAME/data/weights/model.pt, an
///   archive of torch.save in the archive;
/// - up to torch 2.7: serialized_exported_program.json beside
///   serialized_state_dict.pt and serialized_constants.pt.
class Archive {
public:
  static Result<std::unique_ptr<Archive>> open(const std::string &path);
  Archive(const Archive &) = delete;

  const std::string &path() const { return zip.file()->path(); }
  const Program &getProgram() const { return program; }
  /// Bytes of the file.
  uint64_t size() const { return zip.file()->size(); }
  /// Of all that is read of the file and made of its contents.
  Budget &getBudget() const { return *zip.budget(); }

  /// A parameter or persistent buffer; a constant or another buffer.
  Result<archive::StoredTensor> findWeight(const std::string &name) const {
    return find(weights, name);
  }
  Result<archive::StoredTensor> findConstant(const std::string &name) const {
    return find(constants, name);
  }

private:
  /// What a table, or a dict in a pickle, has by name.
  struct Tensors {
    std::string folder; // of the members with the elements
    std::map<std::string, Payload> table;
    /// Instead of the table.
    std::unique_ptr<ZipFile> inner;
    archive::Pickle pickle;
    std::unordered_map<std::string_view, const archive::PickleValue *> pickled;
  };

  explicit Archive(ZipFile zip) : zip(std::move(zip)) {}
  Result<void> readProgram();
  Result<std::string> read(const std::string &member) const;
  /// Of the table at `config`, or else of the archive at `saved`.
  Result<void> readTensors(const std::string &folder, const std::string &config,
                           const std::string &saved, Tensors &into) const;
  Result<archive::StoredTensor> find(const Tensors &tensors,
                                     const std::string &name) const;

  ZipFile zip;
  Program program;
  Tensors weights, constants;
};

} // namespace polyrank::frontends::exported_program
