// Strided copies between stored tensors and shards.

#include "runtime/exec/Shards.h"

#include "support/ElementValues.h"
#include "support/arrays/Values.h"

#include <algorithm>
#include <cstring>

namespace polyrank::runtime {
namespace {

// The most bytes of one read of a stored tensor, unless it goes directly into
// the shard.
constexpr int64_t window = 4 << 20;
// Shorter runs are read together with the bytes between them.
constexpr int64_t shortRun = 16 << 10;

/// Converts `count` elements of S, `sourceStride` elements apart, to T. Floats
/// are rounded to nearest even, those of 64 bits by way of f32 to those of 16;
/// what becomes an integer is truncated.
template <typename S, typename T>
void convertAs(const std::byte *source, int64_t sourceStride, std::byte *target,
               int64_t targetStride, int64_t count) {
  using From = Arithmetic<S>;
  for (int64_t i = 0; i < count; ++i) {
    From value = loadElement<S>(source + i * sourceStride * sizeof(S));
    T converted;
    if constexpr (std::is_same_v<T, Boolean>)
      converted.byte = value != 0;
    else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<From>)
      converted = static_cast<T>(static_cast<int64_t>(value));
    else
      converted = static_cast<T>(static_cast<Arithmetic<T>>(value));
    std::memcpy(target + i * targetStride * sizeof(T), &converted, sizeof(T));
  }
}

void convertStrided(ElementType from, const std::byte *source,
                    int64_t sourceStride, ElementType to, std::byte *target,
                    int64_t targetStride, int64_t count) {
  visitElements(from, [&]<typename S>(S) {
    visitElements(to, [&]<typename T>(T) {
      convertAs<S, T>(source, sourceStride, target, targetStride, count);
    });
  });
}

class Loader {
public:
  Loader(const Placement &placement, ElementType storedType,
         const ReadBytes &read, ElementType type, std::byte *shard)
      : extents(placement.extents), storedType(storedType), read(read),
        type(type), shard(shard), storedBytes(bytesOf(storedType)),
        localBytes(bytesOf(type)) {}

  Result<void> load(size_t dim, int64_t stored, int64_t local) {
    if (dim == extents.size())
      return loadWindow(dim, 1, stored, local);
    const Placement::Extent &extent = extents[dim];
    bool last = dim + 1 == extents.size();
    if (last && storedType == type && extent.stored == 1 && extent.local == 1)
      return read(stored * storedBytes, shard + local * localBytes,
                  extent.count * localBytes);

    // Reads as many indices of this dim at once as the window holds, unless
    // most of the bytes would be unused.
    int64_t span = 1, needed = 1;
    for (size_t d = dim + 1; d < extents.size(); ++d) {
      span += (extents[d].count - 1) * extents[d].stored;
      needed *= extents[d].count;
    }
    int64_t room = window / storedBytes - span;
    int64_t fit = room < 0             ? 0
                  : extent.stored == 0 ? extent.count
                                       : room / extent.stored + 1;
    bool sparse = needed * storedBytes >= shortRun && extent.stored > 4 * span;
    if (!last && (fit == 0 || sparse)) {
      for (int64_t i = 0; i < extent.count; ++i)
        if (Result<void> part = load(dim + 1, stored + i * extent.stored,
                                     local + i * extent.local);
            !part)
          return part;
      return {};
    }
    fit = std::max<int64_t>(fit, 1);
    for (int64_t i = 0; i < extent.count; i += fit)
      if (Result<void> part =
              loadWindow(dim, std::min(fit, extent.count - i),
                         stored + i * extent.stored, local + i * extent.local);
          !part)
        return part;
    return {};
  }

private:
  /// Reads the span of `count` indices of `dim` at once, and scatters it into
  /// the shard.
  Result<void> loadWindow(size_t dim, int64_t count, int64_t stored,
                          int64_t local) {
    std::vector<Placement::Extent> part(
        extents.begin() + std::min(dim, extents.size()), extents.end());
    int64_t span = 1;
    if (!part.empty())
      part[0].count = count;
    for (const Placement::Extent &extent : part)
      span += (extent.count - 1) * extent.stored;
    buffer.resize(span * storedBytes);
    if (Result<void> got =
            read(stored * storedBytes, buffer.data(), buffer.size());
        !got)
      return got;
    forEachRun(part, 0, 0, local,
               [&](int64_t from, int64_t to, Placement::Extent run) {
                 convertRun(buffer.data() + from * storedBytes,
                            shard + to * localBytes, run);
               });
    return {};
  }

