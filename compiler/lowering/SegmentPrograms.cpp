// Collects the communication of the ranks in each segment of a function.

#include "compiler/lowering/SegmentPrograms.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;
using progress::Command;

/// Everything on which members must agree, except sizes, id and group: the op's
/// name with its other relevant attributes.
static std::string getKind(rank::CollectiveOp op) {
  std::string kind = op->getName().stripDialect().str();
  llvm::raw_string_ostream out(kind);
  if (op.getReduction() != runtime::Reduction::None)
    out << " " << runtime::nameOf(op.getReduction());
  for (NamedAttribute attribute : op->getAttrs())
    if (!op->getDiscardableAttr(attribute.getName()) &&
        !llvm::is_contained({"id", "why", "axes", "buffers", "kind"},
                            attribute.getName()))
      out << " " << attribute.getName().getValue() << " "
          << attribute.getValue();
  return kind;
}

static std::string getPlace(Operation *op) {
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    return name.getName().str();
  if (auto file = op->getLoc()->findInstanceOf<FileLineColLoc>())
    return file.getFilename().str() + ":" + std::to_string(file.getLine());
  return op->getName().getStringRef().str();
}

progress::Movement polyrank::lowering::getMovement(rank::CollectiveOp op) {
  progress::Movement movement;
  movement.id = op.getId();
  movement.kind = getKind(op);
  movement.place = getPlace(op);
  movement.transfers = op->getNumOperands();
  for (Type type : op->getOperandTypes())
    movement.bytes.push_back(rank::getByteSize(type));
  for (Type type : op->getResultTypes())
    movement.bytes.push_back(rank::getByteSize(type));
  return movement;
}

progress::Movement
polyrank::lowering::getMovement(const rank::Transfer &transfer, Operation *op) {
  progress::Movement movement;
  movement.id = transfer.id;
  llvm::raw_string_ostream(movement.kind)
      << "transfer of " << transfer.type << " with " << transfer.slots
      << (transfer.slots == 1 ? " slot" : " slots");
  movement.place = getPlace(op);
  movement.transfers = 0;
  movement.bytes = {rank::getByteSize(transfer.type)};
  return movement;
}

progress::Group polyrank::lowering::getGroup(rank::AxesAttr axes) {
  progress::Group group;
  for (sharding::AxisRef ref : axes.getAxes())
    group.axes.push_back({ref.axis, ref.pre, ref.size});
  return group;
}

progress::Mesh polyrank::lowering::getMesh(sharding::MeshAttr mesh) {
  std::vector<progress::MeshAxis> axes;
  if (mesh)
    for (auto [name, size] :
         llvm::zip_equal(mesh.getAxisNames(), mesh.getAxisSizes()))
      axes.push_back({name.str(), size});
  return progress::Mesh(std::move(axes));
}

InFlightDiagnostic polyrank::lowering::emitWaitsElsewhere(rank::WaitOp op) {
  return op->emitOpError("stands in another segment than what it waits for: "
                         "nothing is in flight where microbatches begin or "
                         "end");
}

InFlightDiagnostic
polyrank::lowering::emitOtherMesh(Operation *op, sharding::MeshAttr mesh,
                                  sharding::MeshAttr others) {
  return op->emitOpError("communicates over ")
         << mesh << ", other commands over " << others;
}

namespace {
/// Collects one segment after another.
class Collector {
public:
  LogicalResult visit(Block &block);
  std::vector<SegmentPrograms> take();

private:
  void beginSegment();
  LogicalResult add(rank::CollectiveOp op);
  LogicalResult add(rank::WaitOp op);

  sharding::MeshAttr mesh;
  std::vector<SegmentPrograms> segments;
  // State of the last segment.
  llvm::MapVector<rank::AxesAttr, int32_t> groups;
  llvm::DenseMap<Operation *, int32_t> numbers;
};
} // namespace

void Collector::beginSegment() {
  segments.emplace_back();
  segments.back().ranks.programs.resize(1);
  groups.clear();
  numbers.clear();
}

LogicalResult Collector::add(rank::CollectiveOp op) {
  SegmentPrograms &segment = segments.back();
  rank::AxesAttr axes = op.getAxes();
  if (!mesh)
    mesh = axes.getMesh();
  if (axes.getMesh() != mesh)
    return emitOtherMesh(op, axes.getMesh(), mesh);
  auto [group, isNew] = groups.try_emplace(axes, groups.size());
  if (isNew)
    segment.ranks.groups.push_back(getGroup(axes));
  Command command;
  command.action =
      op.isStarted() ? Command::Action::Start : Command::Action::Run;
  command.group = group->second;
  command.movement = segment.ranks.movements.size();
  segment.ranks.movements.push_back(getMovement(op));
  numbers[op] = segment.commands.size();
  segment.commands.push_back(op);
  segment.ranks.programs.front().push_back(command);
  return success();
}

LogicalResult Collector::add(rank::WaitOp op) {
  SegmentPrograms &segment = segments.back();
  auto started = numbers.find(op.getCollective());
  if (started == numbers.end())
    return emitWaitsElsewhere(op);
  Command command;
  command.action = Command::Action::Wait;
  command.started = started->second;
  segment.commands.push_back(op);
  segment.ranks.programs.front().push_back(command);
  return success();
}

LogicalResult Collector::visit(Block &block) {
  beginSegment();
  for (Operation &op : block) {
    if (auto loop = dyn_cast<rank::MicrobatchesOp>(op)) {
      for (Block *part : loop.getBlocks())
        if (failed(visit(*part)))
          return failure();
      beginSegment();
    } else if (auto collective = dyn_cast<rank::CollectiveOp>(op)) {
      if (failed(add(collective)))
        return failure();
    } else if (auto wait = dyn_cast<rank::WaitOp>(op)) {
      if (failed(add(wait)))
        return failure();
    } else if (rank::getTransfer(&op)) {
      return op.emitOpError("stands in a function that all ranks run; the two "
                            "ends of a transfer are in functions of their own, "
                            "with a place (rank.at)");
    }
  }
  return success();
}

std::vector<SegmentPrograms> Collector::take() {
  for (SegmentPrograms &segment : segments)
    segment.ranks.mesh = getMesh(mesh);
  return std::move(segments);
}

FailureOr<std::vector<SegmentPrograms>>
polyrank::lowering::getSegmentPrograms(func::FuncOp function) {
  Collector collector;
  if (failed(collector.visit(function.getBody().front())))
    return failure();
  return collector.take();
}
