// Chooses what the backward recomputes instead of reading what the forward
// kept.

#include "compiler/sharding/RecomputeChoice.h"

#include <cmath>
#include <map>
#include <set>

#include "compiler/cost/CostModel.h"
#include "compiler/sharding/MinCut.h"
#include "dialects/graph/NamePattern.h"
#include "dialects/graph/Provenance.h"
#include "dialects/pipeline/Pipeline.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

FailureOr<RecomputePolicy>
RecomputePolicy::parse(StringRef text, bool withCollectives,
                       llvm::function_ref<InFlightDiagnostic()> emitError) {
  RecomputePolicy policy;
  policy.withCollectives = withCollectives;
  if (text == "none" || text == "full" || text == "selective") {
    policy.kind = text == "none" ? None : text == "full" ? Full : Selective;
    return policy;
  }
  policy.kind = Modules;
  auto patterns = graph::splitPatterns(text);
  if (!patterns) {
    emitError() << "--recompute " << text << ": " << patterns.error().message
                << "; there are none, full, selective and patterns of modules";
    return failure();
  }
  policy.patterns = std::move(*patterns);
  return policy;
}

static int64_t bytesOf(Value value) {
  return cost::getLocalBytes(cast<RankedTensorType>(value.getType()));
}

static int64_t globalBytesOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return graph::numElements(type.getShape()) *
         std::max<int64_t>(1, type.getElementTypeBitWidth() / 8);
}

/// Returns true if the op takes few FLOPs per byte that need not be kept: at
/// most `few` per byte of its result, as elementwise ops do. If the result is
/// larger than all operands together, like attention's scores, at most `some`:
/// about the FLOPs that a device computes while it moves one byte to or from
/// memory. A matrix product over an inner dim of K takes K/2 FLOPs per byte in
/// fp32.
static bool isCheap(Operation *op) {
  constexpr int64_t few = 8, some = 64;
  auto graphOp = dyn_cast<graph::GraphOp>(op);
  if (!graphOp)
    return false;
  int64_t taken = 0, made = 0;
  for (Value operand : op->getOperands())
    taken += globalBytesOf(operand);
  for (Value result : op->getResults())
    made += globalBytesOf(result);
  int64_t flops = graphOp.getCost().flops;
  return flops <= few * made || (made > taken && flops <= some * made);
}

/// Returns true if the op is a constant of the program: it has no operand to
/// wait for.
static bool isConstant(Operation *op) { return op->getNumOperands() == 0; }

RecomputeChoice::RecomputeChoice(Block &block, const graph::Phases &phases,
                                 const RecomputePolicy &policy)
    : phases(phases) {
  findForward(block);
  findSegments(policy);
  cut();
}

/// Returns true if the forward computes the value, in this block.
bool RecomputeChoice::isForward(Value value) const {
  Operation *op = value.getDefiningOp();
  return op && !forward.empty() && op->getBlock() == forward[0]->getBlock() &&
         !phases.isCotangent(value) && !isa<graph::MicrobatchesOp>(op) &&
         !isConstant(op);
}

void RecomputeChoice::findForward(Block &block) {
  for (Operation &op : block.without_terminator())
    if (op.getNumResults() && !isa<graph::MicrobatchesOp>(op) &&
        !isConstant(&op) && !phases.isCotangent(op.getResult(0)))
      forward.push_back(&op);
  llvm::SetVector<Value> values;
  for (Operation &op : block)
    if (phases.needsCotangent(&op))
      for (Value operand : op.getOperands())
        if (isForward(operand))
          values.insert(operand);
  needed = values.takeVector();
}

/// Splits at the first number: "transformer.h." and "transformer.h.3" for
/// "transformer.h.3.attn".
static std::pair<StringRef, StringRef> splitAtNumber(StringRef scope) {
  size_t begin = 0;
  while (begin <= scope.size()) {
    size_t end = std::min(scope.find('.', begin), scope.size());
    StringRef part = scope.slice(begin, end);
    if (!part.empty() && llvm::all_of(part, llvm::isDigit))
      return {scope.take_front(begin), scope.take_front(end)};
    begin = end + 1;
  }
  return {};
}

/// Finds repeated blocks: modules of one list of which at least two have the
/// same ops, three or more.
void RecomputeChoice::findBlocks() {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> lists;
  for (Operation *op : forward) {
    auto [list, instance] = splitAtNumber(graph::getScope(op));
    if (!instance.empty())
      lists[list.str()][instance.str()].push_back(
          op->getName().getStringRef().str());
  }
  std::set<std::string> repeated;
  for (auto &[list, instances] : lists) {
    std::set<std::vector<std::string>> seen;
    for (auto &[name, ops] : instances)
      if (ops.size() >= 3 && !seen.insert(ops).second)
        repeated.insert(list);
  }
  for (Operation *op : forward) {
    auto [list, instance] = splitAtNumber(graph::getScope(op));
    if (!instance.empty() && repeated.count(list.str()))
      segments[op] = instance.str();
  }
}

