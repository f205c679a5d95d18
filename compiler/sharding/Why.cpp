// print-why: prints the reasons that collectives carry.

#include "compiler/sharding/Why.h"

#include "compiler/cost/CostModel.h"
#include "compiler/sharding/Passes.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Provenance.h"
#include "dialects/sharding/Reason.h"
#include "support/Names.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;
using cost::getExecutions;

namespace polyrank::sharding {
#define GEN_PASS_DEF_PRINTWHY
#include "compiler/sharding/Passes.h.inc"
} // namespace polyrank::sharding

std::string polyrank::sharding::describe(sharding::MeshAttr mesh,
                                         ArrayRef<sharding::AxisRef> axes) {
  std::string text;
  for (sharding::AxisRef ref : axes) {
    text += (text.empty() ? "" : "+") + mesh.getAxisNames()[ref.axis].str();
    if (ref != mesh.getAxis(ref.axis))
      text += llvm::formatv(":({0}){1}", ref.pre, ref.size).str();
  }
  return text;
}

std::string polyrank::sharding::describe(sharding::LayoutAttr layout) {
  sharding::MeshAttr mesh = layout.getMesh();
  std::string text;
  for (sharding::DimAttr dim : layout.getDims()) {
    text += text.empty() ? "[" : ",";
    text += dim.getAxes().empty() ? "-" : describe(mesh, dim.getAxes());
    if (dim.getPadded())
      text += " pad " + std::to_string(dim.getPadded());
    if (dim.hasHalo())
      text += llvm::formatv(" {0} {1}:{2}", dim.getSpills() ? "spill" : "halo",
                            dim.getHaloLow(), dim.getHaloHigh())
                  .str();
  }
  text += text.empty() ? "[]" : "]";
  if (layout.isPartial())
    text += " partial " +
            sharding::stringifyReductionKind(layout.getPartialKind()).str() +
            " over " + describe(mesh, layout.getPartialAxes());
  for (sharding::Place place : layout.getPlaces())
    text += llvm::formatv(" at {0}={1}", mesh.getAxisNames()[place.axis].str(),
                          place.coordinate)
                .str();
  return text;
}

namespace {

/// Reasons that differ only in their layers.
struct Group {
  Reason reason;
  LayerNames producers, users;
  int64_t count = 0, bytes = 0, executions = 1;
  std::string head;
  std::vector<Reason> members;

  explicit Group(Reason reason) : reason(std::move(reason)) {}
  void add(const Reason &other) {
    ++count;
    producers.add(other.producer);
    users.add(other.user);
  }
};

class Printer {
public:
  explicit Printer(raw_ostream &out) : out(out) {}
  void print(func::FuncOp function);

private:
  using Groups =
      llvm::MapVector<std::string, Group, std::map<std::string, unsigned>>;
  static Group &collect(Groups &groups, const std::string &head,
                        const Reason &reason, int64_t bytes,
                        int64_t executions);
  void print(const Group &group);

  raw_ostream &out;
};

} // namespace

/// The key that reasons of the same group share.
static std::string getKey(const Reason &reason) {
  return LayerNames::getKey(reason.producer) + "|" + reason.from + "|" +
         LayerNames::getKey(reason.user) + "|" + reason.to + "|" +
         reason.constraint;
}

static std::string bytesText(int64_t bytes) {
  constexpr double kibi = 1024;
  if (bytes < kibi)
    return std::to_string(bytes) + " bytes";
  if (bytes < kibi * kibi)
    return llvm::formatv("{0:F1} KiB", bytes / kibi).str();
  return llvm::formatv("{0:F1} MiB", bytes / kibi / kibi).str();
}

Group &Printer::collect(Groups &groups, const std::string &head,
                        const Reason &reason, int64_t bytes,
                        int64_t executions) {
  std::string key =
      llvm::formatv("{0}|{1}|{2}|{3}", head, getKey(reason), bytes, executions)
          .str();
  auto [it, isNew] = groups.insert({key, Group(reason)});
  it->second.head = head;
  it->second.bytes = bytes;
  it->second.executions = executions;
  it->second.add(reason);
  return it->second;
}

void Printer::print(const Group &group) {
  out << group.count * group.executions << " x " << group.head << ", "
      << bytesText(group.bytes);
  if (group.count * group.executions > 1)
    out << " each";
  if (group.executions > 1)
    out << ", " << group.count << " per microbatch";
  out << "\n";
  if (!group.members.empty()) {
    // A bucket: the constraints of its members, and each group of similar
    // members.
    Groups kinds;
    std::vector<std::string> constraints;
    for (const Reason &member : group.members) {
      collect(kinds, "", member, 0, 1);
      if (!member.constraint.empty() &&
          !llvm::is_contained(constraints, member.constraint))
        constraints.push_back(member.constraint);
    }
    for (auto &[key, kind] : kinds)
      out << "    for " << kind.users.toString() << ": "
          << kind.producers.toString() << " gives " << kind.reason.from
          << ", it takes " << kind.reason.to << "\n";
    for (const std::string &constraint : constraints)
      out << "    because of " << constraint << "\n";
    return;
  }
  const Reason &reason = group.reason;
  if (!reason.from.empty())
    out << "    " << group.producers.toString() << " gives " << reason.from
        << "\n    " << group.users.toString() << " takes " << reason.to << "\n";
  else if (!reason.user.empty())
    out << "    inside " << group.users.toString() << "\n";
  if (!reason.constraint.empty())
    out << "    because of " << reason.constraint << "\n";
}

