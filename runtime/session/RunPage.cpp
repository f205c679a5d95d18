// The atomic words by which ranks and launcher agree.

#include "runtime/session/RunPage.h"

#include <algorithm>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

constexpr uint64_t low = 0xffffffff;

} // namespace

Result<RunPage> RunPage::create() {
  RunPage result;
  result.file = Descriptor(memfd_create("polyrank-run", MFD_CLOEXEC));
  if (result.file.get() < 0 || ftruncate(result.file.get(), sizeof(Page)) != 0)
    return Error{"no memory for what launcher and ranks share",
                 Error::Fault::Rank};
  POLYRANK_ASSIGN(mapped, map(result.file.get()));
  result.page = std::exchange(mapped.page, nullptr);
  new (result.page) Page{};
  return std::move(result);
}

Result<RunPage> RunPage::map(int descriptor) {
  RunPage result;
  void *memory = descriptor < 0
                     ? MAP_FAILED
                     : mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE,
                            MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED)
    return Error{"cannot map what launcher and ranks share",
                 Error::Fault::Rank};
  result.page = static_cast<Page *>(memory);
  return std::move(result);
}

RunPage::RunPage(RunPage &&other) noexcept
    : file(std::move(other.file)), page(std::exchange(other.page, nullptr)) {}

RunPage::~RunPage() {
  if (page)
    munmap(page, sizeof(Page));
}

void RunPage::begin(uint64_t step) {
  uint64_t seen = page->steps.load();
  while ((seen & low) < step &&
         !page->steps.compare_exchange_weak(seen, (seen & ~low) | (step & low)))
    ;
}

void RunPage::startAfter(uint64_t step) {
  page->steps = step & low;
  page->batches.reset();
  page->begun = page->ended = 0;
  for (std::atomic<uint64_t> &each : page->decided)
    each = 0;
}

uint64_t RunPage::lastBegun() const { return page->steps.load() & low; }

void RunPage::requestSave() {
  uint64_t seen = page->steps.load();
  while (!page->steps.compare_exchange_weak(seen, (seen & low) |
                                                      ((seen & low) + 1) << 32))
    ;
}

RunPage::SaveDecision RunPage::decideSave(uint64_t number, uint64_t step,
                                          bool givesUp) {
  constexpr uint64_t most = 2;
  std::atomic<uint64_t> &slot = page->decided[number % decisions];
  for (uint64_t seen = slot.load(); seen >> 1 != step;) {
    // The count is raised before the decision is published, so there are never
    // more than `most`.
    bool saves = page->begun.fetch_add(1) < page->ended.load() + most;
    if (!saves && !givesUp) {
      --page->begun;
      return SaveDecision::Wait;
    }
    if (slot.compare_exchange_strong(seen, step << 1 | uint64_t(saves))) {
      if (saves)
        return SaveDecision::Save;
      --page->begun;
      return SaveDecision::SkipAndSay;
    }
    --page->begun; // another rank has decided
  }
  return slot.load() & 1 ? SaveDecision::Save : SaveDecision::Skip;
}

bool RunPage::isSaveAfter(uint64_t step) const {
  return page->steps.load() >> 32 == step;
}

} // namespace polyrank::runtime
