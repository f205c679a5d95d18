// Tensors as spans of an archive: the place of their elements, checked against
// the file.

#include "frontends/archive/StoredTensor.h"

#include "support/Checked.h"

#include <algorithm>

namespace polyrank::frontends::archive {

static bool areContiguous(const std::vector<int64_t> &sizes,
                          const std::vector<int64_t> &strides) {
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 0)
      return true;
    if (sizes[d] != 1 && strides[d] != expected)
      return false;
    expected *= sizes[d];
  }
  return true;
}

bool StoredTensor::isContiguous() const {
  return areContiguous(sizes, strides);
}

bool StoredTensor::isTransposed() const {
  return sizes.size() == 2 && !isContiguous() &&
         areContiguous({sizes[1], sizes[0]}, {strides[1], strides[0]});
}

Result<StoredTensor> locate(const ZipFile &zip, const std::string &storage,
                            ElementType type, std::vector<int64_t> sizes,
                            std::vector<int64_t> strides, int64_t offset,
                            const std::string &name) {
  auto fail = [&](const std::string &what) {
    return Error{zip.file()->path() + ": tensor `" + name + "` " + what};
  };
  uint64_t bytes = bytesOf(type);
  if (bytes == 0)
    return fail("has elements of " + longNameOf(type) + ", which are not read");
  if (sizes.size() != strides.size() || sizes.size() > maxRank)
    return fail("has " + std::to_string(sizes.size()) + " sizes and " +
                std::to_string(strides.size()) + " strides");
  const ZipMember *member = zip.find(storage);
  if (!member)
    return fail("has its elements in '" + storage +
                "', which the file does not hold");
  if (!member->isStored())
    return fail("has its elements in '" + storage +
                "', which is compressed; PyTorch stores tensors as they are");
  Checked count(1), last = Checked::of(offset);
  bool isEmpty = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    count = count * Checked::of(sizes[d]);
    isEmpty |= sizes[d] == 0;
    if (sizes[d] > 0)
      last = last + Checked::of(sizes[d] - 1) * Checked::of(strides[d]);
    else if (strides[d] < 0)
      return fail("has a negative stride");
  }
  if (!count.fits(maxStoredElements))
    return fail("has sizes that no tensor has");
  if (!((last + Checked(1)) * Checked(bytes))
           .fits(isEmpty ? UINT64_MAX : member->size))
    return fail("has elements beyond the " + std::to_string(member->size) +
                " bytes of '" + storage + "'");
  // The memory must be in proportion to the file.
  constexpr uint64_t little = 1 << 20;
  if (count.value() > std::max(member->size / bytes, little))
    return fail("of " + std::to_string(count.value()) +
                " elements repeats those of a storage of " +
                std::to_string(member->size) +
                " bytes; save a contiguous() copy of it");
  StoredTensor tensor;
  tensor.type = type;
  tensor.sizes = std::move(sizes);
  tensor.strides = std::move(strides);
  tensor.storageBegin = member->offset;
  tensor.storageLength = member->size;
  tensor.begin =
      member->offset + (isEmpty ? 0 : static_cast<uint64_t>(offset) * bytes);
  return tensor;
}

Result<StoredTensor> locate(const ZipFile &zip, const std::string &folder,
                            const PickledTensor &pickled,
                            const std::string &name) {
  std::string member = folder + pickled.storage.key;
  auto tensor = locate(zip, member, pickled.type, pickled.sizes,
                       pickled.strides, pickled.offset, name);
  if (!tensor)
    return tensor;
  // The elements of an untyped storage are bytes.
  uint64_t bytes =
      pickled.storage.type ? bytesOf(*pickled.storage.type) : uint64_t(1);
  if (!(Checked::of(pickled.storage.elements) * Checked(bytes))
           .is(tensor->storageLength))
    return Error{
        zip.file()->path() + ": tensor `" + name + "` has a storage of " +
        std::to_string(pickled.storage.elements) + " elements, but '" + member +
        "' has " + std::to_string(tensor->storageLength) + " bytes"};
  tensor->requiresGrad = pickled.requiresGrad;
  return tensor;
}

void forEachElement(const StoredTensor &tensor,
                    const std::function<void(uint64_t)> &body) {
  uint64_t bytes = bytesOf(tensor.type), at = tensor.begin;
  std::vector<int64_t> index(tensor.sizes.size());
  for (int64_t left = tensor.numElements(); left > 0; --left) {
    body(at);
    for (size_t d = index.size(); d-- > 0;) {
      uint64_t stride = static_cast<uint64_t>(tensor.strides[d]) * bytes;
      at += stride;
      if (++index[d] < tensor.sizes[d])
        break;
      at -= static_cast<uint64_t>(tensor.sizes[d]) * stride;
      index[d] = 0;
    }
  }
}

} // namespace polyrank::frontends::archive
