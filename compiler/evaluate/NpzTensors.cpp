// Host tensors in .npz files.

#include "compiler/evaluate/NpzTensors.h"

#include "runtime/data/Npz.h"

using namespace polyrank;
using namespace polyrank::evaluate;
using graph::Tensor;
using runtime::DType;

struct NpzTensors::Arrays {
  std::vector<runtime::StoredArray> list;
};

NpzTensors::NpzTensors() : arrays(std::make_unique<Arrays>()) {}
NpzTensors::~NpzTensors() = default;

bool NpzTensors::open(const std::string &path, std::string &error) {
  auto opened = runtime::openNpz(path);
  if (!opened) {
    error = opened.error().message;
    return false;
  }
  arrays->list = std::move(*opened);
  return true;
}

bool NpzTensors::read(const std::string &name, Tensor &tensor,
                      std::string &error) {
  for (const runtime::StoredArray &array : arrays->list) {
    if (array.name() != name)
      continue;
    if (llvm::ArrayRef<int64_t>(array.shape()) !=
        llvm::ArrayRef<int64_t>(tensor.shape)) {
      error = "array '" + name + "' of " + array.path() +
              " has another shape than the argument";
      return false;
    }
    DType wide = tensor.isFloat() ? DType::F64 : DType::I64;
    if (array.type() != runtime::ValueType::BOOL &&
        !runtime::canConvert(array.type(), wide)) {
      error = "array '" + name + "' of " + array.path() + " holds " +
              runtime::nameOf(array.type()) +
              ", which does not convert to the argument's type";
      return false;
    }
    int64_t count = array.elements();
    std::vector<std::byte> raw(count * runtime::bytesOf(array.type()));
    if (auto done = array.read(0, count, raw.data()); !done) {
      error = done.error().message;
      return false;
    }
    if (array.type() == runtime::ValueType::BOOL) {
      for (int64_t i = 0; i < count; ++i)
        tensor.set(i, static_cast<int>(raw[i]));
      return true;
    }
    auto *into = tensor.isFloat()
                     ? reinterpret_cast<std::byte *>(tensor.floats.data())
                     : reinterpret_cast<std::byte *>(tensor.integers.data());
    if (auto bad = runtime::convertValues(array.type(), raw.data(), count, wide,
                                          {}, into)) {
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
  auto fail = [&](const runtime::Error &reason) {
    error = reason.message;
    return false;
  };
  auto writer = runtime::NpzWriter::create(path);
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
