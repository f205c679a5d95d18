// Verifies the images of kernels, and what each program and launch takes from
// them.

#include "runtime/plan/Verifier.h"

#include <optional>

namespace polyrank::runtime {

using namespace plan;

/// The most bytes of an image when it is unpacked.
static constexpr uint64_t maxUnpacked = uint64_t(1) << 30;
/// What a GPU's launch may have (CUDA C++ Programming Guide, Technical
/// Specifications per Compute Capability): threads and shared bytes of a
/// block, registers of a thread, and blocks.
static constexpr uint64_t maxBlockThreads = 1024, maxSharedBytes = 227 << 10,
                          maxRegisters = 255,
                          maxBlocks = (uint64_t(1) << 31) - 1;

/// Returns the size of the contents that a zstd frame states in its header
/// (RFC 8878, section 3.1.1.1); nullopt if it is no frame or does not state it.
static std::optional<uint64_t>
contentsOfFrame(const flatbuffers::Vector<uint8_t> &bytes) {
  uint32_t at = 0;
  bool isShort = false;
  auto take = [&](int count) {
    uint64_t number = 0;
    for (int i = 0; i < count; ++i, ++at) {
      isShort |= at >= bytes.size();
      number |= isShort ? 0 : uint64_t(bytes.Get(at)) << (8 * i);
    }
    return number;
  };
  if (take(4) != 0xFD2FB528)
    return std::nullopt;
  uint64_t descriptor = take(1);
  bool isSingle = descriptor & 0x20;
  if (!isSingle)
    take(1); // the size of the window
  constexpr int dictionary[] = {0, 1, 2, 4};
  take(dictionary[descriptor & 3]);
  uint64_t flag = descriptor >> 6;
  uint64_t size = flag == 0 ? take(isSingle) : take(1 << flag);
  bool isStated = (flag != 0 || isSingle) && !isShort;
  return isStated ? std::optional(flag == 1 ? size + 256 : size) : std::nullopt;
}

bool PlanVerifier::verifyPacked(const std::string &what, const Image &image) {
  if (image.unpacked() == 0 || image.unpacked() > maxUnpacked)
    return fail("{}: is unpacked to {} bytes; an image has 1 to {}", what,
                image.unpacked(), maxUnpacked);
  std::optional<uint64_t> contents = contentsOfFrame(*image.bytes());
  if (!contents)
    return fail("{}: is no zstd frame that states the size of its contents",
                what);
  if (*contents != image.unpacked())
    return fail("{}: a frame of {} bytes is said to have {}", what, *contents,
                image.unpacked());
  return true;
}

bool PlanVerifier::verifyEntries(const std::string &what, const Image &image) {
  uint32_t kernels = image.symbols()->size(),
           entries = image.entries() ? image.entries()->size() : 0;
  if (!target->hasEntries) {
    if (image.unpacked() || entries)
      return fail("{}: has {} entries and is unpacked to {} bytes, which the "
                  "target '{}' does not have",
                  what, entries, image.unpacked(), target->name);
    return true;
  }
  if (entries != kernels)
    return fail("{}: has {} entries for {} kernels", what, entries, kernels);
  if (kernels && !verifyPacked(what, image))
    return false;
  const Image &first = *firstImage(plan, target->name);
  for (uint32_t i = 0; i < entries; ++i) {
    const Entry &entry = *image.entries()->Get(i);
    std::string kernel = fmt::format("{}, kernel '{}'", what,
                                     image.symbols()->Get(i)->string_view());
    if (entry.symbol()->size() == 0)
      return fail("{}: has no symbol", kernel);
    if (entry.threads() == 0 || entry.threads() > maxBlockThreads)
      return fail("{}: blocks of {} threads; they have 1 to {}", kernel,
                  entry.threads(), maxBlockThreads);
    if (entry.shared_bytes() > maxSharedBytes)
      return fail("{}: blocks with {} shared bytes; they have at most {}",
                  kernel, entry.shared_bytes(), maxSharedBytes);
    if (entry.registers() > maxRegisters)
      return fail("{}: threads with {} registers; they have at most {}", kernel,
                  entry.registers(), maxRegisters);
    const Entry &other = *first.entries()->Get(i);
    if (entry.threads() != other.threads() ||
        entry.shared_bytes() != other.shared_bytes())
      return fail("{}: blocks of {} threads and {} shared bytes, in the first "
                  "image of {} and {}",
                  kernel, entry.threads(), entry.shared_bytes(),
                  other.threads(), other.shared_bytes());
  }
  return true;
}

bool PlanVerifier::verifyImage(const std::string &what, const Image &image) {
  std::string_view name = image.target()->string_view();
  target = findTarget(name, targets);
  if (!target)
    return fail("{}: target '{}' does not exist; there are: {}", what, name,
                namesOf(targets));
  if (std::find(target->formats.begin(), target->formats.end(),
                image.format()) == target->formats.end())
    return fail("{}: the target '{}' has no images of format {}", what, name,
                int(image.format()));
  uint32_t kernels = image.symbols()->size();
  if (kernels && (!image.bytes() || image.bytes()->size() == 0))
    return fail("{}: names {} kernels and has no bytes", what, kernels);
  uint32_t others = firstImage(plan, name)->symbols()->size();
  if (kernels != others)
    return fail("{}: has {} kernels, and the first image for '{}' has {}", what,
                kernels, name, others);
  return verifyEntries(what, image);
}

bool PlanVerifier::verifyImages() {
  if (plan.images()->size() == 0)
    return fail("has no image of kernels");
  if (plan.images()->size() > maxImages)
    return fail("has {} images of kernels; at most {} are possible",
                plan.images()->size(), maxImages);
  for (uint32_t number = 0; number < plan.images()->size(); ++number)
    if (!verifyImage(fmt::format("image {}", number),
                     *plan.images()->Get(number)))
      return false;
  return true;
}

bool PlanVerifier::verifyTarget() {
  std::string_view name = program->target()->string_view();
  if (!firstImage(plan, name))
    return fail("runs on the target '{}', for which there is no image", name);
  target = findTarget(name, targets);
  return true;
}

/// Requires that the launch is for a CPU.
bool PlanVerifier::verifyCpuLaunch(const std::string &what,
                                   const CpuLaunch &launch) {
  if (launch.range() < 0 || uint64_t(launch.range()) > maxElements ||
      launch.grain() < 1)
    return fail("{}: range {} in grains of {}", what, launch.range(),
                launch.grain());
  return true;
}

/// Requires that the launch is for a GPU.
bool PlanVerifier::verifyCudaLaunch(const std::string &what,
                                    const Launch &launch,
                                    const CudaLaunch &body) {
  if (body.blocks() < 1 || uint64_t(body.blocks()) > maxBlocks)
    return fail("{}: {} blocks; a launch has 1 to {}", what, body.blocks(),
                maxBlocks);
  if (body.begins() < Beginning::MIN || body.begins() > Beginning::MAX)
    return fail("{}: beginning {} does not exist", what, int(body.begins()));
  if (body.begins() == Beginning::Anything)
    return true;
  uint32_t inputs = launch.inputs() ? launch.inputs()->size() : 0;
  if (!launch.outputs() || launch.outputs()->size() == 0)
    return fail("{}: fills its first output, and has none", what);
  if (body.begins() == Beginning::Zeros)
    return true;
  if (body.source() >= inputs)
    return fail("{}: begins with a copy of input {} of {}", what, body.source(),
                inputs);
  const BufferRef &from = *launch.inputs()->Get(body.source()),
                  &to = *launch.outputs()->Get(0);
  if (from.size() != to.size())
    return fail("{}: begins with a copy of {} bytes to {}", what, from.size(),
                to.size());
  return true;
}

bool PlanVerifier::verifyLaunchBody(const std::string &what,
                                    const Launch &launch) {
  if (launch.body_type() != target->launch)
    return fail("{}: a launch of type {}, where the target '{}' has {}", what,
                int(launch.body_type()), target->name,
                EnumNameLaunchBody(target->launch));
  uint32_t kernels = firstImage(plan, target->name)->symbols()->size();
  if (launch.kernel() >= kernels)
    return fail("{}: kernel {} of {}", what, launch.kernel(), kernels);
  if (const CpuLaunch *cpu = launch.body_as_CpuLaunch())
    return verifyCpuLaunch(what, *cpu);
  return true;
}

} // namespace polyrank::runtime
