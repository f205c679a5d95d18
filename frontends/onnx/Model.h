// An ONNX model as the file holds it: names are views into the mapped file,
// weights are spans of files, and nothing is copied.

#pragma once

#include "support/ElementType.h"
#include "support/MappedFile.h"
#include "support/Result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontends/import/FileSpan.h"

namespace polyrank::frontends::onnx {

/// The most nodes of a file, also after calls of functions are replaced by
/// their bodies.
constexpr int64_t maxNodes = 1 << 19;
/// The most elements of one tensor.
constexpr int64_t maxStoredElements = int64_t(1) << 48;

/// The type with this number of TensorProto.DataType; UNDEFINED for 0 and for
/// numbers that ONNX does not have.
constexpr ElementType typeOfNumber(int64_t number) {
  return number == static_cast<int>(number)
             ? findElementType(&ElementTypeRow::onnx, static_cast<int>(number))
                   .value_or(ElementType::UNDEFINED)
             : ElementType::UNDEFINED;
}

/// A TensorProto. Its elements, row-major and little-endian, are in `bytes` (of
/// the mapped file, or decoded from varints into `decoded`), or else in
/// external file number `external`.
struct StoredTensor {
  StoredTensor() = default;
  StoredTensor(StoredTensor &&) = default;
  StoredTensor &operator=(StoredTensor &&) = default;

  std::string_view name;
  ElementType type = ElementType::UNDEFINED;
  std::vector<int64_t> dims;
  std::string_view bytes;
  std::optional<size_t> external;
  std::optional<FileSpan> span; // absent if the elements were decoded
  /// True if the elements do not exist; `span` is where they would be. See
  /// Weights::MayBeAbsent.
  bool isAbsent = false;
  std::vector<char> decoded;

  int64_t numElements() const {
    int64_t count = 1;
    for (int64_t dim : dims)
      count *= dim; // the reader has checked it against overflow
    return count;
  }
};

struct Graph;

struct Attribute {
  /// AttributeProto.AttributeType: the supported ones.
  enum class Type : int32_t {
    Undefined = 0,
    Float = 1,
    Int = 2,
    String = 3,
    Tensor = 4,
    Graph = 5,
    Floats = 6,
    Ints = 7,
    Strings = 8,
    Tensors = 9
  };

  std::string_view name;
  Type type = Type::Undefined;
  std::string_view reference; // in a function: the attribute of the caller
  float f = 0;
  int64_t i = 0;
  std::string_view s;
  std::shared_ptr<StoredTensor> t;
  std::shared_ptr<Graph> g;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string_view> strings;
};

using Metadata = std::vector<std::pair<std::string_view, std::string_view>>;

/// The value of `key`; empty if there is none.
std::string_view find(const Metadata &metadata, std::string_view key);

struct Node {
  std::string_view name, domain, type, overload;
  std::vector<std::string_view> inputs, outputs; // "" is an omitted one
  std::vector<Attribute> attributes;
  Metadata metadata;
};

/// One dim of a declared shape: a number, or a name for a size that varies.
struct Dim {
  std::optional<int64_t> value;
  std::string_view parameter;
};

struct ValueInfo {
  std::string_view name;
  ElementType type = ElementType::UNDEFINED;
  bool isTensor = false;
  std::optional<std::vector<Dim>> shape;
  Metadata metadata;
};

struct Graph {
  std::string_view name;
  std::vector<Node> nodes;
  std::vector<StoredTensor> initializers;
  std::vector<ValueInfo> inputs, outputs, values;
  Metadata metadata;
};

/// Calls `callback` with the nodes of `graph` and of the graphs of its branches
/// and loops.
template <typename Callback>
void forEachNode(const Graph &graph, const Callback &callback) {
  for (const Node &node : graph.nodes) {
    callback(node);
    for (const Attribute &attribute : node.attributes)
      if (attribute.g)
        forEachNode(*attribute.g, callback);
  }
}

struct OpsetImport {
  std::string_view domain;
  int64_t version = 0;
};

/// A model-local function; calls of it are inlined.
struct Function {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs, attributes;
  std::vector<Attribute> defaults;
  std::vector<Node> nodes;
  std::vector<OpsetImport> opsets;
};

/// An open file of external data, below the folder of the model.
class ExternalFile {
public:
  ExternalFile(std::string path, int descriptor, uint64_t size)
      : path(std::move(path)), size(size), descriptor(descriptor) {}
  ExternalFile(ExternalFile &&other) noexcept
      : path(std::move(other.path)), size(other.size),
        descriptor(std::exchange(other.descriptor, -1)) {}
  ExternalFile &operator=(ExternalFile &&) = delete;
  ~ExternalFile();

  /// Reads `into.size()` bytes from `offset` on: with read, not by mapping, so
  /// that a file that shrinks meanwhile gives an error and not a signal.
  Result<void> read(uint64_t offset, std::span<char> into) const;

  std::string path; // folder of the model / location
  uint64_t size;

private:
  int descriptor;
};

/// Opens `location` below `folder`. Refuses a path that leaves the folder, a
/// link of either kind and anything but a regular file: a model from elsewhere
/// must not refer to this machine's files (CVE-2022-25882, CVE-2024-27318,
/// CVE-2026-27489, CVE-2026-34446 and -34447).
Result<ExternalFile> openBelow(const std::string &folder,
                               std::string_view location);

struct Model {
  std::string path;
  int64_t irVersion = 0;
  std::string_view producer;
  std::vector<OpsetImport> opsets;
  Graph graph;
  std::vector<Function> functions;
  std::vector<ExternalFile> externals;
  MappedFile file;

  /// Reads the bytes of `tensor`, wherever they are stored.
  Result<void> load(const StoredTensor &tensor, std::vector<char> &into) const;
  /// The model-local function that `node` calls, or null.
  const Function *findFunction(const Node &node) const;
};

/// Says whether a model may lack its weights.
enum class Weights {
  /// External files must exist; what is not an initializer is an input.
  Required,
  /// Tensors in external files that do not exist have no elements, and neither
  /// have those that are left as inputs (AbsentWeights.h).
  MayBeAbsent,
};

/// Reads the model at `path`. For any file it returns a model (never null) or
/// an error that begins with the path: lengths, counts, sizes and depth are
/// checked before use.
Result<std::unique_ptr<Model>> readModel(const std::string &path,
                                         Weights weights = Weights::Required);

/// Reads one serialised TensorProto (the form of ONNX's test data) from
/// `bytes`, which must outlive it.
Result<StoredTensor> readTensor(std::string_view bytes);

} // namespace polyrank::frontends::onnx