  void convertRun(const std::byte *from, std::byte *to,
                  Placement::Extent run) const {
    if (storedType == type && run.stored == 1 && run.local == 1) {
      std::memcpy(to, from, run.count * localBytes);
      return;
    }
    if (storedType == type) {
      for (int64_t i = 0; i < run.count; ++i)
        std::memcpy(to + i * run.local * localBytes,
                    from + i * run.stored * storedBytes, localBytes);
      return;
    }
    convertStrided(storedType, from, run.stored, type, to, run.local,
                   run.count);
  }

  const std::vector<Placement::Extent> &extents;
  ElementType storedType;
  const ReadBytes &read;
  ElementType type;
  std::byte *shard;
  int64_t storedBytes, localBytes;
  std::vector<std::byte> buffer;
};

template <bool toTensor, typename Tensor, typename Shard>
void copyShard(const Placement &placement, int64_t elementBytes, Shard *shard,
               Tensor *tensor) {
  if (placement.empty)
    return;
  forEachRun(placement.extents, 0, placement.storedBase, placement.localBase,
             [&](int64_t stored, int64_t local, Placement::Extent run) {
               bool dense = run.stored == 1 && run.local == 1;
               int64_t pieces = dense ? 1 : run.count;
               int64_t bytes = dense ? run.count * elementBytes : elementBytes;
               for (int64_t i = 0; i < pieces; ++i) {
                 auto *there =
                     tensor + (stored + i * run.stored) * elementBytes;
                 auto *here = shard + (local + i * run.local) * elementBytes;
                 if constexpr (toTensor)
                   std::memcpy(there, here, bytes);
                 else
                   std::memcpy(here, there, bytes);
               }
             });
}

/// Copies the elements of a shard that are in a window of the stored tensor.
template <typename Element>
class WindowStorer {
public:
  WindowStorer(const std::vector<Placement::Extent> &extents,
               const Element *shard, int64_t begin, int64_t end,
               Element *window)
      : extents(extents), spans(extents.size() + 1), shard(shard), begin(begin),
        end(end), window(window) {
    for (size_t d = extents.size(); d-- > 0;)
      spans[d] = spans[d + 1] + (extents[d].count - 1) * extents[d].stored;
  }

  void store(size_t dim, int64_t stored, int64_t local) const {
    if (dim == extents.size()) {
      if (begin <= stored && stored < end)
        window[stored - begin] = shard[local];
      return;
    }
    const Placement::Extent &extent = extents[dim];
    auto [first, last] =
        indicesFrom(dim, begin - spans[dim + 1] - stored, stored);
    bool inner = dim + 1 == extents.size();
    if (inner && extent.stored == 1 && extent.local == 1) {
      if (first < last)
        std::memcpy(window + stored + first - begin, shard + local + first,
                    (last - first) * sizeof(Element));
      return;
    }
    if (inner) {
      for (int64_t i = first; i < last; ++i)
        window[stored + i * extent.stored - begin] =
            shard[local + i * extent.local];
      return;
    }
    auto storeEach = [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i)
        store(dim + 1, stored + i * extent.stored, local + i * extent.local);
    };
    if (dim + 2 != extents.size() || extent.local != 1)
      return storeEach(first, last);
    // A transpose is done in tiles, except for rows that the window cuts.
    int64_t wholeFirst =
        std::min(indicesFrom(dim, begin - stored, stored).first, last);
    int64_t wholeLast = std::clamp(
        floorOf(end - 1 - spans[dim + 1] - stored, extent.stored) + 1,
        wholeFirst, last);
    storeEach(first, wholeFirst);
    storeTiles(wholeFirst, wholeLast, extent.stored, extents[dim + 1], stored,
               local);
    storeEach(wholeLast, last);
  }

private:
  static int64_t floorOf(int64_t a, int64_t b) {
    return a >= 0 ? a / b : -((-a + b - 1) / b);
  }

  /// Returns the indices of a dim, from the one at offset `least` on, that
  /// begin before the window's end.
  std::pair<int64_t, int64_t> indicesFrom(size_t dim, int64_t least,
                                          int64_t stored) const {
    const Placement::Extent &extent = extents[dim];
    if (extent.stored == 0)
      return {0, extent.count};
    int64_t first = std::max<int64_t>(0, floorOf(least - 1, extent.stored) + 1);
    int64_t last = floorOf(end - 1 - stored, extent.stored) + 1;
    return {first, std::min(last, extent.count)};
  }

  void storeTiles(int64_t first, int64_t last, int64_t rowStride,
                  Placement::Extent column, int64_t stored,
                  int64_t local) const {
    constexpr int64_t tile = 64 / sizeof(Element); // a cache line in each dim
    for (int64_t i = first; i < last; i += tile)
      for (int64_t j = 0; j < column.count; j += tile) {
        int64_t rows = std::min(i + tile, last),
                columns = std::min(j + tile, column.count);
        for (int64_t r = i; r < rows; ++r)
          for (int64_t c = j; c < columns; ++c)
            window[stored + r * rowStride + c * column.stored - begin] =
                shard[local + r + c * column.local];
      }
  }

