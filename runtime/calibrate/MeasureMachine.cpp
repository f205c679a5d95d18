// Repeats the work of a calibration in turns.

#include "runtime/calibrate/MeasureMachine.h"

#include "runtime/calibrate/Workload.h"
#include "runtime/exec/Interpreter.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <fmt/format.h>
#include <numeric>

namespace polyrank::runtime {
namespace {

/// A sample of short work is of so many repetitions that it takes this long.
constexpr double leastSample = 1e-3;
constexpr uint64_t mostRepetitions = 1000;
/// The least number of samples of each thing.
constexpr size_t leastRounds = 3;

/// The size of the elements of collectives.
constexpr uint64_t elementBytes = bytesOf(Collective().dtype);

/// One thing that is measured.
struct Item {
  std::string what; // "f32 products"
  int members;      // the first ranks, which do it
  bool isShared;    // its ranks wait for each other
  std::function<Result<void>()> run;
  uint64_t repetitions = 1;         // in a sample
  std::vector<double> samples = {}; // of this rank; of all where it is shared
  Timing timing = {};
};

class Bench {
public:
  Bench(const MeasuredRank &rank, const MeasureOptions &options)
      : on(rank), options(options), mesh(rank.plan) {}

  Result<Measurements> measure() {
    std::vector<int32_t> all(static_cast<size_t>(ranks()));
    std::iota(all.begin(), all.end(), 0);
    POLYRANK_ASSIGN(group, on.communicator.createGroup(all));
    everyone = group;
    if (Result<void> added = addProducts(); !added)
      return added.error();
    if (Result<void> added = addAddition(); !added)
      return added.error();
    for (uint32_t program = 0; program < 2; ++program)
      if (Result<void> added = addCommands(program); !added)
        return added.error();
    if (Result<void> added = addCollectives(); !added)
      return added.error();
    if (Result<void> done = repeat(); !done)
      return done.error();
    for (Item &item : items)
      if (Result<void> done = settle(item); !done)
        return done.error();
    return results();
  }

private:
  int ranks() const { return on.communicator.worldSize(); }
  int me() const { return on.communicator.rank(); }

  size_t add(std::string what, std::function<Result<void>()> run) {
    return add(std::move(what), ranks(), false, std::move(run));
  }
  size_t add(std::string what, int members, bool isShared,
             std::function<Result<void>()> run) {
    items.push_back({std::move(what), members, isShared, std::move(run)});
    return items.size() - 1;
  }

  Result<void> addProducts() {
    for (ElementType elements : calibratedElements())
      for (const ProductTrial &work : calibratedProducts(elements)) {
        POLYRANK_ASSIGN(prepared, on.device.prepareTrials(work));
        Tried &product = products.emplace_back(Tried{work, {}});
        for (std::unique_ptr<Trial> &trial : prepared)
          product.items.push_back(
              add(fmt::format("{} products", nameOf(elements)),
                  keep(std::move(trial))));
      }
    return {};
  }

  Result<void> addAddition() {
    POLYRANK_ASSIGN(prepared, on.device.prepareTrials(calibratedAddition()));
    for (std::unique_ptr<Trial> &trial : prepared)
      additions.push_back(add("memory", keep(std::move(trial))));
    return {};
  }

  std::function<Result<void>()> keep(std::unique_ptr<Trial> trial) {
    return [trial = trials.emplace_back(std::move(trial)).get()] {
      return trial->run();
    };
  }

  /// Commands of one of the plan's programs.
  Result<void> addCommands(uint32_t number) {
    const plan::Program &program = *on.plan.programs()->Get(number);
    POLYRANK_ASSIGN(allocated,
                    on.device.allocate(program.private_size(), arenaAlignment));
    const DeviceMemory &memory = arenas.emplace_back(std::move(allocated));
    const ArenaView &view =
        views.emplace_back(ArenaView{{}, memory.span(), {}});
    POLYRANK_ASSIGN(prepared,
                    Interpreter::prepare(
                        program, on.plan.microbatches(),
                        {mesh, me(), view, on.device, on.communicator}, {}));
    Interpreter &interpreter = interpreters.emplace_back(std::move(prepared));
    commands[number] = add("commands", [&]() -> Result<void> {
      EventSet latest;
      POLYRANK_ASSIGN(run, interpreter.runStep(++steps, latest));
      (void)run;
      return interpreter.settle(0);
    });
    return {};
  }

  Result<void> addCollectives() {
    if (ranks() == 1)
      return {};
    uint64_t largest =
        *std::max_element(calibratedBytes().begin(), calibratedBytes().end());
    POLYRANK_ASSIGN(
        allocated, on.device.allocate(largest, arenaAlignment, Sharing::Peers));
    if (Result<void> registered = on.communicator.registerMemory(
            std::make_shared<const DeviceMemory>(std::move(allocated)));
        !registered)
      return registered;
    for (int members = 2; members <= ranks(); ++members) {
      Group group;
      if (me() < members) {
        std::vector<int32_t> first(static_cast<size_t>(members));
        std::iota(first.begin(), first.end(), 0);
        POLYRANK_ASSIGN(created, on.communicator.createGroup(first));
        group = created;
      }
      for (CollectiveKind kind : calibratedKinds())
        for (uint64_t bytes : calibratedBytes())
          if (Result<void> added = addCollective(kind, group, members, bytes);
              !added)
            return added;
    }
    return {};
  }

