// The machine that a plan is for.

#include "compiler/driver/Machine.h"

#include "compiler/cost/CostModel.h"
#include "compiler/cost/ReachAttr.h"
#include "compiler/driver/Stages.h"
#include "compiler/target/Target.h"
#include "dialects/graph/ElementTypes.h"
#include "dialects/rank/Reach.h"
#include "frontends/import/ElementTypes.h"
#include "support/LinkSpec.h"
#include "support/MachineFile.h"
#include "support/RankShare.h"
#include "support/RatesSpec.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::driver;

static std::vector<MachineFile::Axis> getAxes(sharding::MeshAttr mesh) {
  std::vector<MachineFile::Axis> axes;
  for (auto [name, size] :
       llvm::zip_equal(mesh.getAxisNames(), mesh.getAxisSizes()))
    axes.push_back({name.str(), size});
  return axes;
}

/// By axis.
using Links = llvm::MapVector<int32_t, rank::LinkAttr>;

/// Gives the axes that cross machines and have no link the one that --link
/// calls "machine".
static Result<void> addLinkBetween(const LinkSpec &link,
                                   sharding::MeshAttr mesh, int machines,
                                   Links &links) {
  if (machines == 1)
    return Error{"link 'machine=..': there is one machine; --machines N says "
                 "how many share the ranks"};
  std::vector<MachineFile::Axis> axes = getAxes(mesh);
  bool isUsed = false;
  for (auto [i, axis] : llvm::enumerate(axes))
    if (MachineFile::crosses(axes, i, mesh.getNumDevices() / machines))
      isUsed |=
          links
              .insert({static_cast<int32_t>(i),
                       rank::LinkAttr::get(mesh.getContext(), axis.name,
                                           link.microseconds, link.gigabytes)})
              .second;
  if (!isUsed)
    return Error{"link 'machine=..' changes nothing: each axis that crosses "
                 "machines has a link of its own"};
  return {};
}

static Result<SmallVector<rank::LinkAttr>>
readLinks(ArrayRef<std::string> texts, sharding::MeshAttr mesh, int machines) {
  Links links;
  std::optional<LinkSpec> between;
  for (const std::string &text : texts) {
    POLYRANK_ASSIGN(link, LinkSpec::parse(text));
    int32_t axis = mesh.lookup(link.axis);
    if (link.axis == "machine" && axis < 0) {
      between = link;
      continue;
    }
    if (axis < 0)
      return Error{"link '" + text +
                   "': " + cost::explainMissingAxis(mesh, link.axis)};
    links[axis] = rank::LinkAttr::get(mesh.getContext(), link.axis,
                                      link.microseconds, link.gigabytes);
  }
  if (between)
    if (auto added = addLinkBetween(*between, mesh, machines, links); !added)
      return added.error();
  return llvm::to_vector(llvm::make_second_range(links));
}

/// The rates of products: those of the machine's file, and --rates in place of
/// those that it states.
static SmallVector<rank::RateAttr>
readRates(MLIRContext &context, const std::optional<MachineFile> &file,
          const std::optional<RatesSpec> &given) {
  llvm::MapVector<ElementType, double> rates;
  if (file) {
    rates[ElementType::F32] = file->f32.value;
    if (file->bf16)
      rates[ElementType::BF16] = file->bf16->value;
    if (file->f16)
      rates[ElementType::F16] = file->f16->value;
  }
  if (given) {
    rates[ElementType::F32] = given->gigaflops;
    for (auto [type, gigaflops] : given->narrow)
      rates[type] = gigaflops;
  }
  SmallVector<rank::RateAttr> products;
  for (auto [type, gigaflops] : rates)
    products.push_back(rank::RateAttr::get(
        type == ElementType::F32 ? frontends::computedType(&context, type)
                                 : graph::toMlirType(&context, type),
        gigaflops));
  return products;
}

