// Tensors as spans of an archive: where their elements lie, checked against the
// file.

#include "frontends/archive/StoredTensor.h"

#include "support/Checked.h"

#include <cstring>

namespace polyrank::frontends::archive {

bool StoredTensor::isContiguous() const {
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

Result<StoredTensor> locate(const ZipFile &zip, const std::string &storage,
                            ScalarType type, std::vector<int64_t> sizes,
                            std::vector<int64_t> strides, int64_t offset,
                            const std::string &name) {
  auto fail = [&](const std::string &what) {
    return Error{zip.file()->path() + ": tensor `" + name + "` " + what};
  };
  uint64_t bytes = byteSize(type);
  if (bytes == 0)
    return fail("has elements of " + nameOf(type) + ", which are not read");
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
  // An untyped storage counts bytes.
  uint64_t bytes =
      pickled.storage.type ? byteSize(*pickled.storage.type) : uint64_t(1);
  if (!(Checked::of(pickled.storage.elements) * Checked(bytes))
           .is(tensor->storageLength))
    return Error{
        zip.file()->path() + ": tensor `" + name + "` has a storage of " +
        std::to_string(pickled.storage.elements) + " elements, but '" + member +
        "' has " + std::to_string(tensor->storageLength) + " bytes"};
  tensor->requiresGrad = pickled.requiresGrad;
  return tensor;
}

Result<std::vector<std::byte>> readElements(const InputFile &file,
                                            const StoredTensor &tensor) {
  uint64_t bytes = byteSize(tensor.type);
  uint64_t count = static_cast<uint64_t>(tensor.numElements());
  // An expanded tensor may repeat its elements; nothing stored does so beyond
  // what is worth reading.
  if (count * bytes > std::max<uint64_t>(tensor.storageLength, 1 << 20))
    return Error{file.path() + ": a tensor of " + std::to_string(count) +
                 " elements repeats those of a storage of " +
                 std::to_string(tensor.storageLength) +
                 " bytes; save a contiguous copy of it"};
  std::vector<std::byte> result(count * bytes);
  if (count == 0)
    return result;
  if (tensor.isContiguous()) {
    if (auto done = file.readAt(tensor.begin, result.data(), result.size());
        !done)
      return done.error();
    return result;
  }
  uint64_t last = 0;
  for (size_t d = 0; d < tensor.sizes.size(); ++d)
    last += static_cast<uint64_t>((tensor.sizes[d] - 1) * tensor.strides[d]);
  std::vector<std::byte> covered((last + 1) * bytes);
  if (auto done = file.readAt(tensor.begin, covered.data(), covered.size());
      !done)
    return done.error();
  std::vector<int64_t> index(tensor.sizes.size());
  uint64_t at = 0;
  for (uint64_t element = 0; element < count; ++element) {
    std::memcpy(&result[element * bytes], &covered[at * bytes], bytes);
    for (size_t d = index.size(); d-- > 0;) {
      at += tensor.strides[d];
      if (++index[d] < tensor.sizes[d])
        break;
      at -= static_cast<uint64_t>(tensor.sizes[d] * tensor.strides[d]);
      index[d] = 0;
    }
  }
  return result;
}

} // namespace polyrank::frontends::archive
