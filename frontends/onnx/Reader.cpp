// Reads ONNX's protobuf messages from the mapped file, and checks every length,
// count and depth; TensorReader reads tensors.

#include "frontends/onnx/AbsentWeights.h"
#include "frontends/onnx/OtherExporters.h"
#include "frontends/onnx/TensorReader.h"
#include "support/FileFormat.h"

namespace polyrank::frontends::onnx {

namespace {

constexpr int maxDepth = 32; // of graphs inside attributes

class Reader {
public:
  Reader(Model *model, std::string_view file, Weights weights)
      : model(model), entities(file.size()),
        tensors(model, file, weights, entities) {}

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

private:
  OpsetImport readOpset(pbf_reader in) {
    entities.add(sizeof(OpsetImport));
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
    entities.add(sizeof(Graph));
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
        graph.initializers.push_back(tensors.read(in.get_message()));
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
        graph.metadata.push_back(readEntry(in.get_message(), entities));
        break;
      default:
        in.skip();
      }
    }
    return graph;
  }

  Node readNode(pbf_reader in, int depth) {
    entities.add(sizeof(Node));
    if (++nodes > maxNodes)
      throw Malformed{"holds more than " + std::to_string(maxNodes) + " nodes"};
    Node node;
    while (in.next()) {
      switch (in.tag_and_type()) {
      case field(1, Bytes):
        entities.add(sizeof(std::string_view));
        node.inputs.push_back(view(in));
        break;
      case field(2, Bytes):
        entities.add(sizeof(std::string_view));
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
        node.metadata.push_back(readEntry(in.get_message(), entities));
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
    entities.add(sizeof(Attribute));
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
        attribute.t =
            std::make_shared<StoredTensor>(tensors.read(in.get_message()));
        seen = Type::Tensor;
        break;
      case field(6, Bytes):
        attribute.g =
            std::make_shared<Graph>(readGraph(in.get_message(), depth + 1));
        seen = Type::Graph;
        break;
      case field(7, Bytes):
        for (float value : in.get_packed_float()) {
          entities.addNumbers(sizeof(value));
          attribute.floats.push_back(value);
        }
        seen = Type::Floats;
        break;
      case field(7, Fixed32):
        attribute.floats.push_back(in.get_float());
        seen = Type::Floats;
        break;
      case field(8, Bytes):
        for (int64_t value : in.get_packed_int64()) {
          entities.addNumbers(sizeof(value));
          attribute.ints.push_back(value);
        }
        seen = Type::Ints;
        break;
      case field(8, Varint):
        entities.addNumbers(sizeof(int64_t));
        attribute.ints.push_back(in.get_int64());
        seen = Type::Ints;
        break;
      case field(9, Bytes):
        entities.add(sizeof(std::string_view));
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
    entities.add(sizeof(ValueInfo));
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
        value.metadata.push_back(readEntry(in.get_message(), entities));
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
          value.type = typeOfNumber(tensor.get_int32());
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
      entities.addNumbers(sizeof(Dim));
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
    entities.add(sizeof(Function));
    Function function;
    while (in.next()) {
      switch (in.tag_and_type()) {
      case field(1, Bytes):
        function.name = view(in);
        break;
      case field(4, Bytes):
        entities.add(sizeof(std::string_view));
        function.inputs.push_back(view(in));
        break;
      case field(5, Bytes):
        entities.add(sizeof(std::string_view));
        function.outputs.push_back(view(in));
        break;
      case field(6, Bytes):
        entities.add(sizeof(std::string_view));
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

  Model *model;
  EntityCount entities;
  TensorReader tensors;
  int64_t nodes = 0;
};

} // namespace

std::string_view find(const Metadata &metadata, std::string_view key) {
  for (const auto &[name, value] : metadata)
    if (name == key)
      return value;
  return {};
}

Result<std::unique_ptr<Model>> readModel(const std::string &path,
                                         Weights weights) {
  auto model = std::make_unique<Model>();
  model->path = path;
  POLYRANK_ASSIGN(file, MappedFile::open(path));
  model->file = std::move(file);
  std::string_view bytes = model->file.bytes();
  if (std::string format =
          foreignFormat(bytes.substr(0, formatBytes), WantedFile::Model);
      !format.empty())
    return Error{path + ": " + format};
  try {
    Reader(model.get(), bytes, weights)
        .readModel(pbf_reader(bytes.data(), bytes.size()));
  } catch (const Malformed &malformed) {
    return Error{path + ": " + malformed.message};
  } catch (const protozero::exception &) {
    return Error{path + ": not an ONNX model, or cut short"};
  }
  if (weights == Weights::MayBeAbsent)
    addAbsentWeights(*model);
  liftConstants(*model);
  return model;
}

} // namespace polyrank::frontends::onnx
