// Reads ONNX's protobuf messages from the mapped file, with every length,
// count and depth checked. The only file that sees protozero's exceptions.

#include "frontends/onnx/AbsentWeights.h"
#include "frontends/onnx/Model.h"
#include "support/FileFormat.h"

#include <protozero/pbf_reader.hpp>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <map>

static_assert(std::endian::native == std::endian::little,
              "tensor elements are used as they lie in the file");

namespace polyrank::frontends::onnx {

namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr int maxDepth = 32;             // graphs inside attributes
constexpr int64_t maxEntities = 1 << 23; // nodes, attributes, tensors, names
constexpr size_t maxRank = 64;

struct Malformed {
  std::string message;
};

std::string toString(const std::vector<int64_t> &dims) {
  std::string text = "[";
  for (size_t d = 0; d < dims.size(); ++d)
    text += (d == 0 ? "" : ", ") + std::to_string(dims[d]);
  return text + "]";
}

std::string_view view(pbf_reader &reader) {
  auto data = reader.get_view();
  return {data.data(), data.size()};
}

/// Switch label for a field number with its wire type: a field that comes
/// with another wire type than its schema's is skipped, as protobuf does.
constexpr uint32_t field(uint32_t number, pbf_wire_type type) {
  return protozero::tag_and_type(number, type);
}
constexpr auto Varint = pbf_wire_type::varint;
constexpr auto Bytes = pbf_wire_type::length_delimited;
constexpr auto Fixed32 = pbf_wire_type::fixed32;
constexpr auto Fixed64 = pbf_wire_type::fixed64;

class Reader {
public:
  Reader(Model *model, std::string_view file,
         Weights weights = Weights::Required)
      : model(model), file(file), weights(weights) {}

  void readModel(pbf_reader in) {
    bool hasGraph = false;
    while (in.next()) {
      switch (in.tag_and_type()) {
      case field(1, Varint):
        model->irVersion = in.get_int64();
        break;
      case field(2, Bytes):
        model->producer = view(in);
        break;
      case field(7, Bytes):
        if (hasGraph)
          throw Malformed{"the model holds two graphs"};
        hasGraph = true;
        model->graph = readGraph(in.get_message(), 0);
        break;
      case field(8, Bytes):
        model->opsets.push_back(readOpset(in.get_message()));
        break;
      case field(25, Bytes):
        model->functions.push_back(readFunction(in.get_message()));
        break;
      default:
        in.skip();
      }
    }
    if (!hasGraph)
      throw Malformed{"holds no graph"};
  }