/// Cuts a chain without blocks into pieces that keep about equally many bytes.
void RecomputeChoice::findRoots() {
  auto count = static_cast<int64_t>(
      std::ceil(std::sqrt(static_cast<double>(needed.size()))));
  llvm::DenseSet<Value> set(needed.begin(), needed.end());
  int64_t all = 0, sum = 0;
  for (Value value : needed)
    all += bytesOf(value);
  for (Operation *op : forward) {
    segments[op] = std::to_string(all ? sum * count / (all + 1) : 0);
    for (Value result : op->getResults())
      if (set.contains(result))
        sum += bytesOf(result);
  }
}

void RecomputeChoice::findSegments(const RecomputePolicy &policy) {
  switch (policy.kind) {
  case RecomputePolicy::None:
    return;
  case RecomputePolicy::Selective:
    for (Operation *op : forward)
      if (isCheap(op))
        segments[op] = "";
    break;
  case RecomputePolicy::Full:
    findBlocks();
    if (segments.empty())
      findRoots();
    break;
  case RecomputePolicy::Modules:
    for (Operation *op : forward) {
      // The outermost module that a pattern names is the segment.
      StringRef outermost;
      size_t number = 0;
      for (auto [i, pattern] : llvm::enumerate(policy.patterns))
        if (StringRef module = graph::findModule(pattern, graph::getScope(op));
            !module.empty() &&
            (outermost.empty() || module.size() < outermost.size())) {
          outermost = module;
          number = i;
        }
      if (outermost.empty())
        continue;
      segments[op] = outermost.str();
      matched.insert(number);
    }
    break;
  }
  // An op outside of all modules belongs to the segment of its first user.
  bool isInSegments = policy.kind != RecomputePolicy::Selective;
  if (isInSegments)
    for (Operation *op : llvm::reverse(forward))
      if (!segments.count(op) && graph::getScope(op).empty())
        for (Operation *user : op->getUsers())
          if (auto it = segments.find(user); it != segments.end()) {
            std::string segment = it->second;
            segments[op] = std::move(segment);
            break;
          }
  // Values that leave their segment are kept, and so are results of
  // communication.
  for (Operation *op : forward) {
    auto it = segments.find(op);
    if (it == segments.end())
      continue;
    bool leaves = false;
    if (isInSegments)
      for (Operation *user : op->getUsers())
        if (!phases.needsCotangent(user) &&
            !user->hasTrait<OpTrait::IsTerminator>()) {
          auto other = segments.find(user);
          leaves |= other == segments.end() || other->second != it->second;
        }
    bool communicates = isa<ReshardOp>(op) || !isa<graph::GraphOp>(op);
    // A value from another stage is received only once.
    if (leaves || isa<pipeline::TransferOp>(op) ||
        (communicates && !policy.withCollectives))
      segments.erase(it);
  }
}

/// In the network a value is two nodes and an edge, with its bytes as capacity,
/// from the first to the second: cutting the edge means keeping the value.
/// Infinite edges lead from the second node of an operand to the first of each
/// result, from the source to values that must be kept, and from values that
/// the backward reads to the sink.
void RecomputeChoice::cut() {
  for (Value value : needed)
    before += bytesOf(value);
  if (segments.empty()) {
    after = before;
    return;
  }
  MinCut network;
  llvm::DenseMap<Value, int> nodes; // the first node; the second one follows it
  for (Operation *op : forward)
    for (Value result : op->getResults()) {
      nodes[result] = network.addNode();
      network.addNode();
      network.addEdge(nodes[result], nodes[result] + 1, bytesOf(result));
    }
  for (Operation *op : forward)
    for (Value result : op->getResults()) {
      if (!segments.count(op)) {
        network.addEdge(network.getSource(), nodes[result], MinCut::infinite);
        continue;
      }
      for (Value operand : op->getOperands())
        if (auto it = nodes.find(operand); it != nodes.end())
          network.addEdge(it->second + 1, nodes[result], MinCut::infinite);
    }
  for (Value value : needed)
    network.addEdge(nodes[value] + 1, network.getSink(), MinCut::infinite);
  std::vector<bool> onSinkSide = network.findSinkSide(after);
  for (auto [value, node] : nodes)
    if (onSinkSide[node])
      again.insert(value);
}
