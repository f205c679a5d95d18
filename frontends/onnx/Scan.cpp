// Scans: a graph that is executed for each slice of some sequences, in order.

#include "frontends/emit/Recurrent.h"
#include "frontends/onnx/GraphImporter.h"
#include "frontends/onnx/Origin.h"

using namespace mlir;
using namespace polyrank::frontends;
using namespace polyrank::frontends::onnx;

static ArrayRef<int64_t> integersOf(const Node &node, std::string_view name) {
  for (const onnx::Attribute &attribute : node.attributes)
    if (attribute.name == name)
      return attribute.ints;
  return {};
}

namespace {

/// The dim along which a sequence is scanned, and the direction.
struct Course {
  int64_t dim = 0;
  bool isBackward = false;
};

} // namespace

static bool isBackward(const Node &node, StringRef what, size_t i) {
  ArrayRef<int64_t> list = integersOf(node, (what + "_directions").str());
  return i < list.size() && list[i] != 0;
}

/// The error for a result of `shape`, whose first dim is the steps.
static std::string noSuchAxis(std::string_view name, ArrayRef<int64_t> shape) {
  return "its result `" + std::string(name) + "` of " +
         polyrank::frontends::toString(shape.drop_front()) +
         " for each iteration has no such axis as scan_output_axes says";
}

/// The course of sequence `i`, of `rank`, from a list of axes and one of
/// directions; nullopt if the axis is outside [-rank, rank).
static std::optional<Course> courseOf(const Node &node, StringRef what,
                                      size_t i, int64_t rank) {
  auto at = [&](ArrayRef<int64_t> list) {
    return i < list.size() ? list[i] : 0;
  };
  int64_t dim = at(integersOf(node, (what + "_axes").str()));
  if (dim < -rank || dim >= rank)
    return std::nullopt;
  return Course{dim < 0 ? dim + rank : dim, isBackward(node, what, i)};
}

void GraphImporter::importScan(const Node &node, ArrayRef<Imported> operands,
                               Scope &scope, Place place) {
  if (auto opset = place.opsets.find(node.domain);
      opset != place.opsets.end() && opset->second < 9)
    return fail(node, "a Scan of opset " + std::to_string(opset->second) +
                          ", whose sequences may end early; export with "
                          "opset_version=20");
  const Graph *body = graphOf(node, "body");
  int64_t count = 0;
  for (const onnx::Attribute &attribute : node.attributes)
    if (attribute.name == "num_scan_inputs")
      count = attribute.i;
  if (!body || count < 1 || count > static_cast<int64_t>(operands.size()))
    return fail(node, "it needs a body and at least one sequence among its " +
                          std::to_string(operands.size()) + " operands");
  SmallVector<Imported> carried(operands.drop_back(count));
  if (body->outputs.size() < carried.size() ||
      node.outputs.size() > body->outputs.size())
    return fail(node, "its body gives " + std::to_string(body->outputs.size()) +
                          " results, and it has " +
                          std::to_string(carried.size()) + " states and " +
                          std::to_string(node.outputs.size()) + " results");
  size_t numStacked = body->outputs.size() - carried.size();
  Origin origin = originOf(node);
  auto setOrigin = [&] {
    emit.setOrigin(locationOf(emit.getLocation().getContext(), node, origin),
                   origin.scope);
  };
  setOrigin();
  SmallVector<ScannedSequence> scanned;
  SmallVector<bool> directions; // true: backward; of sequences and results
  int64_t steps = -1;
  for (auto [i, operand] : llvm::enumerate(operands.take_back(count))) {
    std::string which = "its sequence " + std::to_string(i);
    if (!operand || operand.sequence)
      return fail(node, which + " is no tensor");
    auto course = courseOf(node, "scan_input", i, operand.getRank());
    if (!course)
      return fail(node, which + " of " +
                            frontends::toString(operand.getShape()) +
                            " has no such axis as scan_input_axes says");
    int64_t size = operand.getShape()[course->dim];
    if (size == 0 || (steps >= 0 && size != steps))
      return fail(node, which + " has " + std::to_string(size) + " steps" +
                            (size == 0 ? std::string(", and it makes no turn")
                                       : ", and the one before it " +
                                             std::to_string(steps)));
    steps = size;
    scanned.push_back({operand, course->dim});
    directions.push_back(course->isBackward);
  }
  for (size_t i = 0; i < numStacked; ++i)
    directions.push_back(isBackward(node, "scan_output", i));
  if (llvm::all_equal(directions))
    if (auto results = importScanAsLoop(node, *body, carried, scanned,
                                        directions.front(), scope, place)) {
      setOrigin();
      return giveStacks(node, *results, carried.size(), scope);
    }
  unrollScan(node, *body, std::move(carried), scanned, directions, scope,
             place);
}

