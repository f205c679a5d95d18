// Tensors as spans of an archive: the place of their elements, checked against
// the file.

#pragma once

#include "frontends/archive/Pickle.h"
#include "support/ZipFile.h"

#include <functional>
#include <tuple>

namespace polyrank::frontends::archive {

/// A strided view of a storage in the file. Element (i, j, ..) is at
/// `begin + (i * strides[0] + j * strides[1] + ..) * bytesOf(type)`; all of
/// them lie in [storageBegin, storageBegin + storageLength).
struct StoredTensor {
  ElementType type = ElementType::F32;
  std::vector<int64_t> sizes, strides; // strides in elements, not negative
  bool requiresGrad = false;
  uint64_t begin = 0; // bytes of the file
  uint64_t storageBegin = 0, storageLength = 0;

  int64_t numElements() const {
    int64_t count = 1;
    for (int64_t size : sizes)
      count *= size; // `locate` has checked it against overflow
    return count;
  }
  /// Returns true if the elements are contiguous in row-major order.
  bool isContiguous() const;
  /// Returns true if it is a matrix that is contiguous in column-major order.
  bool isTransposed() const;

  /// Two tensors with equal keys are the same view of the same storage.
  using Key = std::tuple<uint64_t, ElementType, std::vector<int64_t>,
                         std::vector<int64_t>>;
  Key key() const { return {begin, type, sizes, strides}; }
};

/// Limits for one tensor.
constexpr int64_t maxStoredElements = int64_t(1) << 48;
constexpr size_t maxRank = 64;

/// Locates the view with `sizes` and `strides` at element `offset` of the
/// storage that is the member `storage` of `zip`. The member must be stored,
/// not deflated, and be large enough for every element. A view that repeats
/// elements may not have many more than the storage. `name` is used in
/// messages.
Result<StoredTensor> locate(const ZipFile &zip, const std::string &storage,
                            ElementType type, std::vector<int64_t> sizes,
                            std::vector<int64_t> strides, int64_t offset,
                            const std::string &name);

/// Locates a tensor of a pickle whose storages are the members `folder`KEY.
Result<StoredTensor> locate(const ZipFile &zip, const std::string &folder,
                            const PickledTensor &tensor,
                            const std::string &name);

/// Calls `body` with the byte offset of each element in the file, in row-major
/// order.
void forEachElement(const StoredTensor &tensor,
                    const std::function<void(uint64_t)> &body);

} // namespace polyrank::frontends::archive
