// Reads tensors, and checks every length and count.

#include "frontends/onnx/TensorReader.h"

#include <bit>
#include <cerrno>
#include <cstring>

#include "support/ElementValues.h"
#include "support/FileFormat.h"

#include <unistd.h>

static_assert(std::endian::native == std::endian::little,
              "tensor elements are used as they lie in the file");

namespace polyrank::frontends::onnx {

static std::string toString(const std::vector<int64_t> &dims) {
  std::string text = "[";
  for (size_t d = 0; d < dims.size(); ++d)
    text += (d == 0 ? "" : ", ") + std::to_string(dims[d]);
  return text + "]";
}

/// The actual format of an external data file; empty if it is not recognised.
static std::string formatOf(const ExternalFile &external) {
  std::string start(std::min<uint64_t>(external.size, formatBytes), '\0');
  if (!external.read(0, start))
    return "";
  return polyrank::foreignFormat(start, WantedFile::Weights);
}

static void addDim(StoredTensor &tensor, int64_t dim) {
  if (tensor.dims.size() == maxRank)
    throw Malformed{"a tensor has more than " + std::to_string(maxRank) +
                    " dims"};
  tensor.dims.push_back(dim);
}

StoredTensor TensorReader::read(pbf_reader in) {
  entities.add(sizeof(StoredTensor));
  StoredTensor tensor;
  std::string_view raw, packed;
  bool hasRaw = false, isExternal = false;
  Metadata externalData;
  // The data type may come after the values, so varints are decoded at the end.
  std::vector<uint64_t> varints;
  auto addVarint = [&](uint64_t value) {
    entities.addNumbers(sizeof(value));
    varints.push_back(value);
  };
  // Floats in a single packed field are used in place; others are collected.
  auto append = [&](const void *data, size_t size) {
    auto *begin = static_cast<const char *>(data);
    entities.addNumbers(packed.size() + size);
    tensor.decoded.insert(tensor.decoded.end(), packed.begin(), packed.end());
    tensor.decoded.insert(tensor.decoded.end(), begin, begin + size);
    packed = {};
  };
  while (in.next()) {
    switch (in.tag_and_type()) {
    case field(1, Bytes):
      for (int64_t dim : in.get_packed_int64())
        addDim(tensor, dim);
      break;
    case field(1, Varint):
      addDim(tensor, in.get_int64());
      break;
    case field(2, Varint):
      tensor.type = typeOfNumber(in.get_int32());
      break;
    case field(3, Bytes):
      throw Malformed{"a tensor is stored in segments"};
    case field(4, Bytes):
    case field(10, Bytes):
      if (std::string_view chunk = view(in);
          packed.empty() && tensor.decoded.empty())
        packed = chunk;
      else
        append(chunk.data(), chunk.size());
      break;
    case field(4, Fixed32): {
      uint32_t value = in.get_fixed32();
      append(&value, sizeof(value));
      break;
    }
    case field(10, Fixed64): {
      uint64_t value = in.get_fixed64();
      append(&value, sizeof(value));
      break;
    }
    case field(5, Bytes):
      for (int32_t value : in.get_packed_int32())
        addVarint(static_cast<uint64_t>(int64_t(value)));
      break;
    case field(7, Bytes):
    case field(11, Bytes):
      for (uint64_t value : in.get_packed_uint64())
        addVarint(value);
      break;
    case field(5, Varint):
    case field(7, Varint):
    case field(11, Varint):
      addVarint(in.get_uint64());
      break;
    case field(8, Bytes):
      tensor.name = view(in);
      break;
    case field(9, Bytes):
      raw = view(in);
      hasRaw = true;
      break;
    case field(13, Bytes):
      externalData.push_back(readEntry(in.get_message(), entities));
      break;
    case field(14, Varint):
      isExternal = in.get_int32() == 1;
      break;
    default:
      in.skip();
    }
  }
  if (!hasRaw && varints.empty() && tensor.decoded.empty()) {
    raw = packed;
    hasRaw = !packed.empty();
  }
  finish(tensor, raw, hasRaw, isExternal, externalData, varints);
  return tensor;
}

void TensorReader::finish(StoredTensor &tensor, std::string_view raw,
                          bool hasRaw, bool isExternal,
                          const Metadata &externalData,
                          const std::vector<uint64_t> &varints) {
  std::string name = "tensor `" + std::string(tensor.name) + "`: ";
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : tensor.dims) {
    if (dim < 0)
      throw Malformed{name + "dim of " + std::to_string(dim)};
    empty |= dim == 0;
  }
  for (int64_t dim : tensor.dims) {
    if (!empty && dim > maxStoredElements / count)
      throw Malformed{name + "its shape " + toString(tensor.dims) +
                      " has more than 2^48 elements"};
    count *= empty ? 0 : dim;
  }
  if (!hasValues(tensor.type))
    return; // kept without elements; whoever uses it reports the type
  auto width = static_cast<uint64_t>(bytesOf(tensor.type));
  uint64_t length = static_cast<uint64_t>(count) * width;

