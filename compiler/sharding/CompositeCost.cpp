// The cost of a composite that is split on a composite factor: its parts are
// laid out between the layouts of its operands and results.

#include "compiler/sharding/CompositeCost.h"

#include "compiler/sharding/Propagation.h"
#include "dialects/graph/Parts.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/Threading.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

std::optional<int64_t> CompositeCosts::getBytes(MeshAttr mesh, Operation *op,
                                                const Candidate &candidate) {
  std::string key;
  llvm::raw_string_ostream out(key);
  out << op->getName() << op->getPropertiesAsAttribute();
  for (Value value : op->getOperands())
    out << value.getType();
  for (sharding::LayoutAttr layout : candidate.operands)
    out << layout.toString();
  for (sharding::LayoutAttr layout : candidate.results)
    out << layout.toString();
  auto [it, isNew] = known.try_emplace(out.str());
  if (!isNew)
    return it->second;

  OpBuilder builder(op->getContext());
  OwningOpRef<ModuleOp> scratch = ModuleOp::create(op->getLoc());
  builder.setInsertionPointToEnd(scratch->getBody());
  SmallVector<Type> types;
  for (auto [value, layout] :
       llvm::zip_equal(op->getOperands(), candidate.operands))
    types.push_back(
        sharding::withLayout(cast<RankedTensorType>(value.getType()), layout));
  auto function = func::FuncOp::create(builder, op->getLoc(), "parts",
                                       builder.getFunctionType(types, {}));
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  IRMapping mapping;
  for (auto [value, argument] :
       llvm::zip_equal(op->getOperands(), block->getArguments()))
    mapping.map(value, argument);
  Operation *clone = builder.clone(*op, mapping);
  builder.setInsertionPoint(clone);
  SmallVector<Value> values =
      graph::decompose(builder, cast<graph::CompositeOp>(clone));
  SmallVector<Operation *> parts;
  for (Operation &part : *block)
    if (&part != clone)
      parts.push_back(&part);
  llvm::MapVector<Value, sharding::LayoutAttr> wanted;
  for (auto [value, result, layout] :
       llvm::zip_equal(values, op->getResults(), candidate.results))
    if (!result.use_empty())
      wanted[value] = layout;
  // A failure is no error of the program: it only rules this candidate out.
  // Other threads, which lay out other functions, are still heard.
  ScopedDiagnosticHandler silent(
      op->getContext(), [thread = llvm::get_threadid()](Diagnostic &) {
        return success(thread == llvm::get_threadid());
      });
  if (auto propagated = solveParts(mesh, parts, wanted); succeeded(propagated))
    it->second = propagated->solution.objective.bytes;
  return it->second;
}
