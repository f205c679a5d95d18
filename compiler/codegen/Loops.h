// A kernel as loops: the form between graph ops and code.
//
// All values of a kernel are functions of one set of loop variables. Variables
// that no reduction runs over are *parallel*; the others are *reduced*, and
// every reduction of the kernel runs over all of them. Expressions form a graph
// of nodes; shape ops (reshape, transpose, slice, broadcast) have become index
// arithmetic. For a softmax over rows of a 256x1024 tensor, with i parallel and
// j reduced:
//
//   n0 = load x[1024 i + j]        n3 = exp(sub(n0, n1))
//   n1 = reduce max n0             n4 = reduce sum n3
//                                  store y[1024 i + j] = div(n3, n4)

#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/codegen/Affine.h"
#include "dialects/graph/Graph.h"

namespace polyrank::codegen {

/// The scalar functions that kernels compute.
enum class Function {
  Neg,
  Exp,
  Log,
  Sqrt,
  Rsqrt,
  Tanh,
  Erf,
  Sigmoid,
  Relu,
  Abs,
  Sin,
  Cos,
  Atan,
  Asin,
  Acos,
  Asinh,
  Acosh,
  Atanh,
  Floor,
  Not,
  Add,
  Sub,
  Mul,
  Div,
  Max,
  Min,
  Pow,
  And,
  Or,
  Rem,
  /// `parameter` is a graph::Comparison.
  Compare,
  Select,
  Convert,
  /// (index, key, step, microbatch) -> first word of Philox-4x32-10, as i32.
  Philox
};

struct Node {
  enum Kind {
    /// Element `expression + sum_k operands[k] * strides[k]` of argument
    /// `parameter`; where `predicate` is false nothing is read, and the value
    /// is zero.
    Load,
    /// `value` (or `parameter`, of integers).
    Constant,
    /// The value of `expression`, i64.
    Index,
    /// lower <= expression < upper, i1.
    InRange,
    /// `function` of the operands.
    Apply,
    /// `reduction` of the operand over the reduced variables.
    Reduce
  };
  Node(Kind kind, mlir::Type type) : kind(kind), type(type) {}

  Kind kind;
  /// Element type.
  mlir::Type type;
  llvm::SmallVector<int, 3> operands;
  Function function = Function::Neg;
  sharding::ReductionKind reduction = sharding::ReductionKind::Sum;
  Affine expression;
  llvm::SmallVector<int64_t, 1> strides;
  int64_t parameter = 0;
  double value = 0;
  int64_t lower = 0, upper = 0;
  int predicate = -1;
};

struct Variable {
  int64_t size;
  bool isReduced;
};

/// Writes `node` to element `offset` of a result. `offset` mentions either all
/// parallel variables, or all variables.
struct Store {
  int node;
  unsigned result;
  Affine offset;
};

/// A kernel that is one scatter_add: the result is argument `init` (-1: zeros),
/// then for every point of the reduced variables in ascending order element
/// offset + index * stride gets `updates` added.
struct Scatter {
  int indices, updates, init = -1;
  Affine offset;
  int64_t stride, limit;
};

struct Loops {
  std::vector<Variable> variables;
  std::vector<Node> nodes;
  std::vector<Store> stores;
  std::optional<Scatter> scatter;
  unsigned numArguments = 0;
  llvm::SmallVector<mlir::RankedTensorType> argumentTypes, resultTypes;

  llvm::SmallVector<int64_t> sizes() const;
  int64_t product(bool reduced) const;
  bool hasReductions() const;
  /// Per node, the variables that its value depends on, as a bit set.
  std::vector<uint64_t> dependences() const;
  /// Per node, the number of reductions, one after another, that must have
  /// ended before its value is known.
  std::vector<int> passes() const;
  /// Whether the result has an element for each point of all variables, or for
  /// each parallel point only.
  bool isFull(const Store &store) const;
  /// How often the loops over reduced variables run: once per reduction that
  /// needs another one, and once more where a full result needs the last. Full
  /// results are written in the last pass, so that all reads come before.
  int numPasses() const;
  std::string toString() const;
};

/// Whether each iteration has read all that it reads of `argument`, and no
/// other iteration reads that, before it writes the same bytes of `result`.
bool mayAlias(const Loops &loops, unsigned result, unsigned argument);

/// FLOPs and bytes of one launch.
graph::Cost getCost(const Loops &loops);

/// The body of a kernel or of a group of ops that may become one: `results` as
/// functions of `arguments`.
struct Body {
  llvm::ArrayRef<mlir::Value> arguments, results;
};

/// Whether a target has code for a function of operands of an element type.
using HasFunction = llvm::function_ref<bool(Function, mlir::Type)>;

/// The loops that compute the body with the functions that there are, or why
/// one set of loops cannot: `reason` then says what stands in the way, for
/// error messages. Composites must have been decomposed.
mlir::FailureOr<Loops> buildLoops(Body body, HasFunction hasFunction,
                                  std::string &reason);

} // namespace polyrank::codegen
