// Runs the threads of a GPU kernel's twin as fibers, in a random order.

#include "test/compiler/target/cuda/TwinMachine.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <sys/mman.h>
#include <utility>

using namespace polyrank::twin;

// Saves the registers that a call keeps, and the stack pointer at *save, and
// continues where the stack at `load` was left.
extern "C" void polyrankTwinSwitch(void **save, void *load);
asm(R"(
.text
.type polyrankTwinSwitch, @function
polyrankTwinSwitch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size polyrankTwinSwitch, . - polyrankTwinSwitch
)");

/// Bytes of a stack, the lowest page of which nobody may touch.
static constexpr size_t stackSize = size_t(1) << 16, pageSize = 4096;

static thread_local Machine *running = nullptr;

Machine &Machine::current() { return *running; }

Machine::Machine(Memory &memory, int64_t blocks, int threads, uint64_t seed)
    : memory(memory), numBlocks(blocks), numThreads(threads), random(seed),
      fibers(threads), warpBarriers((threads + warpSize - 1) / warpSize) {
  stacksSize = stackSize * threads;
  stacks = static_cast<char *>(mmap(nullptr, stacksSize, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                                    -1, 0));
  if (stacks == MAP_FAILED)
    std::abort();
  for (int thread = 0; thread < threads; ++thread)
    mprotect(stacks + stackSize * thread, pageSize, PROT_NONE);
}

Machine::~Machine() { munmap(stacks, stacksSize); }

void Machine::enter() {
  Machine &machine = current();
  (*machine.body)();
  machine.wait(State::Ended);
  std::abort(); // an ended fiber is not resumed
}

void Machine::begin(int thread) {
  fibers[thread] = Fiber();
  // As if `enter` had been called and had switched: six registers, then where
  // to return. At its first instruction the stack is 8 off a multiple of 16.
  auto **top = reinterpret_cast<void **>(stacks + stackSize * (thread + 1)) - 1;
  *top = nullptr;
  *--top = reinterpret_cast<void *>(&Machine::enter);
  for (int i = 0; i < 6; ++i)
    *--top = nullptr;
  fibers[thread].stackPointer = top;
}

void Machine::resume(int thread) {
  now.thread = thread;
  now.warpBarriers = warpBarriers[now.warp()];
  polyrankTwinSwitch(&scheduler, fibers[thread].stackPointer);
}

void Machine::wait(State state) {
  Fiber &fiber = fibers[now.thread];
  fiber.state = state;
  polyrankTwinSwitch(&fiber.stackPointer, scheduler);
}

void Machine::report(const std::string &text) {
  memory.addFinding(Fault::Divergence, text,
                    text + ", in block " + std::to_string(now.block));
  isStopped = true;
}

void Machine::access(void *address, unsigned size, unsigned alignment,
                     bool isWrite, unsigned site) {
  if (memory.access(now, address, size, alignment, isWrite, site))
    return;
  isStopped = true;
  wait(State::Ended);
}

void Machine::barrier(uint32_t number, unsigned site) {
  fibers[now.thread].operand = number;
  fibers[now.thread].site = site;
  wait(State::AtBarrier);
}

uint32_t Machine::exchange(Exchange kind, uint32_t mask, uint32_t value,
                           uint32_t operand, uint32_t form, unsigned site) {
  Fiber &fiber = fibers[now.thread];
  fiber.kind = kind;
  fiber.mask = mask;
  fiber.value = value;
  fiber.operand = operand;
  fiber.form = form;
  fiber.site = site;
  wait(State::AtExchange);
  return fiber.result;
}

/// The lane whose value shfl.sync gives to `lane` (PTX ISA, "shfl.sync").
static unsigned getSource(Exchange kind, unsigned lane, uint32_t operand,
                          uint32_t form) {
  unsigned distance = operand & 31, clamp = form & 31, segment = form >> 8 & 31;
  unsigned low = lane & segment, high = low | (clamp & ~segment & 31);
  int source = static_cast<int>(lane);
  bool isInside = true;
  switch (kind) {
  case Exchange::ShuffleUp:
    source -= static_cast<int>(distance);
    isInside = source >= static_cast<int>(high);
    break;
  case Exchange::ShuffleDown:
    source += static_cast<int>(distance);
    isInside = source <= static_cast<int>(high);
    break;
  case Exchange::ShuffleButterfly:
    source = static_cast<int>(lane ^ distance);
    isInside = source <= static_cast<int>(high);
    break;
  default:
    source = static_cast<int>(low | (distance & ~segment));
    isInside = source <= static_cast<int>(high);
    break;
  }
  return isInside ? static_cast<unsigned>(source) : lane;
}

