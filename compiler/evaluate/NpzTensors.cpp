// Host tensors in .npz and .npy files.

#include "compiler/evaluate/NpzTensors.h"

#include "support/arrays/Npy.h"
#include "support/arrays/Npz.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace polyrank;
using namespace polyrank::evaluate;
using graph::Tensor;

struct NpzTensors::Arrays {
  struct Entry {
    std::string name;
    StoredArray array;
    bool isRead = false;
  };
  std::vector<Entry> list;
};

NpzTensors::NpzTensors() : arrays(std::make_unique<Arrays>()) {}
NpzTensors::~NpzTensors() = default;

Result<void> NpzTensors::open(const std::string &text) {
  auto add = [&](std::string name, StoredArray array) -> Result<void> {
    for (const Arrays::Entry &entry : arrays->list)
      if (entry.name == name)
        return Error{"array '" + name + "' is given twice, by " +
                     entry.array.path() + " and " + array.path()};
    arrays->list.push_back({std::move(name), std::move(array)});
    return {};
  };
  size_t equals = text.find('=');
  if (equals != std::string::npos) {
    auto array = openNpy(text.substr(equals + 1));
    if (!array)
      return array.error();
    return add(text.substr(0, equals), std::move(*array));
  }
  if (llvm::StringRef(text).ends_with(".npy"))
    return Error{text + " holds one array without a name; say NAME=" + text};
  auto opened = openNpz(text);
  if (!opened)
    return opened.error();
  for (StoredArray &array : *opened)
    if (auto added = add(array.name(), std::move(array)); !added)
      return added;
  return {};
}

std::vector<std::string> NpzTensors::getUnread() const {
  std::vector<std::string> names;
  for (const Arrays::Entry &entry : arrays->list)
    if (!entry.isRead)
      names.push_back(entry.name);
  return names;
}

static std::string describe(llvm::ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "[";
  llvm::interleave(shape, out, ",");
  out << "]";
  return text;
}

Result<void> NpzTensors::read(const std::string &name, Tensor &tensor) {
  for (Arrays::Entry &entry : arrays->list) {
    if (entry.name != name)
      continue;
    entry.isRead = true;
    const StoredArray &array = entry.array;
    if (llvm::ArrayRef<int64_t>(array.shape()) !=
        llvm::ArrayRef<int64_t>(tensor.shape))
      return Error{"array '" + name + "' of " + array.path() + " has shape " +
                   describe(array.shape()) + " where the program has " +
                   describe(tensor.shape)};
    ElementType wide = tensor.isFloat() ? ElementType::F64 : ElementType::I64;
    if (array.type() != ElementType::BOOL && !canConvert(array.type(), wide))
      return Error{"array '" + name + "' of " + array.path() + " holds " +
                   longNameOf(array.type()) +
                   ", which does not convert to the argument's type"};
    int64_t count = array.elements();
    std::vector<std::byte> raw(count * bytesOf(array.type()));
    if (auto done = array.read(0, count, raw.data()); !done)
      return done.error();
    if (array.type() == ElementType::BOOL) {
      for (int64_t i = 0; i < count; ++i)
        tensor.set(i, static_cast<int>(raw[i]));
      return {};
    }
    auto *into = tensor.isFloat()
                     ? reinterpret_cast<std::byte *>(tensor.floats.data())
                     : reinterpret_cast<std::byte *>(tensor.integers.data());
    if (auto bad =
            convertValues(array.type(), raw.data(), count, wide, {}, into))
      return Error{"array '" + name + "' element " +
                   std::to_string(bad->index) + " is " + bad->value +
                   ", which does not convert"};
    return {};
  }
  return {};
}

Result<void> polyrank::evaluate::writeNpz(
    const std::string &path,
    const std::vector<std::pair<std::string, Tensor>> &tensors) {
  auto writer = NpzWriter::create(path);
  if (!writer)
    return writer.error();
  for (const auto &[name, tensor] : tensors) {
    std::span<const int64_t> shape(tensor.shape.data(), tensor.shape.size());
    std::span<const std::byte> data =
        tensor.isFloat() ? std::as_bytes(std::span(tensor.floats))
                         : std::as_bytes(std::span(tensor.integers));
    if (auto added = writer->add(
            name, tensor.isFloat() ? ElementType::F64 : ElementType::I64, shape,
            data);
        !added)
      return added.error();
  }
  if (auto done = writer->commit(); !done)
    return done.error();
  return {};
}
