// The axes that split the batch, and the error for a batch that they do not
// divide.

#include "compiler/sharding/BatchAxes.h"

#include "compiler/cost/CostModel.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

SmallVector<StringRef> polyrank::sharding::splitAxes(StringRef text) {
  SmallVector<StringRef> names;
  text.split(names, '+', -1, /*KeepEmpty=*/false);
  return names;
}

SmallVector<StringRef> polyrank::sharding::getBatchAxisNames(StringRef given) {
  return given.empty() ? SmallVector<StringRef>{"replica", "data"}
                       : splitAxes(given);
}

Result<SmallVector<AxisRef>>
polyrank::sharding::findBatchAxes(MeshAttr mesh, StringRef given) {
  SmallVector<AxisRef> axes;
  for (StringRef name : getBatchAxisNames(given)) {
    int32_t axis = mesh.lookup(name);
    if (axis < 0 && !given.empty())
      return Error{"--batch-axes: " + cost::explainMissingAxis(mesh, name)};
    if (axis >= 0 && llvm::is_contained(axes, mesh.getAxis(axis)))
      return Error{"--batch-axes: '" + name.str() + "' is there twice"};
    if (axis >= 0 && mesh.getAxisSizes()[axis] > 1)
      axes.push_back(mesh.getAxis(axis));
  }
  return axes;
}

std::string polyrank::sharding::describeBatchAxes(MeshAttr mesh,
                                                  ArrayRef<AxisRef> axes) {
  std::string text;
  for (AxisRef ref : axes)
    text += (text.empty() ? "" : " and ") +
            mesh.getAxisNames()[ref.axis].getValue().str() + "=" +
            std::to_string(ref.size);
  return axes.size() == 1 ? "axis " + text : "axes " + text + " together";
}

/// The largest divisor of `batch` above 1 that is at most `size`, or else the
/// smallest one above `size`.
static int64_t nearestDivisor(int64_t batch, int64_t size) {
  for (int64_t divisor = std::min(size, batch); divisor > 1; --divisor)
    if (batch % divisor == 0)
      return divisor;
  int64_t divisor = size;
  while (divisor < batch && batch % divisor != 0)
    ++divisor;
  return std::min(divisor, batch);
}

LogicalResult polyrank::sharding::refuseBatch(func::FuncOp function,
                                              unsigned argument, MeshAttr mesh,
                                              ArrayRef<AxisRef> axes) {
  int64_t batch = graph::getShape(function.getArgument(argument))[1],
          size = product(axes);
  graph::Boundary boundary(function);
  auto role = boundary.getArgument<graph::InputAttr>(argument);
  StringRef input = role.getName().getValue();
  InFlightDiagnostic diagnostic =
      emitError(function->getParentOfType<ModuleOp>().getLoc());
  diagnostic << "input '" << input << "' has a batch of " << batch
             << ", which the mesh " << describeBatchAxes(mesh, axes)
             << (batch < size      ? " is larger than"
                 : axes.size() > 1 ? " do not divide"
                                   : " does not divide");
  // The role has an open batch only for dim 0.
  if (int64_t dim = role.getBatchDim(); dim > 0)
    return diagnostic
           << "; the batch is its dim " << dim
           << ": give a size that is a multiple of " << size
           << " (--input or --dim) where the file leaves it open, or "
              "export the model with one";
  if (role.getOpenBatch())
    return diagnostic << "; use a batch that is a multiple of " << size
                      << " (--input '" << input << "=..["
                      << (batch + size - 1) / size * size << ",..]')";
  diagnostic << "; the model was exported with this batch: ";
  if (batch > 1)
    diagnostic << "use an axis that divides it, such as "
               << mesh.getAxisNames()[axes.back().axis].getValue() << "="
               << nearestDivisor(batch, size) << ", or ";
  std::string open;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (auto other = boundary.getArgument<graph::InputAttr>(i);
        other && !other.getLabels())
      open += (open.empty() ? "\"" : ", \"") + other.getName().str() +
              "\": {0: torch.export.Dim(\"batch\")}";
  return diagnostic << "leave the batch open where it is exported "
                       "(dynamic_shapes={"
                    << open
                    << "} of torch.onnx.export and torch.export.export), and "
                       "choose it with --dim batch=SIZE";
}
