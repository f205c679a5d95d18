// Writes and reads the attribute `rank.reach`.

#include "compiler/cost/ReachAttr.h"

#include "dialects/rank/Reach.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cost;

static Attribute toAttribute(Builder &builder, const LinkLevel &level) {
  SmallVector<int64_t> algorithms;
  for (CollectiveAlgorithm algorithm : level.algorithms)
    algorithms.push_back(static_cast<int64_t>(algorithm));
  SmallVector<double> reached;
  for (const LinkLevel::Reached &point : level.reached)
    reached.append({point.bytes, point.share});
  return builder.getDictionaryAttr(
      {builder.getNamedAttr("algorithms",
                            builder.getDenseI64ArrayAttr(algorithms)),
       builder.getNamedAttr("latency",
                            builder.getF64FloatAttr(level.link.latency)),
       builder.getNamedAttr("per_byte",
                            builder.getF64FloatAttr(level.link.perByte)),
       builder.getNamedAttr("reached", builder.getDenseF64ArrayAttr(reached))});
}

static LinkLevel levelOf(DictionaryAttr attribute) {
  auto number = [&](StringRef name) {
    return attribute.getAs<FloatAttr>(name).getValueAsDouble();
  };
  LinkLevel level{{number("latency"), number("per_byte")}};
  level.algorithms.clear();
  for (int64_t algorithm :
       attribute.getAs<DenseI64ArrayAttr>("algorithms").asArrayRef())
    level.algorithms.push_back(static_cast<CollectiveAlgorithm>(algorithm));
  ArrayRef<double> reached =
      attribute.getAs<DenseF64ArrayAttr>("reached").asArrayRef();
  for (; reached.size() >= 2; reached = reached.drop_front(2))
    level.reached.push_back({reached[0], reached[1]});
  return level;
}

DictionaryAttr polyrank::cost::toAttribute(MLIRContext *context,
                                           const Reach &reach) {
  Builder builder(context);
  SmallVector<NamedAttribute> parts;
  auto add = [&](StringRef name, Attribute value) {
    parts.push_back(builder.getNamedAttr(name, value));
  };
  if (reach.launch != 0)
    add("launch", builder.getF64FloatAttr(reach.launch));
  if (reach.host != 0)
    add("host", builder.getF64FloatAttr(reach.host));
  if (reach.products)
    add("products",
        builder.getDenseF64ArrayAttr({static_cast<double>(reach.products->tile),
                                      reach.products->halfTiles,
                                      reach.products->halfDepth}));
  if (reach.levels) {
    add("devices", builder.getI64IntegerAttr(reach.levels->devices));
    add("node", ::toAttribute(builder, reach.levels->node));
    if (reach.levels->network)
      add("network", ::toAttribute(builder, *reach.levels->network));
    if (reach.levels->isHierarchical)
      add("hierarchical", builder.getUnitAttr());
    SmallVector<StringRef> linked(reach.linkedAxes.begin(),
                                  reach.linkedAxes.end());
    if (!linked.empty())
      add("linked", builder.getStrArrayAttr(linked));
  }
  return parts.empty() ? DictionaryAttr() : builder.getDictionaryAttr(parts);
}

Reach polyrank::cost::getReach(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  auto parts = module
                   ? module->getAttrOfType<DictionaryAttr>(rank::reachAttrName)
                   : DictionaryAttr();
  Reach reach;
  if (!parts)
    return reach;
  if (auto launch = parts.getAs<FloatAttr>("launch"))
    reach.launch = launch.getValueAsDouble();
  if (auto host = parts.getAs<FloatAttr>("host"))
    reach.host = host.getValueAsDouble();
  if (auto products = parts.getAs<DenseF64ArrayAttr>("products"))
    reach.products = {static_cast<int64_t>(products[0]), products[1],
                      products[2]};
  if (auto node = parts.getAs<DictionaryAttr>("node")) {
    LinkLevels &levels = reach.levels.emplace();
    levels.devices = parts.getAs<IntegerAttr>("devices").getInt();
    levels.node = levelOf(node);
    if (auto network = parts.getAs<DictionaryAttr>("network"))
      levels.network = levelOf(network);
    levels.isHierarchical = parts.contains("hierarchical");
  }
  if (auto linked = parts.getAs<ArrayAttr>("linked"))
    for (auto axis : linked.getAsRange<StringAttr>())
      reach.linkedAxes.push_back(axis.str());
  return reach;
}