/// The parameter that a value is a view of, or "".
static std::string getParameter(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (op->getNumOperands() != 1)
      return "";
    value = op->getOperand(0);
  }
  auto argument = cast<BlockArgument>(value);
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (!graph::Boundary::isParameterOrState(argument))
    return "";
  return graph::Boundary(function).getName(argument.getArgNumber());
}

std::vector<Replicated>
polyrank::sharding::findReplicated(func::FuncOp function) {
  constexpr double mentioned = 0.01;
  auto total = static_cast<double>(cost::getFlops(function));
  struct Repeated {
    LayerNames names, parameters;
    int64_t flops = 0;
    std::string axis;
  };
  llvm::MapVector<std::string, Repeated, std::map<std::string, unsigned>> all;
  function.walk([&](Operation *op) {
    if (!isa<graph::MatmulOp, graph::GroupedMatmulOp, graph::GroupedOuterOp,
             graph::ScanOp>(op) ||
        op->getNumResults() == 0)
      return;
    sharding::LayoutAttr layout = sharding::getLayout(op->getResult(0));
    if (!layout) // in a scan, whose own cost counts its work
      return;
    sharding::MeshAttr mesh = layout.getMesh();
    SmallVector<sharding::AxisRef> used;
    auto addAxes = [&](Value value) {
      if (sharding::LayoutAttr each = sharding::getLayout(value))
        llvm::append_range(used, each.getUsedAxes());
    };
    llvm::for_each(op->getOperands(), addAxes);
    llvm::for_each(op->getResults(), addAxes);
    std::string parameter;
    for (Value operand :
         llvm::reverse(op->getOperands())) // the right operand first
      if (parameter.empty())
        parameter = getParameter(operand);
    for (size_t i = 0; i < mesh.getAxisNames().size(); ++i) {
      sharding::AxisRef axis = mesh.getAxis(i);
      if (axis.size == 1 || sharding::overlap(used, axis))
        continue;
      std::string name = graph::describe(op), text = describe(mesh, axis);
      Repeated &entry = all[text + "|" + LayerNames::getKey(name)];
      entry.axis = text;
      entry.names.add(name);
      if (!parameter.empty())
        entry.parameters.add(parameter);
      entry.flops +=
          cast<graph::GraphOp>(op).getCost().flops * getExecutions(op);
    }
  });
  std::vector<Replicated> result;
  for (auto &[key, entry] : all)
    if (double share = static_cast<double>(entry.flops) / total;
        share >= mentioned)
      result.push_back({entry.names.toString(), entry.axis,
                        entry.parameters.toString(), share});
  return result;
}

void Printer::print(func::FuncOp function) {
  Groups groups;
  function.walk([&](sharding::MovementOp op) {
    if (!op.getCollectiveKind())
      return;
    std::string head =
        getName(op.getMovementKind()).str() + " over " +
        describe(sharding::getLayout(op->getOperand(0)).getMesh(),
                 op.getMovement().axes);
    Reason why(op.getWhy().value_or(ReasonAttr()));
    if (!why.members.empty())
      head += llvm::formatv(" of {0} tensors", why.members.size()).str();
    Group &group = collect(groups, head, why, cost::CostModel::getBytes(op),
                           getExecutions(op));
    for (ReasonAttr member : why.members)
      group.members.emplace_back(member);
  });
  out << "@" << function.getName() << "\n";
  for (auto &[key, group] : groups)
    print(group);
  for (const Replicated &each : findReplicated(function)) {
    out << each.ops << " is replicated over " << each.axis
        << ": no constraint reaches it (" << static_cast<int>(100 * each.share)
        << "% of the step's FLOPs)";
    if (!each.parameters.empty())
      out << "; constrain '" << each.parameters << "' to split it";
    out << "\n";
  }
}

void polyrank::sharding::printWhy(ModuleOp module, raw_ostream &out) {
  for (auto function : module.getOps<func::FuncOp>())
    Printer(out).print(function);
}

namespace {
struct PrintWhy : sharding::impl::PrintWhyBase<PrintWhy> {
  using PrintWhyBase::PrintWhyBase;
  void runOnOperation() override {
    printWhy(getOperation(), llvm::outs());
    markAllAnalysesPreserved();
  }
};
} // namespace
