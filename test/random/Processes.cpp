// Runs the compiled program on real processes.

#include "test/random/Processes.h"

#include <filesystem>
#include <fstream>
#include <numeric>

#include "compiler/evaluate/Evaluator.h"
#include "compiler/evaluate/NpzTensors.h"
#include "compiler/lowering/Stage.h"
#include "compiler/plan/WritePlan.h"
#include "dialects/graph/Boundary.h"
#include "dialects/sharding/Constraint.h"
#include "mlir/Pass/PassManager.h"
#include "support/safetensors/Safetensors.h"
#include "test/random/Check.h"
#include "test/random/Narrow.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::test;
using graph::Tensor;

/// The tolerance of one step in f32. The kernels' functions are within some
/// ulps, and sums of their results may cancel.
constexpr double f32Tolerance = 2e-4;

namespace {
class ProcessCheck {
public:
  ProcessCheck(ModuleOp module, const Program &program, uint64_t seed,
               int64_t machines, std::string folder)
      : module(module), program(program), seed(seed), machines(machines),
        folder(folder) {}

  std::string run();

private:
  std::string path(StringRef name) const { return folder + "/" + name.str(); }
  std::string writeFiles();
  std::vector<std::string> commandFor(StringRef output) const;
  std::string runPlan(StringRef output, int64_t machines);
  std::string compareFiles(StringRef one, StringRef other) const;
  std::string compareWeights(ArrayRef<Tensor> results);
  std::string compareOutputs(ArrayRef<Tensor> results);

  ModuleOp module;
  const Program &program;
  uint64_t seed;
  int64_t machines;
  std::string folder;
  func::FuncOp step;
  double tolerance = 0;
};
} // namespace

/// The weights, and every input with its samples in one dim.
std::string ProcessCheck::writeFiles() {
  std::ofstream weights(path("weights.bin"), std::ios::binary);
  int64_t offset = 0;
  OpBuilder builder(module.getContext());
  for (auto parameter : module.getOps<graph::ParameterOp>()) {
    parameter.setPath(path("weights.bin"));
    parameter.setOffset(offset);
    Tensor stored = drawStored(parameter, seed);
    std::vector<float> values(stored.floats.begin(), stored.floats.end());
    weights.write(reinterpret_cast<const char *>(values.data()),
                  4 * values.size());
    offset += 4 * values.size();
  }
  std::vector<std::pair<std::string, Tensor>> inputs;
  SmallVector<Tensor> arguments = drawArguments(step, seed);
  graph::Boundary boundary(step);
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    if (auto input = boundary.getArgument<graph::InputAttr>(i)) {
      ArrayRef<int64_t> shape = arguments[i].shape;
      SmallVector<int64_t> samples{shape[0] * shape[1]};
      llvm::append_range(samples, shape.drop_front(2));
      inputs.push_back({input.getName().str(), arguments[i].reshaped(samples)});
    }
  auto written = evaluate::writeNpz(path("data.npz"), inputs);
  return written ? "" : written.error().message;
}

std::vector<std::string> ProcessCheck::commandFor(StringRef output) const {
  std::vector<std::string> words{POLYRANK_RUN, path("plan"), "--quiet",
                                 "--steps", "1"};
  bool trains = program.mode == "train";
  llvm::append_range(
      words,
      std::vector<std::string>{trains ? "--data" : "--inputs", path("data.npz"),
                               trains ? "--save" : "--outputs", path(output)});
  if (trains)
    llvm::append_range(words,
                       std::vector<std::string>{"--order", "sequential"});
  return words;
}

static std::string readText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

/// Runs the plan, on several machines by as many commands.
std::string ProcessCheck::runPlan(StringRef output, int64_t machines) {
  // A port of its own for each of the processes that may do this at once.
  std::string meeting =
      "localhost:" +
      std::to_string(20000 + llvm::sys::Process::getProcessId() % 20000);
  std::vector<llvm::sys::ProcessInfo> started;
  for (int64_t machine = 0; machine < machines; ++machine) {
    std::vector<std::string> words = commandFor(output);
    if (machines > 1)
      llvm::append_range(words,
                         std::vector<std::string>{
                             "--machines", std::to_string(machines),
                             "--machine", std::to_string(machine),
                             "--rendezvous", meeting, "--bind-to", "none"});
    SmallVector<StringRef> arguments(words.begin(), words.end());
    std::string log = path("log" + std::to_string(machine));
    std::optional<StringRef> redirects[] = {std::nullopt, StringRef(log),
                                            StringRef(log)};
    started.push_back(
        llvm::sys::ExecuteNoWait(words[0], arguments, std::nullopt, redirects));
  }
  std::string wrong;
  for (auto [machine, process] : llvm::enumerate(started)) {
    std::string error;
    int status = llvm::sys::Wait(process, 60, &error).ReturnCode;
    if (status != 0 && wrong.empty())
      wrong = "polyrank-run " + std::to_string(machine) + " of " +
              std::to_string(machines) + " ends with status " +
              std::to_string(status) + ": " + error +
              readText(path("log" + std::to_string(machine))).substr(0, 2000);
  }
  return wrong;
}