/// Adds the links of the machine's nodes along the axes for which there are
/// none. An axis that crosses nodes has the slower of their two links.
static void addLinks(const MachineFile &file, sharding::MeshAttr mesh,
                     SmallVectorImpl<rank::LinkAttr> &links) {
  std::vector<MachineFile::Axis> axes = getAxes(mesh);
  for (auto [i, axis] : llvm::enumerate(axes)) {
    if (llvm::any_of(links, [&](rank::LinkAttr link) {
          return link.getAxis() == axis.name;
        }))
      continue;
    double latency = file.node.latency.value,
           bandwidth = file.node.bandwidth.value;
    if (file.network && file.crossesNodes(axes, i)) {
      latency = std::max(latency, file.network->latency.value);
      bandwidth = std::min(bandwidth, file.network->bandwidth.value);
    }
    links.push_back(
        rank::LinkAttr::get(mesh.getContext(), axis.name, latency, bandwidth));
  }
}

static Result<MachineFile> readMachineFile(const std::string &path,
                                           sharding::MeshAttr mesh) {
  POLYRANK_ASSIGN(file, MachineFile::read(path));
  if (Result<void> checked = file.checkMesh(getAxes(mesh)); !checked)
    return checked.error();
  return file;
}

/// The machine as its user knows it: the name in its file, and the options that
/// override it.
static std::string describe(const Options &options,
                            const std::optional<MachineFile> &file,
                            Attribute target) {
  std::string name =
      file ? file->name + " (" + llvm::sys::path::filename(file->path).str() +
                 ")"
           : cast<target::TargetInterface>(target).getName().str() +
                 " without --machine";
  std::string overrides;
  if (!options.rates.empty())
    overrides = "--rates";
  if (!options.links.empty())
    overrides += overrides.empty() ? "--link" : " and --link";
  return overrides.empty() ? name : name + ", with " + overrides;
}

Result<PlannedMachine> polyrank::driver::makeMachine(MLIRContext &context,
                                                     const Options &options,
                                                     sharding::MeshAttr mesh) {
  std::optional<MachineFile> file;
  if (!options.machine.empty()) {
    auto read = readMachineFile(options.machine, mesh);
    if (!read)
      return Error{"--machine: " + read.error().message};
    file = *std::move(read);
    emitRemark(UnknownLoc::get(&context)) << file->describe();
  }
  if (auto each = ranksOfEach("mesh", mesh.getNumDevices(), options.machines);
      !each)
    return Error{"--machines: " + each.error().message};
  auto links = readLinks(options.links, mesh, options.machines);
  if (!links)
    return Error{"--link: " + links.error().message};
  auto target = findTarget(context, options);
  if (!target)
    return target.error();
  std::optional<RatesSpec> given;
  if (!options.rates.empty()) {
    auto rates = RatesSpec::parse(options.rates);
    if (!rates)
      return Error{"--rates: " + rates.error().message};
    given = *std::move(rates);
  }
  SmallVector<rank::RateAttr> products = readRates(context, file, given);
  std::optional<double> bandwidth;
  std::optional<int64_t> memory;
  cost::Reach reach;
  if (file) {
    reach = cost::Reach::of(*file);
    for (rank::LinkAttr link : *links)
      reach.linkedAxes.push_back(link.getAxis().str());
    addLinks(*file, mesh, *links);
    bandwidth = file->bandwidth.value;
    if (file->memory)
      memory = static_cast<int64_t>(file->memory->value * 1e9);
  }
  if (given)
    bandwidth = given->gigabytes;
  return PlannedMachine{
      rank::MachineAttr::get(&context, *target, options.threads, *links,
                             products, bandwidth, memory),
      cost::toAttribute(&context, reach), describe(options, file, *target)};
}

void polyrank::driver::setMachine(ModuleOp module,
                                  const PlannedMachine &machine) {
  module->setAttr(rank::machineAttrName, machine.attribute);
  if (machine.reach)
    module->setAttr(rank::reachAttrName, machine.reach);
}
