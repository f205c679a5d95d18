// The verification of `rank.reach`.

#include "dialects/rank/Reach.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/LinkLevel.h"

using namespace mlir;
using namespace polyrank;

static bool isTime(Attribute attribute) {
  auto number = dyn_cast_or_null<FloatAttr>(attribute);
  return number && number.getValueAsDouble() >= 0;
}

static bool isLevel(Attribute attribute) {
  auto level = dyn_cast<DictionaryAttr>(attribute);
  if (!level)
    return false;
  auto algorithms = level.getAs<DenseI64ArrayAttr>("algorithms");
  auto reached = level.getAs<DenseF64ArrayAttr>("reached"); // pairs
  constexpr auto last = static_cast<int64_t>(CollectiveAlgorithm::Tree);
  return algorithms && reached && reached.size() % 2 == 0 &&
         llvm::all_of(
             algorithms.asArrayRef(),
             [](int64_t number) { return number >= 0 && number <= last; }) &&
         isTime(level.get("latency")) && isTime(level.get("per_byte"));
}

static bool isPart(StringRef name, Attribute value) {
  if (name == "launch" || name == "host")
    return isTime(value);
  if (name == "products")
    return isa<DenseF64ArrayAttr>(value) &&
           cast<DenseF64ArrayAttr>(value).size() == 3;
  if (name == "devices")
    return isa<IntegerAttr>(value) && cast<IntegerAttr>(value).getInt() >= 1;
  if (name == "node" || name == "network")
    return isLevel(value);
  return name == "hierarchical" ? isa<UnitAttr>(value)
                                : name == "linked" && isa<ArrayAttr>(value);
}

LogicalResult rank::verifyReach(Operation *op, Attribute attribute) {
  auto parts = dyn_cast<DictionaryAttr>(attribute);
  if (!parts || !isa<ModuleOp>(op))
    return op->emitOpError("[reach 1] ")
           << reachAttrName << " is a dictionary of a module, not " << attribute
           << " of " << op->getName();
  for (NamedAttribute part : parts)
    if (!isPart(part.getName(), part.getValue()))
      return op->emitOpError("[reach 2] ")
             << reachAttrName << " says launch, host, products, devices, node, "
             << "network, hierarchical or linked, and not " << part.getName()
             << " = " << part.getValue();
  if (parts.contains("node") != parts.contains("devices"))
    return op->emitOpError("[reach 3] ")
           << reachAttrName << " says devices and node together";
  return success();
}