std::string ProcessCheck::compareFiles(StringRef one, StringRef other) const {
  return readText(path(one)) == readText(path(other))
             ? ""
             : other.str() + " has other bytes than " + one.str();
}

/// The saved tensors hold the step's results, through their views.
std::string ProcessCheck::compareWeights(ArrayRef<Tensor> results) {
  auto saved = SafetensorsFile::open(path("out"));
  if (!saved)
    return saved.error().message;
  graph::Boundary boundary(step);
  for (auto [number, expected] : llvm::enumerate(results)) {
    std::optional<unsigned> replaced = boundary.getReplaced(number);
    auto parameter = replaced
                         ? boundary.getArgument<graph::ParameterAttr>(*replaced)
                         : graph::ParameterAttr();
    if (!parameter)
      continue; // optimizer state is not saved
    FlatSymbolRefAttr symbol = parameter.getSymbol();
    const auto *span = saved->find(symbol.getValue().str());
    if (!span)
      return symbol.getValue().str() + " is not saved";
    std::vector<float> values(span->length / 4);
    if (auto read = saved->read(*span, 0, values.data(), span->length); !read)
      return read.error().message;
    Tensor found = expected;
    DenseI64ArrayAttr view = parameter.getView();
    int64_t element = 0;
    graph::forEachIndex(expected.shape, [&](ArrayRef<int64_t> index) {
      int64_t from = view ? view[0] : element;
      for (auto [d, position] : llvm::enumerate(index))
        from += view ? position * view[d + 1] : 0;
      found.floats[element++] = values[from];
    });
    std::string reason;
    if (!evaluate::agree(found, expected, reason, tolerance))
      return symbol.getValue().str() + ": " + reason;
  }
  return "";
}

std::string ProcessCheck::compareOutputs(ArrayRef<Tensor> results) {
  evaluate::NpzTensors outputs;
  if (auto opened = outputs.open(path("out.npz")); !opened)
    return opened.error().message;
  for (auto [i, expected] : llvm::enumerate(results)) {
    auto output = graph::Boundary(step).getResult<graph::OutputAttr>(i);
    if (!output || expected.shape.empty())
      continue;
    StringAttr name = output.getName();
    SmallVector<int64_t> shape(ArrayRef(expected.shape).drop_front());
    Tensor found(expected.elementType, shape);
    if (auto read = outputs.read(name.str(), found); !read)
      return read.error().message;
    std::string error;
    if (!evaluate::agree(found.reshaped(expected.shape), expected, error,
                         tolerance))
      return name.str() + ": " + error;
  }
  return "";
}

std::string ProcessCheck::run() {
  step = module.lookupSymbol<func::FuncOp>("step");
  tolerance = f32Tolerance;
  if (hasNarrowFloats(step))
    tolerance = std::max(tolerance, evaluate::getRoundingTolerance(
                                        step, graph::Rounding::OfTypes));
  auto results = evaluate::evaluateGlobal(step, drawArguments(step, seed),
                                          graph::Rounding::OfTypes);
  if (failed(results))
    return "the evaluation failed";
  SmallVector<Tensor> expected(*results);
  if (std::string error = writeFiles(); !error.empty())
    return error;
  OwningOpRef<ModuleOp> lowered(module.clone());
  plan::PlanOptions options;
  options.forward = program.mode != "train";
  // The model's function has been differentiated into the step.
  if (auto forward = lowered->lookupSymbol<func::FuncOp>("forward"))
    forward.erase();
  PassManager manager(lowered->getContext());
  lowering::LoweringStageOptions lowering;
  lowering.ahead = drawAhead(seed);
  lowering.attention = drawAttention(seed);
  lowering::loweringStage(manager, lowering);
  if (failed(manager.run(*lowered)) ||
      failed(plan::writePlan(*lowered, options, path("plan"))))
    return "no plan";
  bool trains = program.mode == "train";
  StringRef output = trains ? "out" : "out.npz";
  if (std::string error = runPlan(output, 1); !error.empty())
    return error;
  if (std::string error =
          trains ? compareWeights(expected) : compareOutputs(expected);
      !error.empty())
    return error;
  sharding::MeshAttr mesh = sharding::getMesh(module);
  if (machines <= 1 || !mesh || mesh.getNumDevices() % machines != 0)
    return "";
  StringRef shared = trains ? "out-machines" : "out-machines.npz";
  std::string error = runPlan(shared, machines);
  return error.empty() ? compareFiles(output, shared) : error;
}

std::string polyrank::test::checkOnProcesses(ModuleOp partitioned,
                                             const Program &program,
                                             uint64_t seed, int64_t machines) {
  SmallString<128> folder;
  if (llvm::sys::fs::createUniqueDirectory("random-program", folder))
    return "cannot make a folder";
  OwningOpRef<ModuleOp> module(partitioned.clone());
  std::string error =
      ProcessCheck(*module, program, seed, machines, folder.str().str()).run();
  llvm::sys::fs::remove_directories(folder);
  return error;
}