  /// In place, as plans have them.
  Result<void> addCollective(CollectiveKind kind, Group group, int members,
                             uint64_t bytes) {
    uint64_t block = bytes / elementBytes / uint64_t(members);
    uint64_t own = uint64_t(me()) * block * elementBytes;
    bool isWhole = kind == CollectiveKind::AllReduce;
    bool isGather = kind == CollectiveKind::AllGather;
    Transfer &transfer = transfers.emplace_back();
    transfer.inner = int64_t(isWhole ? block * uint64_t(members) : block);
    (isGather ? transfer.input : transfer.output) = isWhole ? 0 : own;
    Collective &collective = posted.emplace_back(
        Collective{.kind = kind,
                   .reduction = isGather ? Reduction::None : Reduction::Sum,
                   .group = group});
    collective.transfers = {&transfer, 1};
    if (me() < members)
      if (Result<void> right = on.communicator.check(collective); !right)
        return right;
    size_t item = add("collectives", members, true,
                      [this, &collective]() -> Result<void> {
                        POLYRANK_ASSIGN(done, on.communicator.run(collective));
                        (void)done;
                        return {};
                      });
    collectives.push_back(
        {item, kind, members, block * uint64_t(members) * elementBytes});
    return {};
  }

  /// Seconds of one time that an item is done.
  struct Sample {
    double own = 0, slowest = 0; // on this rank, and of its members
  };
  /// Does an item so many times on its members, which begin together.
  Result<Sample> sample(const Item &item) {
    if (me() == 0 && options.onProgress)
      options.onProgress(std::min(1.0, elapsed() / options.seconds), item.what);
    on.communicator.job().beat();
    POLYRANK_ASSIGN(ready, on.communicator.exchange(everyone, 0));
    (void)ready;
    bool isMember = me() < item.members;
    int64_t start = eventClock();
    if (isMember)
      for (uint64_t n = 0; n < item.repetitions; ++n)
        if (Result<void> done = item.run(); !done)
          return done.error();
    uint64_t taken = isMember ? static_cast<uint64_t>(eventClock() - start) : 0;
    POLYRANK_ASSIGN(times, on.communicator.exchange(everyone, taken));
    auto secondsOf = [&](uint64_t nanoseconds) {
      return 1e-9 * double(nanoseconds) / double(item.repetitions);
    };
    return Sample{secondsOf(taken),
                  secondsOf(*std::max_element(times.begin(), times.end()))};
  }

  /// Sets an item's timing. Where ranks do not wait for each other, each has
  /// its own least time, which something else on one core does not spoil for
  /// all; a step then takes as long as the slowest rank does.
  Result<void> settle(Item &item) {
    item.timing = Timing::of(item.samples);
    if (item.isShared)
      return {};
    for (double *seconds : {&item.timing.least, &item.timing.median}) {
      POLYRANK_ASSIGN(all,
                      on.communicator.exchange(
                          everyone, static_cast<uint64_t>(1e12 * *seconds)));
      *seconds = 1e-12 * double(*std::max_element(all.begin(), all.end()));
    }
    return {};
  }

  double elapsed() const { return 1e-9 * double(eventClock() - begun); }

  /// Rank 0 decides for all, since clocks differ.
  Result<bool> isOver(size_t rounds) {
    bool over = rounds >= leastRounds && elapsed() >= options.seconds;
    POLYRANK_ASSIGN(told, on.communicator.exchange(everyone, over ? 1 : 0));
    return told[0] != 0;
  }

  Result<void> repeat() {
    // The first time is slower, and says how short the work is.
    for (Item &item : items) {
      POLYRANK_ASSIGN(first, sample(item));
      item.repetitions = static_cast<uint64_t>(
          std::clamp(std::ceil(leastSample / std::max(first.slowest, 1e-9)),
                     1.0, double(mostRepetitions)));
    }
    for (size_t rounds = 0;;) {
      for (Item &item : items) {
        POLYRANK_ASSIGN(taken, sample(item));
        item.samples.push_back(item.isShared ? taken.slowest : taken.own);
      }
      POLYRANK_ASSIGN(over, isOver(++rounds));
      if (over)
        return {};
    }
  }

  Timing fastest(const std::vector<size_t> &numbers) const {
    Timing best = items[numbers.front()].timing;
    for (size_t number : numbers)
      if (items[number].timing.least < best.least)
        best = items[number].timing;
    return best;
  }

  Measurements results() const {
    Measurements measured;
    measured.devices = ranks();
    measured.threads = on.team->size();
    for (const Tried &product : products)
      measured.products.push_back({product.work, fastest(product.items)});
    measured.additions.push_back({calibratedAddition(), fastest(additions)});
    auto ofCommand = [&](size_t number) {
      Timing all = items[number].timing;
      return Timing{all.least / numCommands, all.median / numCommands};
    };
    measured.launch = ofCommand(commands[0]);
    measured.host = ofCommand(commands[1]);
    for (const Posted &one : collectives)
      measured.collectives.push_back(
          {one.kind, one.members, one.bytes, items[one.item].timing});
    return measured;
  }

  const MeasuredRank &on;
  const MeasureOptions &options;
  Mesh mesh;
  Group everyone;
  int64_t begun = eventClock();
  uint64_t steps = 0;
  std::vector<Item> items;

  struct Tried {
    ProductTrial work;
    std::vector<size_t> items;
  };
  std::vector<Tried> products;
  std::vector<size_t> additions;
  size_t commands[2] = {};
  struct Posted {
    size_t item;
    CollectiveKind kind;
    int members;
    uint64_t bytes;
  };
  std::vector<Posted> collectives;

  // Items refer to elements of these, which keep their places in a deque.
  std::deque<std::unique_ptr<Trial>> trials;
  std::deque<DeviceMemory> arenas;
  std::deque<ArenaView> views;
  std::deque<Interpreter> interpreters;
  std::deque<Transfer> transfers;
  std::deque<Collective> posted;
};

} // namespace

Result<Measurements> measureMachine(const MeasuredRank &rank,
                                    const MeasureOptions &options) {
  return Bench(rank, options).measure();
}

} // namespace polyrank::runtime