  if (isExternal) {
    placeExternal(tensor, name, externalData, length);
    return;
  }
  if (hasRaw) {
    tensor.decoded.clear();
    if (raw.size() != length)
      throw Malformed{name + "its shape needs " + std::to_string(length) +
                      " bytes, but the file holds " +
                      std::to_string(raw.size())};
    tensor.bytes = raw;
    if (model)
      tensor.span =
          FileSpan{model->path, static_cast<uint64_t>(raw.data() - file.data()),
                   raw.size()};
    return;
  }
  if (!varints.empty()) {
    tensor.decoded.clear();
    tensor.decoded.reserve(varints.size() * width);
    for (uint64_t value : varints) {
      const char *bytes = reinterpret_cast<const char *>(&value);
      tensor.decoded.insert(tensor.decoded.end(), bytes, bytes + width);
    }
  }
  if (tensor.decoded.size() != length)
    throw Malformed{name + "its shape needs " + std::to_string(count) +
                    " elements, but the file holds " +
                    std::to_string(tensor.decoded.size() / width)};
  tensor.bytes = {tensor.decoded.data(), tensor.decoded.size()};
}

void TensorReader::placeExternal(StoredTensor &tensor, const std::string &name,
                                 const Metadata &data, uint64_t length) {
  if (!model)
    throw Malformed{name + "external data outside of a model"};
  auto number = [&](std::string_view key) -> std::optional<uint64_t> {
    std::string_view text = find(data, key);
    if (text.empty())
      return std::nullopt;
    uint64_t value = 0;
    for (char digit : text) {
      if (digit < '0' || digit > '9' || value > (uint64_t(1) << 58))
        throw Malformed{name + "the " + std::string(key) +
                        " of its external data is `" + std::string(text) +
                        "`, which is no place in a file"};
      value = value * 10 + static_cast<uint64_t>(digit - '0');
    }
    return value;
  };
  std::string_view location = find(data, "location");
  uint64_t offset = number("offset").value_or(0);
  if (weights == Weights::MayBeAbsent && !isThere(location)) {
    tensor.isAbsent = true;
    tensor.span = FileSpan{std::string(location), offset, length};
    return;
  }
  size_t index = openExternal(name, location);
  const ExternalFile &external = model->externals[index];
  uint64_t rest = offset < external.size ? external.size - offset : 0;
  uint64_t stored = number("length").value_or(rest);
  if (stored != length)
    throw Malformed{name + "its shape needs " + std::to_string(length) +
                    " bytes, but its external data has " +
                    std::to_string(stored)};
  if (length > rest || offset > external.size) {
    if (std::string format = formatOf(external); !format.empty())
      throw Malformed{name + "lies in " + external.path + ", which " + format};
    throw Malformed{name + "lies at bytes " + std::to_string(offset) + " to " +
                    std::to_string(offset + length) + " of " + external.path +
                    ", which has " + std::to_string(external.size) +
                    ": the file is cut short, or belongs to another export"};
  }
  tensor.external = index;
  tensor.span = FileSpan{external.path, offset, length};
}

/// The folder of the external data.
std::string TensorReader::folder() const {
  size_t slash = model->path.rfind('/');
  return slash == std::string::npos ? "."
         : slash == 0               ? "/"
                                    : model->path.substr(0, slash);
}

bool TensorReader::isThere(std::string_view location) const {
  std::string path = folder() + "/" + std::string(location);
  return access(path.c_str(), F_OK) == 0 || errno != ENOENT;
}

size_t TensorReader::openExternal(const std::string &name,
                                  std::string_view location) {
  auto [entry, isNew] =
      externalIndex.try_emplace(location, model->externals.size());
  if (isNew) {
    if (model->externals.size() == 1024)
      throw Malformed{"names more than 1024 files of external data"};
    auto external = openBelow(folder(), location);
    if (!external)
      throw Malformed{name + external.error().message};
    model->externals.push_back(std::move(*external));
  }
  return entry->second;
}

std::pair<std::string_view, std::string_view> readEntry(pbf_reader in,
                                                        EntityCount &entities) {
  entities.add(2 * sizeof(std::string_view));
  std::pair<std::string_view, std::string_view> entry;
  while (in.next()) {
    switch (in.tag_and_type()) {
    case field(1, Bytes):
      entry.first = view(in);
      break;
    case field(2, Bytes):
      entry.second = view(in);
      break;
    default:
      in.skip();
    }
  }
  return entry;
}

Result<StoredTensor> readTensor(std::string_view bytes) {
  try {
    EntityCount entities(bytes.size());
    return TensorReader(nullptr, bytes, Weights::Required, entities)
        .read(pbf_reader(bytes.data(), bytes.size()));
  } catch (const Malformed &malformed) {
    return Error{malformed.message};
  } catch (const protozero::exception &) {
    return Error{"not a tensor, or cut short"};
  }
}

} // namespace polyrank::frontends::onnx
