// A `.pt2` file of torch.export.save: its program, and the place of its
// weights.

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

/// The type to which torch.export gives this number; nullopt if there is none.
std::optional<ElementType> typeOfNumber(int64_t exported);

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
  /// The size of the file in bytes.
  uint64_t size() const { return zip.file()->size(); }
  /// The budget for all memory taken to read the file and to hold its contents.
  Budget &getBudget() const { return *zip.budget(); }

  /// Finds a parameter or persistent buffer (`findWeight`), or a constant or
  /// other buffer (`findConstant`), by name.
  Result<archive::StoredTensor> findWeight(const std::string &name) const {
    return find(weights, name);
  }
  Result<archive::StoredTensor> findConstant(const std::string &name) const {
    return find(constants, name);
  }

private:
  /// Tensors by name, from a table or from the dict of a pickle.
  struct Tensors {
    std::string folder; // of the members that hold the elements
    std::map<std::string, Payload> table;
    /// Set instead of the table.
    std::unique_ptr<ZipFile> inner;
    archive::Pickle pickle;
    std::unordered_map<std::string_view, const archive::PickleValue *> pickled;
  };

  explicit Archive(ZipFile zip) : zip(std::move(zip)) {}
  Result<void> readProgram();
  Result<std::string> read(const std::string &member) const;
  /// Reads the table at `config` if it exists, else the archive at `saved`.
  Result<void> readTensors(const std::string &folder, const std::string &config,
                           const std::string &saved, Tensors &into) const;
  Result<archive::StoredTensor> find(const Tensors &tensors,
                                     const std::string &name) const;

  ZipFile zip;
  Program program;
  Tensors weights, constants;
};

} // namespace polyrank::frontends::exported_program
