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

/// An argument or a result of an operator.
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

/// What the file says about a number that the graph computes: its value, or an
/// expression of symbols; for a condition, the file keeps no expression.
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

/// The role of an input of the graph, in the order of the graph.
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
  /// How the outputs are nested: PyTorch's TreeSpec as JSON; may be empty.
  std::string outputTree;
  int64_t major = 0, minor = 0;
  /// The least and the largest value of a symbol, as the model asserts them.
  struct Range {
    std::optional<int64_t> least, most;
  };
  std::map<std::string, Range> ranges;
  std::string torchVersion;
  /// True if the graph has only PyTorch's core operators, as after
  /// run_decompositions().
  bool isDecomposed = false;
};

/// The place of a tensor's elements, for archives that have a table of them.
struct Payload {
  std::string member; // below data/weights or data/constants
  bool isPickled = false;
  std::optional<TensorMeta> meta;
};

/// Parses the `text` of member `name`. Messages begin with `name` and give the
/// place of the error. Memory is taken from `budget`.
Result<Program> readProgram(llvm::StringRef text, const std::string &name,
                            Budget &budget);

/// Parses the table of a weights_config.json or constants_config.json.
Result<std::map<std::string, Payload>>
readPayloads(llvm::StringRef text, const std::string &name, Budget &budget);

} // namespace polyrank::frontends::exported_program
