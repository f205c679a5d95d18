// Mutations of the communication of three stages' functions: each is refused,
// or has the same meaning.

#include "compiler/codegen/Passes.h"
#include "compiler/evaluate/Evaluator.h"
#include "compiler/lowering/Passes.h"
#include "compiler/overlap/Passes.h"
#include "compiler/target/cpu/CpuTarget.h"
#include "dialects/Register.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "test/random/Random.h"

#include <gtest/gtest.h>
#include <map>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::test;

namespace {

/// 1F1B with four microbatches of two samples, each on a rank of its own; a
/// value skips a stage, and all stages know the norm of all gradients.
const char *const threeStages = R"mlir(
#mesh = #sharding.mesh<["data"=2, "pipe"=3]>
#w0 = #sharding.layout<#mesh, [{}], at {"pipe" = 0}>
#w1 = #sharding.layout<#mesh, [{}], at {"pipe" = 1}>
#w2 = #sharding.layout<#mesh, [{}], at {"pipe" = 2}>
#x = #sharding.layout<#mesh, [{}, {"data"}], at {"pipe" = 0}>
#n = #sharding.layout<#mesh, []>
func.func @step_0(%w: tensor<4xf32> {rank.global = tensor<4xf32, #w0>, rank.number = 0 : i64},
                  %x: tensor<4x4xf32> {rank.global = tensor<4x8xf32, #x>, rank.number = 3 : i64})
    -> (tensor<4xf32> {rank.global = tensor<4xf32, #w0>, rank.number = 0 : i64},
        tensor<f32> {rank.global = tensor<f32, #n>, rank.number = 3 : i64})
    attributes {rank.at = {pipe = 0 : i64}} {
  %g = rank.microbatches [0:0, 0:1, 0:2, 1:0, 0:3, 2:1, 2:2, 2:3] of(%x) carry() {
  rank.segment "forward" takes [] gives [] {
  ^bb0(%xi: tensor<4xf32>):
    %s = graph.reduce sum %xi over [0] : (tensor<4xf32>) -> tensor<f32>
    %h = graph.mul %xi, %w : tensor<4xf32>
    rank.send %h over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
    rank.send %s over <#mesh, {"pipe"}> from 0 to 2 id 5 slots 3 : tensor<f32>
    rank.yield
  }
  rank.segment "backward first" takes [] gives [0] {
  ^bb0(%xi: tensor<4xf32>):
    %dh = rank.recv over <#mesh, {"pipe"}> from 1 to 0 id 3 slots 1 : tensor<4xf32>
    %dw = graph.mul %dh, %xi : tensor<4xf32>
    rank.yield %dw : tensor<4xf32>
  }
  rank.segment "backward" takes [0] gives [0] {
  ^bb0(%xi: tensor<4xf32>, %sum: tensor<4xf32>):
    %dh = rank.recv over <#mesh, {"pipe"}> from 1 to 0 id 3 slots 1 : tensor<4xf32>
    %dw = graph.mul %dh, %xi : tensor<4xf32>
    %next = graph.add %sum, %dw : tensor<4xf32>
    rank.yield %next : tensor<4xf32>
  }
  } : (tensor<4x4xf32>) -> tensor<4xf32>
  %r = rank.all_reduce sum %g over <#mesh, {"data"}> id 7 : (tensor<4xf32>) -> tensor<4xf32>
  %q = graph.mul %r, %r : tensor<4xf32>
  %s = graph.reduce sum %q over [0] : (tensor<4xf32>) -> tensor<f32>
  %norm = rank.all_reduce sum %s over <#mesh, {"pipe"}> id 6 : (tensor<f32>) -> tensor<f32>
  %b = graph.broadcast %norm {dims = array<i64>} : (tensor<f32>) -> tensor<4xf32>
  %u = graph.mul %r, %b : tensor<4xf32>
  return %u, %norm : tensor<4xf32>, tensor<f32>
}
func.func @step_1(%w: tensor<4xf32> {rank.global = tensor<4xf32, #w1>, rank.number = 1 : i64})
    -> (tensor<4xf32> {rank.global = tensor<4xf32, #w1>, rank.number = 1 : i64},
        tensor<f32> {rank.global = tensor<f32, #n>, rank.number = 3 : i64})
    attributes {rank.at = {pipe = 1 : i64}} {
  %g, %kept = rank.microbatches [0:0, 0:1, 1:0, 0:2, 2:1, 0:3, 2:2, 2:3] of() carry() stashes [1] {
  rank.segment "forward" takes [] gives [1] {
    %h = rank.recv over <#mesh, {"pipe"}> from 0 to 1 id 1 slots 2 : tensor<4xf32>
    %o = graph.mul %h, %w : tensor<4xf32>
    rank.send %o over <#mesh, {"pipe"}> from 1 to 2 id 2 slots 2 : tensor<4xf32>
    rank.yield %h : tensor<4xf32>
  }
  rank.segment "backward first" takes [1] gives [0] {
  ^bb0(%h: tensor<4xf32>):
    %do = rank.recv over <#mesh, {"pipe"}> from 2 to 1 id 4 slots 1 : tensor<4xf32>
    %dw = graph.mul %h, %do : tensor<4xf32>
    %dh = graph.mul %do, %w : tensor<4xf32>
    rank.send %dh over <#mesh, {"pipe"}> from 1 to 0 id 3 slots 1 : tensor<4xf32>
    rank.yield %dw : tensor<4xf32>
  }
  rank.segment "backward" takes [0, 1] gives [0] {
  ^bb0(%sum: tensor<4xf32>, %h: tensor<4xf32>):
    %do = rank.recv over <#mesh, {"pipe"}> from 2 to 1 id 4 slots 1 : tensor<4xf32>
    %dw = graph.mul %h, %do : tensor<4xf32>
    %dh = graph.mul %do, %w : tensor<4xf32>
    rank.send %dh over <#mesh, {"pipe"}> from 1 to 0 id 3 slots 1 : tensor<4xf32>
    %next = graph.add %sum, %dw : tensor<4xf32>
    rank.yield %next : tensor<4xf32>
  }
  } : () -> (tensor<4xf32>, tensor<2x4xf32>)
  %r = rank.all_reduce sum %g over <#mesh, {"data"}> id 8 : (tensor<4xf32>) -> tensor<4xf32>
  %q = graph.mul %r, %r : tensor<4xf32>
  %s = graph.reduce sum %q over [0] : (tensor<4xf32>) -> tensor<f32>
  %norm = rank.all_reduce sum %s over <#mesh, {"pipe"}> id 6 : (tensor<f32>) -> tensor<f32>
  %b = graph.broadcast %norm {dims = array<i64>} : (tensor<f32>) -> tensor<4xf32>
  %u = graph.mul %r, %b : tensor<4xf32>
  return %u, %norm : tensor<4xf32>, tensor<f32>
}
func.func @step_2(%w: tensor<4xf32> {rank.global = tensor<4xf32, #w2>, rank.number = 2 : i64})
    -> (tensor<4xf32> {rank.global = tensor<4xf32, #w2>, rank.number = 2 : i64},
        tensor<f32> {rank.global = tensor<f32, #n>, rank.number = 3 : i64})
    attributes {rank.at = {pipe = 2 : i64}} {
  %g = rank.microbatches [0:0, 1:1, 1:2, 1:3] of() carry() {
  rank.segment "first" takes [] gives [0] {
    %h = rank.recv over <#mesh, {"pipe"}> from 1 to 2 id 2 slots 2 : tensor<4xf32>
    %s = rank.recv over <#mesh, {"pipe"}> from 0 to 2 id 5 slots 3 : tensor<f32>
    %sb = graph.broadcast %s {dims = array<i64>} : (tensor<f32>) -> tensor<4xf32>
    %o = graph.mul %h, %w : tensor<4xf32>
    %p = graph.add %o, %sb : tensor<4xf32>
    %dw = graph.mul %h, %p : tensor<4xf32>
    %dh = graph.mul %p, %w : tensor<4xf32>
    rank.send %dh over <#mesh, {"pipe"}> from 2 to 1 id 4 slots 1 : tensor<4xf32>
    rank.yield %dw : tensor<4xf32>
  }
  rank.segment "rest" takes [0] gives [0] {
  ^bb0(%sum: tensor<4xf32>):
    %h = rank.recv over <#mesh, {"pipe"}> from 1 to 2 id 2 slots 2 : tensor<4xf32>
    %s = rank.recv over <#mesh, {"pipe"}> from 0 to 2 id 5 slots 3 : tensor<f32>
    %sb = graph.broadcast %s {dims = array<i64>} : (tensor<f32>) -> tensor<4xf32>
    %o = graph.mul %h, %w : tensor<4xf32>
    %p = graph.add %o, %sb : tensor<4xf32>
    %dw = graph.mul %h, %p : tensor<4xf32>
    %dh = graph.mul %p, %w : tensor<4xf32>
    rank.send %dh over <#mesh, {"pipe"}> from 2 to 1 id 4 slots 1 : tensor<4xf32>
    %next = graph.add %sum, %dw : tensor<4xf32>
    rank.yield %next : tensor<4xf32>
  }
  } : () -> tensor<4xf32>
  %r = rank.all_reduce sum %g over <#mesh, {"data"}> id 9 : (tensor<4xf32>) -> tensor<4xf32>
  %q = graph.mul %r, %r : tensor<4xf32>
  %s = graph.reduce sum %q over [0] : (tensor<4xf32>) -> tensor<f32>
  %norm = rank.all_reduce sum %s over <#mesh, {"pipe"}> id 6 : (tensor<f32>) -> tensor<f32>
  %b = graph.broadcast %norm {dims = array<i64>} : (tensor<f32>) -> tensor<4xf32>
  %u = graph.mul %r, %b : tensor<4xf32>
  return %u, %norm : tensor<4xf32>, tensor<f32>
}
)mlir";

using Results = SmallVector<graph::Tensor>;

/// The sends and receives of a module, and how to change one.
class Ends {
public:
  explicit Ends(ModuleOp module) {
    module.walk([&](Operation *op) {
      if (rank::getTransfer(op))
        ops.push_back(op);
    });
  }

  SmallVector<Operation *> ops;

  /// Returns the op alone, or all sends and receives of its id.
  SmallVector<Operation *> alike(Operation *op, bool all) const {
    if (!all)
      return {op};
    SmallVector<Operation *> same;
    int64_t id = rank::getTransfer(op)->id;
    llvm::copy_if(ops, std::back_inserter(same), [&](Operation *other) {
      return rank::getTransfer(other)->id == id;
    });
    return same;
  }

  template <typename Change>
  static void change(ArrayRef<Operation *> ops, Change change) {
    for (Operation *op : ops)
      if (auto send = dyn_cast<rank::SendOp>(op))
        change(send);
      else
        change(cast<rank::RecvOp>(op));
  }
};

/// Makes one change, and returns its kind; "" if it cannot be made.
class Mutator {
public:
  Mutator(ModuleOp module, Random &random)
      : module(module), random(random), ends(module) {}

  std::string mutate();

private:
  std::string swapTwo();
  std::string moveOne(Operation *op);
  std::string drop(Operation *op);
  std::string sendAnother();
  std::string changeGroup(ArrayRef<Operation *> ops);
  std::string changeSchedule(bool onlyMicrobatches);
  std::string changeId(Operation *op, ArrayRef<Operation *> ops);
  std::string swapPlaces();
  SmallVector<Operation *> getCommunication();

  ModuleOp module;
  Random &random;
  Ends ends;
};

} // namespace

SmallVector<Operation *> Mutator::getCommunication() {
  SmallVector<Operation *> all;
  module.walk([&](Operation *op) {
    if (rank::getTransfer(op) || isa<rank::CollectiveOp>(op))
      all.push_back(op);
  });
  return all;
}

std::string Mutator::swapTwo() {
  SmallVector<Operation *> all = getCommunication();
  Operation *one = random.pick(all), *other = random.pick(all);
  if (one == other || one->getBlock() != other->getBlock())
    return "";
  if (other->isBeforeInBlock(one))
    std::swap(one, other);
  Operation *behind = other->getNextNode();
  other->moveBefore(one);
  one->moveBefore(behind);
  return "swapped";
}

std::string Mutator::moveOne(Operation *op) {
  SmallVector<Operation *> places;
  for (Operation &place : *op->getBlock())
    places.push_back(&place);
  Operation *place = random.pick(places);
  if (place == op)
    return "";
  op->moveBefore(place);
  return "moved";
}

std::string Mutator::drop(Operation *op) {
  if (isa<rank::RecvOp>(op)) {
    SmallVector<Value> others;
    for (Operation *other : ends.ops)
      if (isa<rank::RecvOp>(other) && other != op &&
          other->getBlock() == op->getBlock())
        others.push_back(other->getResult(0));
    for (Value argument : op->getBlock()->getArguments())
      others.push_back(argument);
    for (Value argument : op->getParentOfType<func::FuncOp>().getArguments())
      others.push_back(argument);
    Value other = random.pick(others);
    if (other.getType() != op->getResult(0).getType())
      return "";
    op->replaceAllUsesWith(ValueRange(other));
  }
  op->erase();
  return "dropped";
}

std::string Mutator::sendAnother() {
  Operation *op = random.pick(ends.ops);
  auto send = dyn_cast<rank::SendOp>(op);
  auto function = op->getParentOfType<func::FuncOp>();
  Value argument = random.pick(SmallVector<Value>(
      function.getArguments().begin(), function.getArguments().end()));
  if (!send || argument.getType() == send.getInput().getType())
    return "";
  send.getInputMutable().assign(argument);
  return "another size";
}

std::string Mutator::changeGroup(ArrayRef<Operation *> ops) {
  rank::AxesAttr old = rank::getTransfer(ops.front())->axes;
  sharding::MeshAttr mesh = old.getMesh();
  sharding::AxisRef data = mesh.getAxis(0), pipe = mesh.getAxis(1);
  SmallVector<SmallVector<sharding::AxisRef>> groups = {
      {data}, {data, pipe}, {pipe, data}};
  auto axes = rank::AxesAttr::get(mesh, random.pick(groups));
  Ends::change(ops, [&](auto op) { op.setAxesAttr(axes); });
  return "another group";
}

std::string Mutator::changeSchedule(bool onlyMicrobatches) {
  SmallVector<rank::MicrobatchesOp> loops;
  module.walk([&](rank::MicrobatchesOp op) { loops.push_back(op); });
  rank::MicrobatchesOp loop = random.pick(loops);
  SmallVector<int64_t> runs(loop.getSchedule());
  int64_t one = random.below(runs.size() / 2),
          other = random.below(runs.size() / 2);
  if (!onlyMicrobatches)
    std::swap(runs[2 * one], runs[2 * other]);
  std::swap(runs[2 * one + 1], runs[2 * other + 1]);
  if (ArrayRef(runs) == loop.getSchedule())
    return "";
  loop.setSchedule(runs);
  return onlyMicrobatches ? "microbatches swapped" : "runs swapped";
}

std::string Mutator::changeId(Operation *op, ArrayRef<Operation *> ops) {
  int64_t other = rank::getTransfer(random.pick(ends.ops))->id;
  int64_t id = random.chance(50) ? 100 : other;
  if (id == rank::getTransfer(op)->id)
    return "";
  // Or the two exchange their ids.
  if (id == other && random.chance(50))
    Ends::change(ends.alike(random.pick(ends.ops), true), [&](auto end) {
      if (static_cast<int64_t>(end.getId()) == other)
        end.setId(rank::getTransfer(op)->id);
    });
  Ends::change(ops, [&](auto end) { end.setId(id); });
  return "another id";
}

std::string Mutator::swapPlaces() {
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  func::FuncOp one = random.pick(functions), other = random.pick(functions);
  if (one == other)
    return "";
  Attribute place = one->getAttr(rank::placeAttrName);
  one->setAttr(rank::placeAttrName, other->getAttr(rank::placeAttrName));
  if (random.chance(80))
    other->setAttr(rank::placeAttrName, place);
  return "places swapped";
}

std::string Mutator::mutate() {
  Operation *op = random.pick(ends.ops);
  SmallVector<Operation *> ops = ends.alike(op, random.chance(40));
  int64_t peer = random.below(3), more = random.pick({-1, 1});
  switch (random.below(13)) {
  case 0:
    return swapTwo();
  case 1:
    return moveOne(op);
  case 2:
    return drop(op);
  case 3:
    OpBuilder(op).clone(*op);
    return "doubled";
  case 4:
    if (peer == rank::getTransfer(op)->to)
      return "";
    Ends::change(ops, [&](auto end) { end.setTo(peer); });
    return "sent to another peer";
  case 5:
    if (peer == rank::getTransfer(op)->from)
      return "";
    Ends::change(ops, [&](auto end) { end.setFrom(peer); });
    return "received from another peer";
  case 6:
    return sendAnother();
  case 7:
    return changeGroup(ops);
  case 8:
    Ends::change(ops, [&](auto end) { end.setSlots(end.getSlots() + more); });
    return ops.size() > 1 ? "slots of both ends" : "slots of one end";
  case 9:
    return changeSchedule(false);
  case 10:
    return changeSchedule(true);
  case 11:
    return changeId(op, ops);
  default:
    return swapPlaces();
  }
}

namespace {

class PlacesMutations : public testing::Test {
protected:
  PlacesMutations() {
    DialectRegistry registry;
    registerDialects(registry);
    cpu::registerTarget(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    good = parseSourceString<ModuleOp>(threeStages, &context);
    EXPECT_TRUE(good);
    reference = evaluate::evaluateRanks(joint(*good), arguments(*good));
    EXPECT_TRUE(succeeded(reference));
    PassManager manager(&context);
    manager.addPass(lowering::createFormGemms());
    manager.addPass(codegen::createFormKernels());
    manager.addPass(overlap::createOrderCommands());
    manager.addPass(overlap::createStartCollectives());
    EXPECT_TRUE(succeeded(manager.run(*good)));
  }

  static evaluate::JointFunction joint(ModuleOp module) {
    return evaluate::JointFunction::allOf(module)->front();
  }
  static SmallVector<graph::Tensor> arguments(ModuleOp module) {
    return evaluate::randomArguments(joint(module), 1);
  }

  /// True if the verifier, check-buffers and check-ranks accept the module.
  bool isAccepted(ModuleOp module, bool assigns) {
    if (failed(verify(module)))
      return false;
    PassManager manager(&context);
    if (assigns)
      manager.addPass(lowering::createAssignBuffers());
    manager.addPass(lowering::createCheckBuffers());
    manager.addPass(lowering::createCheckRanks());
    return succeeded(manager.run(module));
  }

  static bool isSame(const FailureOr<Results> &results,
                     const FailureOr<Results> &reference) {
    std::string reason;
    return succeeded(results) && results->size() == reference->size() &&
           llvm::all_of(llvm::zip_equal(*results, *reference), [&](auto both) {
             return evaluate::agree(std::get<0>(both), std::get<1>(both),
                                    reason, 0);
           });
  }

  /// Returns true if an accepted program has the same meaning as before.
  bool meansTheSame(ModuleOp module, uint64_t seed) {
    return isSame(evaluate::evaluateRanks(joint(module), arguments(module)),
                  reference) &&
           isSame(
               evaluate::evaluateArena(joint(module), arguments(module), seed),
               reference);
  }

  struct Counts {
    int64_t rejected = 0, equivalent = 0;
  };
  /// Returns counts by kind of mutation.
  std::map<std::string, Counts> mutate(int64_t count, bool hasBuffers);

  MLIRContext context;
  OwningOpRef<ModuleOp> good;
  FailureOr<Results> reference;
};

} // namespace

std::map<std::string, PlacesMutations::Counts>
PlacesMutations::mutate(int64_t count, bool hasBuffers) {
  std::map<std::string, Counts> counts;
  std::string said;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    said += diagnostic.str() + "\n";
    return success();
  });
  if (hasBuffers) {
    EXPECT_TRUE(isAccepted(*good, true)) << said;
    EXPECT_TRUE(meansTheSame(*good, 1)) << said;
  }
  Random random(7);
  for (int64_t seed = 0, done = 0; done < count; ++seed) {
    OwningOpRef<ModuleOp> module(good->clone());
    std::string what = Mutator(*module, random).mutate();
    if (what.empty())
      continue;
    ++done;
    said.clear();
    if (!isAccepted(*module, !hasBuffers)) {
      EXPECT_NE(said, "") << what;
      ++counts[what].rejected;
      continue;
    }
    ++counts[what].equivalent;
    EXPECT_TRUE(meansTheSame(*module, seed))
        << what << ", number " << seed << ": " << said;
  }
  return counts;
}

TEST_F(PlacesMutations, OfProgramsAreRefusedOrEquivalent) {
  auto counts = mutate(1000, false);
  EXPECT_EQ(counts.size(), 14u);
  for (auto &[what, count] : counts)
    EXPECT_GT(count.rejected, 0) << what;
  EXPECT_GT(counts["slots of both ends"].equivalent, 0);
  EXPECT_GT(counts["another id"].equivalent, 0);
  EXPECT_GT(counts["moved"].equivalent, 0);
}

TEST_F(PlacesMutations, OfProgramsWithBuffersAreRefusedOrEquivalent) {
  auto counts = mutate(1000, true);
  EXPECT_EQ(counts.size(), 14u);
  for (auto &[what, count] : counts)
    EXPECT_GT(count.rejected, 0) << what;
  EXPECT_GT(counts["another id"].equivalent, 0);
  EXPECT_GT(counts["moved"].equivalent, 0);
}

// check-ranks is not stricter about slots than necessary: what it refuses does
// deadlock. Stage 0 does all forwards first, while stage 1 sends it the
// gradient of each before it takes the next one: so two values must fit into
// each channel that stage 0 fills.
TEST_F(PlacesMutations, SlotsAreRefusedExactlyWhereProgramsStandStill) {
  std::string said;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    said += diagnostic.str() + "\n";
    return success();
  });
  int64_t still = 0, all = 0;
  for (int64_t one = 0; one < 3; ++one)
    for (int64_t two = 0; two < 3; ++two)
      for (int64_t skip = 0; skip < 4; ++skip) {
        OwningOpRef<ModuleOp> module(good->clone());
        SmallVector<rank::MicrobatchesOp> loops;
        module->walk([&](rank::MicrobatchesOp op) { loops.push_back(op); });
        loops[0].setSchedule({0, 0, 0, 1, 0, 2, 0, 3, 1, 0, 2, 1, 2, 2, 2, 3});
        loops[1].setSchedule({0, 0, 1, 0, 0, 1, 2, 1, 0, 2, 2, 2, 0, 3, 2, 3});
        Ends::change(Ends(*module).ops, [&](auto end) {
          int64_t slots[] = {0, 1 + one, 1 + two, 1, 1, 1 + skip};
          end.setSlots(slots[end.getId()]);
        });
        bool isSame = PlacesMutations::isSame(
            evaluate::evaluateRanks(joint(*module), arguments(*module)),
            reference);
        EXPECT_EQ(isAccepted(*module, true), isSame)
            << one << ", " << two << ", " << skip << ": " << said;
        said.clear();
        still += !isSame;
        ++all;
      }
  EXPECT_EQ(all - still, 2 * 3 * 3); // one and skip are not 0
}