  const std::vector<Placement::Extent> &extents;
  std::vector<int64_t> spans; // of the dims from each one on
  const Element *shard;
  int64_t begin, end;
  Element *window;
};

} // namespace

void convertElements(ElementType from, const std::byte *source, int64_t count,
                     ElementType to, std::byte *target) {
  convertStrided(from, source, 1, to, target, 1, count);
}

Result<void> loadShard(const Placement &placement, ElementType storedType,
                       const ReadBytes &read, ElementType type,
                       std::byte *shard) {
  if (placement.empty)
    return {};
  return Loader(placement, storedType, read, type, shard)
      .load(0, placement.storedBase, placement.localBase);
}

Result<void> loadShard(const Placement &placement, const StoredSource &source,
                       ElementType type, std::byte *shard) {
  if (source.columns == 0)
    return loadShard(placement, source.dtype, source.read, type, shard);
  POLYRANK_ASSIGN(parts, transposed(placement, source.rows, source.columns));
  for (const Placement &part : parts)
    if (Result<void> done =
            loadShard(part, source.dtype, source.read, type, shard);
        !done)
      return done;
  return {};
}

void storeShardWithin(const Placement &placement, int64_t elementBytes,
                      const std::byte *shard, int64_t begin, int64_t end,
                      std::byte *window) {
  if (placement.empty)
    return;
  auto store = [&]<typename Element>(Element) {
    WindowStorer<Element>(placement.extents,
                          reinterpret_cast<const Element *>(shard), begin, end,
                          reinterpret_cast<Element *>(window))
        .store(0, placement.storedBase, placement.localBase);
  };
  switch (elementBytes) {
  case 1:
    return store(uint8_t());
  case 2:
    return store(uint16_t());
  case 4:
    return store(uint32_t());
  default:
    return store(uint64_t());
  }
}

void storeShard(const Placement &placement, int64_t elementBytes,
                const std::byte *shard, std::byte *tensor) {
  copyShard<true>(placement, elementBytes, shard, tensor);
}

void fetchShard(const Placement &placement, int64_t elementBytes,
                const std::byte *tensor, std::byte *shard) {
  copyShard<false>(placement, elementBytes, shard, tensor);
}

void fillShard(const std::vector<BlockDim> &blocks, ElementType type,
               double value, std::byte *shard) {
  Placement placement = placementIn(blocks, 0);
  if (placement.empty)
    return;
  // Converted once; each element is a copy of it.
  std::byte element[sizeof(double)];
  int64_t bytes = bytesOf(type);
  convertElements(ElementType::F64, reinterpret_cast<std::byte *>(&value), 1,
                  type, element);
  forEachRun(placement.extents, 0, 0, placement.localBase,
             [&](int64_t, int64_t local, Placement::Extent run) {
               for (int64_t i = 0; i < run.count; ++i)
                 std::memcpy(shard + (local + i * run.local) * bytes, element,
                             bytes);
             });
}

/// Returns true if `holds(data, count)` is true of all elements of a shard but
/// padding.
template <typename Holds>
static bool areAll(const std::vector<BlockDim> &blocks, ElementType type,
                   const std::byte *shard, const Holds &holds) {
  Placement placement = placementIn(blocks, 0);
  if (placement.empty)
    return true;
  bool all = true;
  forEachRun(placement.extents, 0, 0, placement.localBase,
             [&](int64_t, int64_t local, Placement::Extent run) {
               int64_t dense = run.local == 1 ? run.count : 1;
               for (int64_t i = 0; all && i < run.count; i += dense)
                 all = holds(shard + (local + i * run.local) * bytesOf(type),
                             dense);
             });
  return all;
}

bool isFiniteShard(const std::vector<BlockDim> &blocks, ElementType type,
                   const std::byte *shard) {
  return areAll(blocks, type, shard, [&](const std::byte *data, int64_t count) {
    return areFinite(type, data, count);
  });
}

bool isWithinShard(ElementType to, const std::vector<BlockDim> &blocks,
                   ElementType type, const std::byte *shard) {
  return areAll(blocks, type, shard, [&](const std::byte *data, int64_t count) {
    return areWithin(to, type, data, count);
  });
}

bool canLoad(ElementType stored, ElementType argument) {
  if (stored == argument)
    return true;
  return (isInteger(stored) && isInteger(argument)) ||
         (isFloat(stored) && isFloat(argument));
}

} // namespace polyrank::runtime
