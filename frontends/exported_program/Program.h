// The graph of an ExportedProgram as its JSON states it (torch/_export/serde,
// schema version 8).

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/Budget.h"
#include "support/Result.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::exported_program {

struct Graph;

/// What an operator is given, or gives.
struct Argument {
  enum class Kind {
    None,
    Name,         // `text`: a tensor, number or object of the graph
    Int,          // `integer`
    Float,        // `number`
    Bool,         // `integer` is 0 or 1
    String,       // `text`
    ScalarType,   // `integer`, as torch.export counts
    MemoryFormat, // `integer`
    Device,       // `text`
    List,         // `elements`
    Graph,        // `graph`, by the name `text`
    Operator,     // `text`
    Unsupported,  // of the kind `text`
  };
  Kind kind = Kind::None;
  int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<Argument> elements;
  std::shared_ptr<const Graph> graph;
};

struct NamedArgument {
  std::string name; // empty: by position
  Argument value;
};

struct Node {
  std::string target; // "torch.ops.aten.linear.default"
  std::vector<NamedArgument> inputs;
  std::vector<Argument> outputs;
  /// "stack_trace", "nn_module_stack", ..
  std::map<std::string, std::string> metadata;
};

/// A size, stride or offset: a number, or an expression of symbols.
struct SymbolicInt {
  std::optional<int64_t> value;
  std::string expression;
};

struct TensorMeta {
  int64_t type = 0; // as torch.export counts
  std::vector<SymbolicInt> sizes, strides;
  SymbolicInt storageOffset;
  bool requiresGrad = false;
};

/// What the file says of a number that the graph computes: its value, or an
/// expression of symbols; for a condition no expression is kept.
struct NumberMeta {
  std::optional<bool> flag;
  std::optional<SymbolicInt> integer;
};

struct Graph {
  std::vector<Argument> inputs, outputs;
  std::vector<Node> nodes;
  std::map<std::string, TensorMeta> tensors;
  std::map<std::string, NumberMeta> numbers;
};

/// What an input of the graph is, in the graph's order.
struct InputSpec {
  enum class Kind {
    UserInput,
    Parameter,
    Buffer,
    TensorConstant,
    CustomObject,
    Token,
    ConstantInput
  };
  Kind kind = Kind::UserInput;
  Argument argument;  // its name in the graph
  std::string target; // in the model: "c_attn.weight"
  bool persistent = true;
};

struct OutputSpec {
  enum class Kind {
    UserOutput,
    Loss,
    BufferMutation,
    ParameterMutation,
    UserInputMutation,
    Gradient,
    Token
  };
  Kind kind = Kind::UserOutput;
  Argument argument;
  std::string target; // what it replaces
};

struct Program {
  Graph graph;
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  /// How the outputs are nested: a TreeSpec of PyTorch, in JSON; may be empty.
  std::string outputTree;
  int64_t major = 0, minor = 0;
  /// What the model asserts of symbols: the least and the largest value.
  struct Range {
    std::optional<int64_t> least, most;
  };
  std::map<std::string, Range> ranges;
  std::string torchVersion;
  /// Whether it is of PyTorch's core operators, as run_decompositions() leaves
  /// it.
  bool isDecomposed = false;
};

/// Elements in the file, where the archive has a table of them.
struct Payload {
  std::string member; // below data/weights or data/constants
  bool isPickled = false;
  std::optional<TensorMeta> meta;
};

/// `text` is that of member `name`, which messages begin with; they say where
/// it is wrong. What it takes is taken from `budget`.
Result<Program> readProgram(llvm::StringRef text, const std::string &name,
                            Budget &budget);

/// The table of a weights_config.json or constants_config.json.
Result<std::map<std::string, Payload>>
readPayloads(llvm::StringRef text, const std::string &name, Budget &budget);

} // namespace polyrank::frontends::exported_program
