// Properties of the PyTorch operators that an exporter recorded, by name.

#include "frontends/onnx/OperatorNames.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

using Kind = Expression::Kind;

StringRef operatorOf(StringRef name) {
  while (true) {
    auto [front, back] = name.rsplit('_');
    if (back.empty() || !all_of(back, isDigit))
      return name;
    name = front;
  }
}

static bool isAnyOf(StringRef name, ArrayRef<StringRef> names) {
  return is_contained(names, name);
}

bool keepsOrder(StringRef name) {
  return isAnyOf(name, {"val", "unsqueeze", "squeeze", "view", "reshape",
                        "flatten", "unflatten", "_unsafe_view", "expand",
                        "expand_as", "broadcast_to", "clone", "contiguous",
                        "alias", "lift_fresh_copy"});
}

bool moves(StringRef name) {
  return keepsOrder(name) || name.starts_with("split") ||
         name.starts_with("unsafe_split") ||
         isAnyOf(name,
                 {"t", "transpose", "permute", "numpy_T", "movedim", "slice",
                  "narrow", "select", "getitem", "chunk", "unbind"});
}

bool computes(StringRef name, Expression::Kind kind) {
  switch (kind) {
  case Kind::Add:
    return isAnyOf(name, {"add", "addcmul", "addcdiv", "lerp"});
  case Kind::Sub:
    return isAnyOf(name, {"sub", "rsub", "lerp"});
  case Kind::Mul:
    return isAnyOf(name, {"mul", "addcmul", "lerp", "square", "pow"});
  case Kind::Div:
    return isAnyOf(name, {"div", "addcdiv", "reciprocal"});
  case Kind::Neg:
    return name == "neg";
  case Kind::Exp:
    return name == "exp";
  case Kind::Log:
    return name == "log";
  case Kind::Sqrt:
    return name == "sqrt";
  case Kind::Sigmoid:
    return name == "sigmoid";
  case Kind::Tanh:
    return name == "tanh";
  case Kind::Abs:
    return name == "abs";
  case Kind::Relu:
    return name == "relu";
  case Kind::View:
  case Kind::Number:
  case Kind::Concat:
    return true;
  }
  llvm_unreachable("covered switch");
}

/// Returns true for names that the exporter makes up for parts of operators,
/// and for those of numbers.
static bool isPart(StringRef name) {
  constexpr StringRef starts[] = {"val",   "tmp",  "const", "value",
                                  "alpha", "diff", "weight"};
  return isAnyOf(name, {"scalar_tensor_default", "other", "zeros", "ones"}) ||
         any_of(starts, [&](StringRef start) {
           return name == start || name.starts_with((start + "_").str());
         });
}

bool isUnderstood(StringRef name) {
  if (moves(name) || isPart(name))
    return true;
  for (Kind kind :
       {Kind::Neg, Kind::Exp, Kind::Log, Kind::Sqrt, Kind::Sigmoid, Kind::Tanh,
        Kind::Abs, Kind::Relu, Kind::Add, Kind::Sub, Kind::Mul, Kind::Div})
    if (computes(name, kind))
      return true;
  return false;
}

bool areNamed(const Expression &e, ArrayRef<StringRef> operators) {
  return any_of(operators,
                [&](StringRef name) { return computes(name, e.kind); }) &&
         all_of(e.operands, [&](const Expression &operand) {
           return areNamed(operand, operators);
         });
}

} // namespace polyrank::frontends::onnx
