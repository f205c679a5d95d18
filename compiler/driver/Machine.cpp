// The machine that a plan is for.

#include "compiler/driver/Machine.h"

#include "compiler/cost/CostModel.h"
#include "compiler/driver/Stages.h"
#include "dialects/graph/ElementTypes.h"
#include "frontends/import/ElementTypes.h"
#include "support/LinkSpec.h"
#include "support/RatesSpec.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::driver;

static Result<SmallVector<rank::LinkAttr>>
readLinks(ArrayRef<std::string> texts, sharding::MeshAttr mesh) {
  llvm::MapVector<int32_t, rank::LinkAttr> links; // by axis
  for (const std::string &text : texts) {
    POLYRANK_ASSIGN(link, LinkSpec::parse(text));
    int32_t axis = mesh.lookup(link.axis);
    if (axis < 0)
      return Error{"link '" + text +
                   "': " + cost::explainMissingAxis(mesh, link.axis)};
    links[axis] = rank::LinkAttr::get(mesh.getContext(), link.axis,
                                      link.microseconds, link.gigabytes);
  }
  return llvm::to_vector(llvm::make_second_range(links));
}

Result<rank::MachineAttr>
polyrank::driver::makeMachine(MLIRContext &context, const Options &options,
                              sharding::MeshAttr mesh) {
  auto links = readLinks(options.links, mesh);
  if (!links)
    return Error{"--link: " + links.error().message};
  auto target = findTarget(context, options);
  if (!target)
    return target.error();
  if (options.rates.empty())
    return rank::MachineAttr::get(&context, *target, options.threads, *links);
  auto rates = RatesSpec::parse(options.rates);
  if (!rates)
    return Error{"--rates: " + rates.error().message};
  SmallVector<rank::RateAttr> products{rank::RateAttr::get(
      frontends::computedType(&context, ElementType::F32), rates->gigaflops)};
  for (auto [type, gigaflops] : rates->narrow)
    products.push_back(
        rank::RateAttr::get(graph::toMlirType(&context, type), gigaflops));
  return rank::MachineAttr::get(&context, *target, options.threads, *links,
                                products, rates->gigabytes);
}