  Tensor readTensor(pbf_reader in) {
    countEntity();
    Tensor tensor;
    std::string_view raw, packed;
    bool hasRaw = false, isExternal = false;
    Metadata externalData;
    // The data type may come after the values, so varints wait for it.
    std::vector<uint64_t> varints;
    // Floats that are one packed field are used where they lie; others are
    // collected.
    auto append = [&](const void *data, size_t size) {
      auto *begin = static_cast<const char *>(data);
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
        tensor.type = static_cast<DataType>(in.get_int32());
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
          varints.push_back(static_cast<uint64_t>(int64_t(value)));
        break;
      case field(7, Bytes):
      case field(11, Bytes):
        for (uint64_t value : in.get_packed_uint64())
          varints.push_back(value);
        break;
      case field(5, Varint):
      case field(7, Varint):
      case field(11, Varint):
        varints.push_back(in.get_uint64());
        break;
      case field(8, Bytes):
        tensor.name = view(in);
        break;
      case field(9, Bytes):
        raw = view(in);
        hasRaw = true;
        break;
      case field(13, Bytes):
        externalData.push_back(readEntry(in.get_message()));
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

private:
  void countEntity() {
    if (++entities > maxEntities)
      throw Malformed{"holds more than " + std::to_string(maxEntities) +
                      " nodes, attributes and tensors"};
  }

  static void addDim(Tensor &tensor, int64_t dim) {
    if (tensor.dims.size() == maxRank)
      throw Malformed{"a tensor has more than " + std::to_string(maxRank) +
                      " dims"};
    tensor.dims.push_back(dim);
  }

  void finish(Tensor &tensor, std::string_view raw, bool hasRaw,
              bool isExternal, const Metadata &externalData,
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
    unsigned width = byteSize(tensor.type);
    if (width == 0)
      return; // kept without elements; whoever uses it names the type
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
        tensor.span = FileSpan{model->path,
                               static_cast<uint64_t>(raw.data() - file.data()),
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

  void placeExternal(Tensor &tensor, const std::string &name,
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
      if (std::string format = foreignFormat(external); !format.empty())
        throw Malformed{name + "lies in " + external.path + ", which " +
                        format};
      throw Malformed{name + "lies at bytes " + std::to_string(offset) +
                      " to " + std::to_string(offset + length) + " of " +
                      external.path + ", which has " +
                      std::to_string(external.size) +
                      ": the file is cut short, or belongs to another export"};
    }
    tensor.external = index;
    tensor.span = FileSpan{external.path, offset, length};
  }

  /// What a file of external data is instead; empty where nothing is known.
  static std::string foreignFormat(const ExternalFile &external) {
    std::string start(std::min<uint64_t>(external.size, formatBytes), '\0'),
        error;
    if (!external.read(0, start, error))
      return "";
    return polyrank::foreignFormat(start, WantedFile::Weights);
  }

  /// The folder that external data lies in.
  std::string folder() const {
    size_t slash = model->path.rfind('/');
    return slash == std::string::npos ? "."
           : slash == 0               ? "/"
                                      : model->path.substr(0, slash);
  }

  bool isThere(std::string_view location) const {
    std::string path = folder() + "/" + std::string(location);
    return access(path.c_str(), F_OK) == 0 || errno != ENOENT;
  }

  size_t openExternal(const std::string &name, std::string_view location) {
    auto [entry, isNew] =
        externalIndex.try_emplace(location, model->externals.size());
    if (isNew) {
      if (model->externals.size() == 1024)
        throw Malformed{"names more than 1024 files of external data"};
      std::string error;
      auto external = openBelow(folder(), location, error);
      if (!external)
        throw Malformed{name + error};
      model->externals.push_back(std::move(*external));
    }
    return entry->second;
  }

  std::pair<std::string_view, std::string_view> readEntry(pbf_reader in) {
    countEntity();
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

  OpsetImport readOpset(pbf_reader in) {
    countEntity();
    OpsetImport opset;
    while (in.next()) {
      switch (in.tag_and_type()) {
      case field(1, Bytes):
        opset.domain = view(in);
        break;
      case field(2, Varint):
        opset.version = in.get_int64();
        break;
      default:
        in.skip();
      }
    }
    return opset;
  }

  Graph readGraph(pbf_reader in, int depth) {
    if (depth > maxDepth)
      throw Malformed{"graphs are nested more than " +
                      std::to_string(maxDepth) + " deep"};
    countEntity();
    Graph graph;
    while (in.next()) {
      switch (in.tag_and_type()) {
      case field(1, Bytes):
        graph.nodes.push_back(readNode(in.get_message(), depth));
        break;
      case field(2, Bytes):
        graph.name = view(in);
        break;
      case field(5, Bytes):
        graph.initializers.push_back(readTensor(in.get_message()));
        break;
      case field(11, Bytes):
        graph.inputs.push_back(readValueInfo(in.get_message()));
        break;
      case field(12, Bytes):
        graph.outputs.push_back(readValueInfo(in.get_message()));
        break;
      case field(13, Bytes):
        graph.values.push_back(readValueInfo(in.get_message()));
        break;
      case field(15, Bytes):
        throw Malformed{"holds a sparse initializer; store it densely"};
      case field(16, Bytes):
        graph.metadata.push_back(readEntry(in.get_message()));
        break;
      default:
        in.skip();
      }
    }
    return graph;
  }

  Node readNode(pbf_reader in, int depth) {
    countEntity();
    if (++nodes > maxNodes)
      throw Malformed{"holds more than " + std::to_string(maxNodes) +
                      " nodes"};
    Node node;
    while (in.next()) {
      switch (in.tag_and_type()) {
      case field(1, Bytes):
        countEntity();
        node.inputs.push_back(view(in));
        break;
      case field(2, Bytes):
        countEntity();
        node.outputs.push_back(view(in));
        break;
      case field(3, Bytes):
        node.name = view(in);
        break;
      case field(4, Bytes):
        node.type = view(in);
        break;
      case field(5, Bytes):
        node.attributes.push_back(readAttribute(in.get_message(), depth));
        break;
      case field(7, Bytes):
        node.domain = view(in);
        break;
      case field(8, Bytes):
        node.overload = view(in);
        break;
      case field(9, Bytes):
        node.metadata.push_back(readEntry(in.get_message()));
        break;
      default:
        in.skip();
      }
    }
    if (node.domain == "ai.onnx")
      node.domain = "";
    return node;
  }

  Attribute readAttribute(pbf_reader in, int depth) {
    countEntity();
    Attribute attribute;
    using Type = Attribute::Type;
    Type seen = Type::Undefined; // IR versions before 2 write no type
    while (in.next()) {
      switch (in.tag_and_type()) {
      case field(1, Bytes):
        attribute.name = view(in);
        break;
      case field(2, Fixed32):
        attribute.f = in.get_float();
        seen = Type::Float;
        break;
      case field(3, Varint):
        attribute.i = in.get_int64();
        seen = Type::Int;
        break;
      case field(4, Bytes):
        attribute.s = view(in);
        seen = Type::String;
        break;
      case field(5, Bytes):
        attribute.t = std::make_shared<Tensor>(readTensor(in.get_message()));
        seen = Type::Tensor;
        break;
      case field(6, Bytes):
        attribute.g =
            std::make_shared<Graph>(readGraph(in.get_message(), depth + 1));
        seen = Type::Graph;
        break;
      case field(7, Bytes):
        for (float value : in.get_packed_float())
          attribute.floats.push_back(value);
        seen = Type::Floats;
        break;
      case field(7, Fixed32):
        attribute.floats.push_back(in.get_float());
        seen = Type::Floats;
        break;
      case field(8, Bytes):
        for (int64_t value : in.get_packed_int64())
          attribute.ints.push_back(value);
        seen = Type::Ints;
        break;
      case field(8, Varint):
        attribute.ints.push_back(in.get_int64());
        seen = Type::Ints;
        break;
      case field(9, Bytes):
        countEntity();
        attribute.strings.push_back(view(in));
        seen = Type::Strings;
        break;
      case field(20, Varint):
        attribute.type = static_cast<Type>(in.get_int32());
        break;
      case field(21, Bytes):
        attribute.reference = view(in);
        break;
      default:
        in.skip();
      }
    }
    if (attribute.type == Type::Undefined)
      attribute.type = seen;
    bool missing = (attribute.type == Type::Tensor && !attribute.t) ||
                   (attribute.type == Type::Graph && !attribute.g);
    if (missing && attribute.reference.empty())
      throw Malformed{"attribute `" + std::string(attribute.name) +
                      "` has no value"};
    return attribute;
  }

  ValueInfo readValueInfo(pbf_reader in) {
    countEntity();
    ValueInfo value;
    while (in.next()) {
      switch (in.tag_and_type()) {
      case field(1, Bytes):
        value.name = view(in);
        break;
      case field(2, Bytes):
        readType(in.get_message(), value);
        break;
      case field(4, Bytes):
        value.metadata.push_back(readEntry(in.get_message()));
        break;
      default:
        in.skip();
      }
    }
    return value;
  }

  void readType(pbf_reader in, ValueInfo &value) {
    while (in.next()) {
      if (in.tag_and_type() != field(1, Bytes)) {
        in.skip();
        continue;
      }
      value.isTensor = true;
      pbf_reader tensor = in.get_message();
      while (tensor.next()) {
        switch (tensor.tag_and_type()) {
        case field(1, Varint):
          value.type = static_cast<DataType>(tensor.get_int32());
          break;
        case field(2, Bytes):
          value.shape = readShape(tensor.get_message());
          break;
        default:
          tensor.skip();
        }
      }
    }
  }

  std::vector<Dim> readShape(pbf_reader in) {
    std::vector<Dim> shape;
    while (in.next()) {
      if (in.tag_and_type() != field(1, Bytes)) {
        in.skip();
        continue;
      }
      if (shape.size() == maxRank)
        throw Malformed{"a shape has more than " + std::to_string(maxRank) +
                        " dims"};
      Dim dim;
      pbf_reader message = in.get_message();
      while (message.next()) {
        switch (message.tag_and_type()) {
        case field(1, Varint):
          dim.value = message.get_int64();
          break;
        case field(2, Bytes):
          dim.parameter = view(message);
          break;
        default:
          message.skip();
        }
      }
      shape.push_back(dim);
    }
    return shape;
  }

  Function readFunction(pbf_reader in) {
    countEntity();
    Function function;
    while (in.next()) {
      switch (in.tag_and_type()) {
      case field(1, Bytes):
        function.name = view(in);
        break;
      case field(4, Bytes):
        countEntity();
        function.inputs.push_back(view(in));
        break;
      case field(5, Bytes):
        countEntity();
        function.outputs.push_back(view(in));
        break;
      case field(6, Bytes):
        countEntity();
        function.attributes.push_back(view(in));
        break;
      case field(7, Bytes):
        function.nodes.push_back(readNode(in.get_message(), 0));
        break;
      case field(9, Bytes):
        function.opsets.push_back(readOpset(in.get_message()));
        break;
      case field(10, Bytes):
        function.domain = view(in);
        break;
      case field(11, Bytes):
        function.defaults.push_back(readAttribute(in.get_message(), 0));
        break;
      case field(13, Bytes):
        function.overload = view(in);
        break;
      default:
        in.skip();
      }
    }
    return function;
  }

  Model *model;          // null while a lone tensor is read
  std::string_view file; // what offsets of spans count from
  Weights weights;
  int64_t entities = 0, nodes = 0;
  std::map<std::string_view, size_t> externalIndex;
};

} // namespace

std::string nameOf(DataType type) {
  switch (type) {
  case DataType::Float:
    return "float32";
  case DataType::Uint8:
    return "uint8";
  case DataType::Int8:
    return "int8";
  case DataType::Uint16:
    return "uint16";
  case DataType::Int16:
    return "int16";
  case DataType::Int32:
    return "int32";
  case DataType::Int64:
    return "int64";
  case DataType::String:
    return "string";
  case DataType::Bool:
    return "bool";
  case DataType::Float16:
    return "float16";
  case DataType::Double:
    return "float64";
  case DataType::Uint32:
    return "uint32";
  case DataType::Uint64:
    return "uint64";
  case DataType::BFloat16:
    return "bfloat16";
  default:
    break;
  }
  // Those that have no whole bytes, or that nothing here computes with.
  constexpr std::pair<int32_t, const char *> others[] = {
      {0, "undefined"},       {14, "complex64"},   {15, "complex128"},
      {17, "float8e4m3fn"},   {18, "float8e4m3fnuz"},
      {19, "float8e5m2"},     {20, "float8e5m2fnuz"},
      {21, "uint4"},          {22, "int4"},        {23, "float4e2m1"},
      {24, "float8e8m0"}};
  for (auto [number, name] : others)
    if (number == static_cast<int32_t>(type))
      return name;
  return "type " + std::to_string(static_cast<int32_t>(type));
}

unsigned byteSize(DataType type) {
  switch (type) {
  case DataType::Uint8:
  case DataType::Int8:
  case DataType::Bool:
    return 1;
  case DataType::Uint16:
  case DataType::Int16:
  case DataType::Float16:
  case DataType::BFloat16:
    return 2;
  case DataType::Float:
  case DataType::Int32:
  case DataType::Uint32:
    return 4;
  case DataType::Double:
  case DataType::Int64:
  case DataType::Uint64:
    return 8;
  default:
    return 0;
  }
}

std::string_view find(const Metadata &metadata, std::string_view key) {
  for (const auto &[name, value] : metadata)
    if (name == key)
      return value;
  return {};
}

std::unique_ptr<Model> readModel(const std::string &path, std::string &error,
                                 Weights weights) {
  auto model = std::make_unique<Model>();
  model->path = path;
  if (!model->file.map(path, error))
    return nullptr;
  std::string_view bytes = model->file.bytes();
  if (std::string format =
          foreignFormat(bytes.substr(0, formatBytes), WantedFile::Model);
      !format.empty()) {
    error = path + ": " + format;
    return nullptr;
  }
  try {
    Reader(model.get(), bytes, weights)
        .readModel(pbf_reader(bytes.data(), bytes.size()));
  } catch (const Malformed &malformed) {
    error = path + ": " + malformed.message;
    return nullptr;
  } catch (const protozero::exception &) {
    error = path + ": not an ONNX model, or cut short";
    return nullptr;
  }
  if (weights == Weights::MayBeAbsent)
    addAbsentWeights(*model);
  return model;
}

std::optional<Tensor> readTensor(std::string_view bytes, std::string &error) {
  try {
    return Reader(nullptr, bytes)
        .readTensor(pbf_reader(bytes.data(), bytes.size()));
  } catch (const Malformed &malformed) {
    error = malformed.message;
  } catch (const protozero::exception &) {
    error = "not a tensor, or cut short";
  }
  return std::nullopt;
}

} // namespace polyrank::frontends::onnx
