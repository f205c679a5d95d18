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

bool NpzTensors::open(const std::string &text, std::string &error) {
  auto add = [&](std::string name, StoredArray array) {
    for (const Arrays::Entry &entry : arrays->list)
      if (entry.name == name) {
        error = "array '" + name + "' is given twice, by " +
                entry.array.path() + " and " + array.path();
        return false;
      }
    arrays->list.push_back({std::move(name), std::move(array)});
    return true;
  };
  size_t equals = text.find('=');
  if (equals != std::string::npos) {
    auto array = openNpy(text.substr(equals + 1));
    if (!array) {
      error = array.error().message;
      return false;
    }
    return add(text.substr(0, equals), std::move(*array));
  }
  if (llvm::StringRef(text).ends_with(".npy")) {
    error = text + " holds one array without a name; say NAME=" + text;
    return false;
  }
  auto opened = openNpz(text);
  if (!opened) {
    error = opened.error().message;
    return false;
  }
  return llvm::all_of(*opened, [&](StoredArray &array) {
    return add(array.name(), std::move(array));
  });
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

bool NpzTensors::read(const std::string &name, Tensor &tensor,
                      std::string &error) {
  for (Arrays::Entry &entry : arrays->list) {
    if (entry.name != name)
      continue;
    entry.isRead = true;
    const StoredArray &array = entry.array;
    if (llvm::ArrayRef<int64_t>(array.shape()) !=
        llvm::ArrayRef<int64_t>(tensor.shape)) {
      error = "array '" + name + "' of " + array.path() + " has shape " +
              describe(array.shape()) + " where the program has " +
              describe(tensor.shape);
      return false;
    }
    DType wide = tensor.isFloat() ? DType::F64 : DType::I64;
    if (array.type() != ValueType::BOOL && !canConvert(array.type(), wide)) {
      error = "array '" + name + "' of " + array.path() + " holds " +
              nameOf(array.type()) +
              ", which does not convert to the argument's type";
      return false;
    }
    int64_t count = array.elements();
    std::vector<std::byte> raw(count * bytesOf(array.type()));
    if (auto done = array.read(0, count, raw.data()); !done) {
      error = done.error().message;
      return false;
    }
    if (array.type() == ValueType::BOOL) {
      for (int64_t i = 0; i < count; ++i)
        tensor.set(i, static_cast<int>(raw[i]));
      return true;
    }
    auto *into = tensor.isFloat()
                     ? reinterpret_cast<std::byte *>(tensor.floats.data())
                     : reinterpret_cast<std::byte *>(tensor.integers.data());
    if (auto bad =
            convertValues(array.type(), raw.data(), count, wide, {}, into)) {
      error = "array '" + name + "' element " + std::to_string(bad->index) +
              " is " + bad->value + ", which does not convert";
      return false;
    }
    return true;
  }
  return true;
}

bool polyrank::evaluate::writeNpz(
    const std::string &path,
    const std::vector<std::pair<std::string, Tensor>> &tensors,
    std::string &error) {
  auto fail = [&](const Error &reason) {
    error = reason.message;
    return false;
  };
  auto writer = NpzWriter::create(path);
  if (!writer)
    return fail(writer.error());
  for (const auto &[name, tensor] : tensors) {
    std::span<const int64_t> shape(tensor.shape.data(), tensor.shape.size());
    std::span<const std::byte> data =
        tensor.isFloat() ? std::as_bytes(std::span(tensor.floats))
                         : std::as_bytes(std::span(tensor.integers));
    if (auto added = writer->add(
            name, tensor.isFloat() ? DType::F64 : DType::I64, shape, data);
        !added)
      return fail(added.error());
  }
  if (auto done = writer->commit(); !done)
    return fail(done.error());
  return true;
}
