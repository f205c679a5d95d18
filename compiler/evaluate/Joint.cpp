// The functions that ranks execute together: one for all, or one per place.

#include "compiler/evaluate/Joint.h"

#include "compiler/evaluate/Evaluator.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::evaluate;

static unsigned count(func::FuncOp function, bool isResult) {
  return isResult ? function.getNumResults() : function.getNumArguments();
}

JointFunction::JointFunction(func::FuncOp function) {
  functions.push_back(function);
  for (bool isResult : {false, true})
    for (unsigned i = 0, n = count(function, isResult); i < n; ++i)
      (isResult ? results : arguments).push_back({function, i});
}

int64_t JointFunction::getNumber(const BoundaryValue &value,
                                 bool isResult) const {
  func::FuncOp function = value.function;
  if (!isPlaced())
    return value.number;
  auto number = isResult ? function.getResultAttrOfType<IntegerAttr>(
                               value.number, rank::numberAttrName)
                         : function.getArgAttrOfType<IntegerAttr>(
                               value.number, rank::numberAttrName);
  return number ? number.getInt() : -1;
}

LogicalResult JointFunction::number(bool isResult) {
  const char *what = isResult ? "result " : "argument ";
  auto &list = isResult ? results : arguments;
  for (func::FuncOp function : functions)
    for (unsigned i = 0, n = count(function, isResult); i < n; ++i) {
      int64_t number = getNumber({function, i}, isResult);
      constexpr int64_t most = 1 << 24;
      if (number < 0 || number > most)
        return function.emitError()
               << what << i << " of @" << function.getName() << " has no "
               << rank::numberAttrName;
      if (number >= static_cast<int64_t>(list.size()))
        list.resize(number + 1);
      BoundaryValue &first = list[number];
      if (!first.function) {
        first = {function, i};
        continue;
      }
      RankedTensorType type = getGlobalType(function, i, isResult),
                       other = getGlobalType(first.function, first.number,
                                             isResult);
      if (type != other)
        return function.emitError()
               << what << i << " of @" << function.getName() << " is " << type
               << " globally, and of @" << first.function.getName()
               << ", which has it too, " << other;
    }
  for (auto [number, value] : llvm::enumerate(list))
    if (!value.function)
      return functions.front().emitError()
             << "no function has " << what << number << ", but a later one";
  return success();
}

FailureOr<std::vector<JointFunction>> JointFunction::allOf(ModuleOp module) {
  FailureOr<rank::Programs> programs = rank::Programs::of(module);
  if (failed(programs))
    return failure();
  std::vector<JointFunction> all;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal() &&
        !llvm::is_contained(programs->getFunctions(), function))
      all.push_back(function);
  if (programs->empty())
    return all;
  JointFunction joint;
  joint.functions.assign(programs->getFunctions().begin(),
                         programs->getFunctions().end());
  joint.programs = std::move(*programs);
  if (failed(joint.number(false)) || failed(joint.number(true)))
    return failure();
  all.push_back(std::move(joint));
  return all;
}

std::string JointFunction::getName() const {
  std::string name;
  for (func::FuncOp function : functions)
    name += (name.empty() ? "@" : ", @") + function.getName().str();
  return name;
}