/// Lets the lanes of a warp go on, all of which wait for each other.
bool Machine::exchangeLanes(int warp) {
  Fiber *lanes = &fibers[warp * warpSize];
  const Fiber &first = lanes[0];
  uint32_t votes = 0;
  for (int lane = 0; lane < warpSize; ++lane) {
    if (lanes[lane].kind != first.kind || lanes[lane].form != first.form) {
      report("the lanes of warp " + std::to_string(warp) +
             " wait for different exchanges");
      return false;
    }
    if (lanes[lane].mask != 0xFFFFFFFF) {
      report("warp " + std::to_string(warp) +
             " has an exchange of some of its lanes alone");
      return false;
    }
    votes |= uint32_t(lanes[lane].value != 0) << lane;
  }
  for (int lane = 0; lane < warpSize; ++lane) {
    Fiber &fiber = lanes[lane];
    switch (fiber.kind) {
    case Exchange::Ballot:
      fiber.result = votes;
      break;
    case Exchange::Any:
      fiber.result = votes != 0;
      break;
    case Exchange::All:
      fiber.result = votes == 0xFFFFFFFF;
      break;
    case Exchange::MatchAny:
      fiber.result = 0;
      for (int other = 0; other < warpSize; ++other)
        fiber.result |= uint32_t(lanes[other].value == fiber.value) << other;
      break;
    case Exchange::WarpBarrier:
      break;
    default:
      fiber.result =
          lanes[getSource(fiber.kind, lane, fiber.operand, fiber.form)].value;
      break;
    }
  }
  if (first.kind == Exchange::WarpBarrier)
    ++warpBarriers[warp];
  for (int lane = 0; lane < warpSize; ++lane)
    lanes[lane].state = State::Ready;
  return true;
}

/// Runs the lanes of a warp that can go on.
bool Machine::runWarp(int warp) {
  int order[warpSize];
  std::iota(order, order + warpSize, warp * warpSize);
  std::shuffle(order, order + warpSize, random);
  for (int thread : order) {
    if (fibers[thread].state == State::Ready)
      resume(thread);
    if (isStopped)
      return false;
  }
  auto *lanes = &fibers[warp * warpSize];
  bool allWait = std::all_of(lanes, lanes + warpSize, [](const Fiber &fiber) {
    return fiber.state == State::AtExchange;
  });
  return !allWait || exchangeLanes(warp);
}

/// Lets the block go on, no thread of which can: all must be at one barrier.
bool Machine::passBarrier() {
  auto count = [&](State state) {
    return std::count_if(fibers.begin(), fibers.end(), [&](const Fiber &fiber) {
      return fiber.state == state;
    });
  };
  if (int64_t waiting = count(State::AtExchange)) {
    report(std::to_string(waiting) +
           " threads wait for an exchange that other lanes never reach");
    return false;
  }
  if (int64_t ended = count(State::Ended)) {
    report(std::to_string(count(State::AtBarrier)) +
           " threads wait at a barrier that " + std::to_string(ended) +
           " others never reach");
    return false;
  }
  for (int thread = 0; thread < numThreads; ++thread) {
    const Fiber &first = fibers[thread / warpSize * warpSize];
    if (fibers[thread].operand != fibers[0].operand ||
        fibers[thread].site != first.site) {
      report("the threads wait at different barriers");
      return false;
    }
  }
  ++now.barriers;
  for (Fiber &fiber : fibers)
    fiber.state = State::Ready;
  return true;
}

bool Machine::runBlock(int64_t block) {
  now = Moment();
  now.block = block;
  std::fill(warpBarriers.begin(), warpBarriers.end(), 0);
  memory.beginBlock();
  for (int thread = 0; thread < numThreads; ++thread)
    begin(thread);
  std::vector<int> warps;
  while (true) {
    warps.clear();
    bool haveEnded = true;
    for (int thread = 0; thread < numThreads; ++thread) {
      haveEnded = haveEnded && fibers[thread].state == State::Ended;
      if (fibers[thread].state == State::Ready &&
          (warps.empty() || warps.back() != thread / warpSize))
        warps.push_back(thread / warpSize);
    }
    if (haveEnded)
      break;
    if (warps.empty()) {
      if (!passBarrier())
        return false;
    } else if (!runWarp(warps[random() % warps.size()])) {
      return false;
    }
  }
  memory.endBlock();
  return true;
}

bool Machine::run(const std::function<void()> &thread) {
  body = &thread;
  Machine *before = std::exchange(running, this);
  std::vector<int64_t> order(numBlocks);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  bool hasEnded = std::all_of(order.begin(), order.end(),
                              [&](int64_t block) { return runBlock(block); });
  running = before;
  if (hasEnded)
    memory.finish();
  return hasEnded;
}