void GraphImporter::giveStacks(const Node &node, ArrayRef<Imported> results,
                               size_t numCarried, Scope &scope) {
  for (auto [i, name] : llvm::enumerate(node.outputs)) {
    Imported result = results[i];
    if (name.empty())
      continue;
    if (i >= numCarried) {
      int64_t rank = result.getRank();
      auto course = courseOf(node, "scan_output", i - numCarried, rank);
      if (!course)
        return fail(node, noSuchAxis(name, result.getShape()));
      // Moves the dim of steps to its axis among the other dims.
      SmallVector<int64_t> permutation;
      for (int64_t d = 1; d < rank; ++d)
        permutation.push_back(d);
      permutation.insert(permutation.begin() + course->dim, 0);
      result = emit.transpose(result, permutation);
    }
    scope[name] = result;
  }
  if (std::string rejected = emit.takeError(); !rejected.empty())
    fail(node, rejected);
}

void GraphImporter::unrollScan(const Node &node, const Graph &body,
                               SmallVector<Imported> carried,
                               ArrayRef<ScannedSequence> scanned,
                               ArrayRef<bool> directions, Scope &scope,
                               Place place) {
  size_t numStacked = body.outputs.size() - carried.size();
  std::vector<std::vector<Imported>> sequences;
  for (auto [sequence, backward] : llvm::zip(scanned, directions)) {
    sequences.push_back(unstack(emit, sequence.tensor, sequence.dim));
    if (backward)
      std::reverse(sequences.back().begin(), sequences.back().end());
  }
  std::vector<std::vector<Imported>> stacked(numStacked);
  for (size_t turn = 0; turn < sequences.front().size(); ++turn) {
    if (++importedNodes > maxNodes)
      return; // `report` gives the error
    SmallVector<Imported> arguments = carried;
    for (const std::vector<Imported> &slices : sequences)
      arguments.push_back(slices[turn]);
    auto results = importGraph(node, body, arguments, scope, place);
    if (!results)
      return;
    carried.assign(results->begin(), results->begin() + carried.size());
    for (size_t i = 0; i < numStacked; ++i)
      stacked[i].push_back((*results)[carried.size() + i]);
  }
  Origin origin = originOf(node);
  emit.setOrigin(locationOf(emit.getLocation().getContext(), node, origin),
                 origin.scope);
  for (auto [i, name] : llvm::enumerate(node.outputs)) {
    if (name.empty())
      continue;
    if (i < carried.size()) {
      scope[name] = carried[i];
      continue;
    }
    size_t number = i - carried.size();
    std::vector<Imported> &parts = stacked[number];
    std::string which = "its result `" + std::string(name) + "`";
    Shape shape;
    for (const Imported &part : parts) {
      if (part.sequence)
        return fail(node, which + " is a sequence for each iteration");
      if (&part == &parts.front())
        shape = part.getShape();
      else if (part.getShape() != shape)
        return fail(node, which + " is " + frontends::toString(shape) +
                              " in one turn and " +
                              frontends::toString(part.getShape()) +
                              " in another");
    }
    auto course = courseOf(node, "scan_output", number,
                           static_cast<int64_t>(shape.size()) + 1);
    if (!course) {
      shape.insert(shape.begin(), static_cast<int64_t>(parts.size()));
      return fail(node, noSuchAxis(name, shape));
    }
    if (course->isBackward)
      std::reverse(parts.begin(), parts.end());
    scope[name] = stack(emit, parts, course->dim);
  }
  if (std::string rejected = emit.takeError(); !rejected.empty())
    fail(node, rejected);
}
