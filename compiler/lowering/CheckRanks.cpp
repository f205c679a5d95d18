// CheckRanks: the communication of all ranks agrees and ends.

#include "compiler/lowering/Passes.h"
#include "compiler/lowering/RankSequences.h"
#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

namespace polyrank::lowering {
#define GEN_PASS_DEF_CHECKRANKS
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

/// What all members must agree on, but sizes, id and group: the op with all its
/// other attributes that mean something.
static std::string getKind(rank::CollectiveOp op) {
  std::string kind = op->getName().stripDialect().str();
  llvm::raw_string_ostream out(kind);
  for (NamedAttribute attribute : op->getAttrs())
    if (!op->getDiscardableAttr(attribute.getName()) &&
        !llvm::is_contained({"id", "why", "axes"}, attribute.getName()))
      out << " " << attribute.getName().getValue() << " "
          << attribute.getValue();
  return kind;
}

static std::string getCommand(Operation *op) {
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    return name.getName().str();
  if (auto file = op->getLoc()->findInstanceOf<FileLineColLoc>())
    return file.getFilename().str() + ":" + std::to_string(file.getLine());
  return op->getName().getStringRef().str();
}

FailureOr<RankSequences>
polyrank::lowering::getRankSequences(ArrayRef<rank::CollectiveOp> commands) {
  rank::CollectiveOp first = commands.front();
  sharding::MeshAttr mesh = first.getAxes().getMesh();
  RankSequences ranks(mesh.getNumDevices());
  for (rank::CollectiveOp op : commands) {
    Communication communication;
    communication.id = op.getId();
    communication.kind = getKind(op);
    communication.command = getCommand(op);
    for (Type type : llvm::concat<const Type>(
             SmallVector<Type>(op->getOperandTypes()),
             SmallVector<Type>(op->getResultTypes())))
      communication.bytes.push_back(rank::getByteSize(type));
    rank::AxesAttr axes = op.getAxes();
    if (axes.getMesh() != mesh)
      return op->emitOpError("communicates over ")
             << axes.getMesh() << ", other commands over " << mesh;
    std::vector<std::optional<CommunicationGroup>> groups(ranks.size());
    for (int64_t rank = 0; rank < mesh.getNumDevices(); ++rank) {
      if (!groups[rank]) {
        SmallVector<int64_t> group = mesh.getGroup(rank, axes.getAxes());
        CommunicationGroup shared(
            std::vector<int64_t>(group.begin(), group.end()));
        for (int64_t member : shared)
          groups[member] = shared;
      }
      communication.group = *groups[rank];
      ranks[rank].push_back(communication);
    }
  }
  return ranks;
}

SmallVector<SegmentCommands>
polyrank::lowering::getSegments(func::FuncOp function) {
  SmallVector<SegmentCommands> segments(1);
  auto collect = [&](Block &block, auto visit) -> void {
    for (Operation &op : block) {
      if (auto loop = dyn_cast<rank::MicrobatchesOp>(op))
        for (Block *part : loop.getBlocks()) {
          segments.emplace_back();
          visit(*part, visit);
        }
      if (isa<rank::MicrobatchesOp>(op))
        segments.emplace_back();
      else if (auto collective = dyn_cast<rank::CollectiveOp>(op))
        segments.back().push_back(collective);
    }
  };
  collect(function.getBody().front(), collect);
  return segments;
}

/// Segments are checked one by one. Each leaves every rank at its end, and the
/// result of waiting for each other does not depend on speed, so any schedule
/// of segments that is the same on all ranks ends too.
static LogicalResult checkFunction(func::FuncOp function) {
  DenseSet<int64_t> before; // of what stands before the microbatches
  for (auto [i, commands] : llvm::enumerate(getSegments(function))) {
    if (commands.empty())
      continue;
    // Each microbatch moves the values of the others again.
    DenseSet<int64_t> ids = before;
    for (rank::CollectiveOp op : commands)
      if (!ids.insert(op.getId()).second)
        return op->emitOpError("moves the value with id ")
               << op.getId() << " a second time in one segment";
    if (i == 0)
      before = ids;
    FailureOr<RankSequences> ranks = getRankSequences(commands);
    if (failed(ranks))
      return failure();
    if (std::optional<std::string> error = findCommunicationError(*ranks))
      return rank::CollectiveOp(commands.front())->emitOpError(
                 "and what follows it do not agree on all ranks: ")
             << *error;
  }
  return success();
}

namespace {
struct CheckRanksPass : lowering::impl::CheckRanksBase<CheckRanksPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(checkFunction(function)))
        return signalPassFailure();
  }
};
} // namespace
