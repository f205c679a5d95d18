// Opens files of weights.

#include "runtime/exec/Weights.h"

#include "support/Fingerprint.h"
#include "support/Names.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

uint64_t bytesAs(ElementType type, const std::vector<int64_t> &shape) {
  uint64_t bytes = bytesOf(type);
  for (int64_t extent : shape)
    bytes *= extent;
  return bytes;
}

/// The bytes of an element in the file; for a complex number, of both parts.
int64_t elementBytes(const StoredTensorSpan &span) {
  uint64_t elements = 1;
  for (int64_t extent : span.shape)
    elements *= extent;
  return elements ? static_cast<int64_t>(span.length / elements) : 1;
}

/// The type of complex numbers in files of weights.

bool endsAlike(std::string_view a, std::string_view b) {
  auto isTail = [](std::string_view whole, std::string_view tail) {
    return whole.size() > tail.size() && whole.ends_with(tail) &&
           whole[whole.size() - tail.size() - 1] == '.';
  };
  return isTail(a, b) || isTail(b, a);
}

/// Returns the tensors of the set that are this tensor of the plan: those under
/// its name and its aliases or, if there are none, those under the only names
/// with the same ending.
std::vector<const SafetensorsSet::Tensor *>
findTensors(const SafetensorsSet &set, const plan::StoredTensor &stored) {
  std::vector<std::string> names = namesOf(stored);
  std::vector<const SafetensorsSet::Tensor *> found;
  for (const std::string &name : names)
    if (const SafetensorsSet::Tensor *tensor = set.find(name))
      found.push_back(tensor);
  if (!found.empty())
    return found;
  for (const std::string &name : names) {
    std::vector<const SafetensorsSet::Tensor *> alike;
    for (auto &[candidate, tensor] : set.tensors())
      if (endsAlike(candidate, name))
        alike.push_back(&tensor);
    if (alike.size() == 1)
      found.push_back(alike[0]);
    else if (alike.size() > 1 && found.empty())
      return {}; // ambiguous: any choice might be wrong
  }
  return found;
}

/// Returns the number of the first element in which two tensors of equal type
/// and shape differ, or nothing.
Result<std::optional<int64_t>>
firstDifference(const SafetensorsSet::Tensor &a,
                const SafetensorsSet::Tensor &b) {
  constexpr uint64_t pieceBytes = 4 << 20;
  std::vector<std::byte> ofA(std::min(pieceBytes, a.span->length)), ofB = ofA;
  for (uint64_t at = 0; at < a.span->length; at += pieceBytes) {
    uint64_t bytes = std::min(pieceBytes, a.span->length - at);
    for (auto [tensor, into] : {std::pair(&a, &ofA), {&b, &ofB}})
      if (Result<void> read = tensor->read(at, into->data(), bytes); !read)
        return read.error();
    auto differ = std::mismatch(ofA.begin(), ofA.begin() + bytes, ofB.begin());
    if (differ.first != ofA.begin() + bytes)
      return std::optional(
          static_cast<int64_t>(at + (differ.first - ofA.begin())) /
          elementBytes(*a.span));
  }
  return std::optional<int64_t>();
}

/// Opens the file of weights that a plan names, relative to the plan's folder.
/// If it is gone, opens the file of the same name beside the plan: both may
/// have been moved, or copied to this machine.
Result<InputFile> openWeights(const std::string &plan,
                              const std::string &named) {
  std::string folder = plan.substr(0, plan.rfind('/') + 1),
              name = named.substr(named.rfind('/') + 1),
              path = named.starts_with('/') ? named : folder + named;
  Result<InputFile> opened = InputFile::open(path);
  if (opened || access(path.c_str(), F_OK) == 0)
    return opened;
  Result<InputFile> beside = InputFile::open(folder + name);
  return beside ? std::move(beside) : std::move(opened);
}

/// Returns `[3,7]` for a row-major position.
std::string indexText(int64_t position, const std::vector<int64_t> &shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0; position /= shape[d])
    index[d] = position % shape[d];
  return shapeText(index);
}

} // namespace

std::vector<int64_t> shapeOf(const plan::StoredTensor &stored) {
  if (!stored.shape())
    return {};
  return {stored.shape()->begin(), stored.shape()->end()};
}

std::vector<std::string> namesOf(const plan::StoredTensor &stored) {
  std::vector<std::string> names{stored.name()->str()};
  if (stored.aliases())
    for (const auto *alias : *stored.aliases())
      if (alias->str() != names[0])
        names.push_back(alias->str());
  return names;
}

void Weights::add(StoredSource source, const std::string &path,
                  const plan::StoredTensor &tensor) {
  stored.push_back(std::move(source));
  paths.push_back(path);
  shapes.push_back(shapeOf(tensor));
  areComplex.push_back(tensor.complex());
}

std::vector<StoredSource> Weights::sourcesWithoutNan() const {
  std::vector<StoredSource> checked = stored;
  for (size_t s = 0; s < stored.size(); ++s) {
    if (!stored[s].read)
      continue;
    checked[s].read = [source = stored[s], path = paths[s], shape = shapes[s],
                       complex =
                           areComplex[s]](uint64_t offset, void *into,
                                          uint64_t length) -> Result<void> {
      if (Result<void> got = source.read(offset, into, length); !got)
        return got;
      int64_t width = bytesOf(source.dtype), count = length / width;
      int64_t found =
          findNan(source.dtype, static_cast<const std::byte *>(into), count);
      if (found == count)
        return {};
      int64_t position = offset / width + found;
      if (source.columns != 0) // a row of the file is a column of the tensor
        position =
            position % source.rows * source.columns + position / source.rows;
      std::string index =
          complex ? indexText(position / 2, {shape.begin(), shape.end() - 1})
                  : indexText(position, shape);
      return Error{fmt::format(
          "{}: element {} is NaN, and so will be all that is computed from it; "
          "give other weights with --init, or go on with --allow-nan",
          path, index)};
    };
  }
  return checked;
}

Result<void> Weights::checkDigests(uint64_t first, uint64_t step) const {
  uint64_t number = 0; // of the span's first block
  for (const Span &span : spans) {
    const plan::FileSpan &source = *span.stored->source();
    uint64_t blocks = source.digests()->size();
    uint64_t block = number <= first ? first - number
                                     : (step - (number - first) % step) % step;
    number += blocks;
    for (; block < blocks; block += step) {
      POLYRANK_ASSIGN(same,
                      hasDigest(*span.file, source.offset(), source.length(),
                                block, source.digests()->Get(block)));
      if (same)
        continue;
      uint64_t begin = source.offset() + block * digestBlock;
      return Error{fmt::format(
          "weights of '{}': bytes {} to {} of '{}' are not those that the "
          "plan was compiled with: compile again, or give weights with --init",
          span.stored->name()->str(), begin,
          std::min(begin + digestBlock, source.offset() + source.length()),
          span.file->path())};
    }
  }
  return {};
}

Result<void> Weights::checkTied() const {
  for (const std::vector<const SafetensorsSet::Tensor *> &names : tied) {
    const SafetensorsSet::Tensor &first = *names[0];
    const StoredTensorSpan &a = *first.span;
    for (size_t n = 1; n < names.size(); ++n) {
      const SafetensorsSet::Tensor &other = *names[n];
      const StoredTensorSpan &b = *other.span;
      auto differ = [&](const std::string &what) {
        return Error{fmt::format(
            "--init: '{}' and '{}' are one tensor of the model (they are "
            "tied), but two in {}: {}; leave the one out that does not count, "
            "or compile a model in which they are not tied",
            a.name, b.name,
            first.file == other.file
                ? first.file->path()
                : first.file->path() + " and " + other.file->path(),
            what)};
      };
      if (a.dtype != b.dtype || a.shape != b.shape)
        return differ(fmt::format(
            "the one is {} {}, the other {} {}", safetensorsName(a.dtype),
            shapeText(a.shape), safetensorsName(b.dtype), shapeText(b.shape)));
      POLYRANK_ASSIGN(element, firstDifference(first, other));
      if (element)
        return differ(
            fmt::format("their values differ at element {}",
                        a.shape.empty() ? "0" : indexText(*element, a.shape)));
    }
  }
  return {};
}

Result<std::string> Weights::identity() const {
  return fromInit ? fromInit->identity() : std::string();
}

uint64_t Weights::bytes() const {
  uint64_t sum = 0;
  for (size_t s = 0; s < stored.size(); ++s)
    if (stored[s].read)
      sum += bytesAs(stored[s].dtype, shapes[s]);
  return sum;
}

Result<void> Weights::checkAll(bool allowNan) const {
  if (Result<void> same = checkDigests(0, 1); !same)
    return same;
  constexpr uint64_t pieceBytes = 4 << 20;
  std::vector<std::byte> piece(pieceBytes);
  std::vector<StoredSource> sources = allowNan ? stored : sourcesWithoutNan();
  for (size_t s = 0; s < sources.size(); ++s) {
    uint64_t length = bytesAs(stored[s].dtype, shapes[s]);
    for (uint64_t at = 0; sources[s].read && at < length; at += pieceBytes)
      if (Result<void> got = sources[s].read(at, piece.data(),
                                             std::min(pieceBytes, length - at));
          !got)
        return got;
  }
  return {};
}

std::set<std::string> Weights::files() const {
  std::set<std::string> files(paths.begin(), paths.end());
  files.insert(alsoRead.begin(), alsoRead.end());
  files.erase("");
  return files;
}

/// Fails unless the file's tensor has the type and shape of the plan's.
static Result<void> checkFits(const SafetensorsSet::Tensor &tensor,
                              const plan::StoredTensor &stored) {
  const StoredTensorSpan &span = *tensor.span;
  const std::string &path = tensor.file->path();
  bool complex = span.dtype == ElementType::C64;
  if (complex != stored.complex())
    return Error{fmt::format("{}: '{}' has type {}, and the model's is {}",
                             path, span.name, safetensorsName(span.dtype),
                             complex ? "not complex" : "complex (C64)")};
  std::vector<int64_t> shape = shapeOf(stored);
  if (complex)
    shape.pop_back();
  if (span.shape != shape)
    return Error{fmt::format("{}: '{}' has shape {}, the plan has {}", path,
                             span.name, shapeText(span.shape),
                             shapeText(shape))};
  if (!isInPrograms(span.dtype) && !complex)
    return Error{fmt::format("{}: '{}' has type {}, which is not read", path,
                             span.name, safetensorsName(span.dtype))};
  return {};
}

Result<void> Weights::openInit(const LoadedPlan &plan,
                               const std::string &init) {
  POLYRANK_ASSIGN(opened, SafetensorsSet::open(init));
  auto set = std::make_shared<SafetensorsSet>(std::move(opened));
  alsoRead = set->paths();
  std::set<std::string> unread;
  for (auto &[name, tensor] : set->tensors())
    unread.insert(name);
  std::string missing, firstMissing;
  for (const plan::StoredTensor *each : *plan.plan->stored()) {
    std::vector<const SafetensorsSet::Tensor *> found =
        findTensors(*set, *each);
    if (found.empty()) {
      if (missing.empty())
        firstMissing = each->name()->str();
      missing += (missing.empty() ? "" : ", ") + each->name()->str();
      stored.emplace_back();
      continue;
    }
    const SafetensorsSet::Tensor *tensor = found[0];
    for (const SafetensorsSet::Tensor *other : found)
      unread.erase(other->span->name);
    if (found.size() > 1)
      tied.push_back(std::move(found));
    if (Result<void> fits = checkFits(*tensor, *each); !fits)
      return fits;
    paths[stored.size()] = tensor->file->path();
    stored.push_back(
        {each->complex() ? ElementType::F32 : tensor->span->dtype,
         [set, tensor](uint64_t offset, void *into, uint64_t length) {
           return tensor->read(offset, into, length);
         }});
  }
  if (!missing.empty()) {
    std::vector<std::string> names;
    for (auto &[name, tensor] : set->tensors())
      names.push_back(name);
    return Error{fmt::format("{}: has no tensors for {}{}", init, missing,
                             nearestNames(firstMissing, names))};
  }
  notRead.assign(unread.begin(), unread.end());
  fromInit = std::move(set);
  return {};
}

Result<void>
Weights::openSpan(const LoadedPlan &plan, const plan::StoredTensor &tensor,
                  std::map<std::string, std::shared_ptr<InputFile>> &files) {
  const plan::FileSpan *span = tensor.source();
  StoredSource &source = stored.emplace_back();
  source.dtype = ElementType(tensor.dtype());
  if (tensor.data())
    source.read = [data = tensor.data()](uint64_t offset, void *into,
                                         uint64_t length) -> Result<void> {
      std::memcpy(into, data->data() + offset, length);
      return {};
    };
  if (!span && !tensor.data())
    return Error{fmt::format(
        "'{}' was compiled without weights (--abstract-weights), such as "
        "'{}': compile the model with its weights, or give them with --init",
        plan.path, tensor.name()->str())};
  if (!span)
    return {};
  if (tensor.transposed()) {
    source.rows = tensor.shape()->Get(0);
    source.columns = tensor.shape()->Get(1);
  }
  std::shared_ptr<InputFile> &file = files[span->path()->str()];
  if (!file) {
    Result<InputFile> opened = openWeights(plan.path, span->path()->str());
    if (!opened)
      return opened.error().saying(
          fmt::format("weights of '{}': {} (put it beside the plan, compile "
                      "again, or give weights with --init)",
                      tensor.name()->str(), opened.error().message));
    file = std::make_shared<InputFile>(*std::move(opened));
  }
  if (span->offset() > file->size() ||
      span->length() > file->size() - span->offset())
    return Error{fmt::format("weights of '{}': the plan looks for them at "
                             "bytes {} to {} of '{}', which has {}: it is "
                             "not the file that was compiled",
                             tensor.name()->str(), span->offset(),
                             span->offset() + span->length(), file->path(),
                             file->size())};
  // The plan must have the digests of the bytes: otherwise a plan could name
  // any file that its user can read, and the run would copy it.
  if (!span->digests() && span->length() > 0)
    return Error{fmt::format(
        "weights of '{}': the plan does not say what bytes {} to {} of '{}' "
        "should be (it has no digests of them): compile the model again",
        tensor.name()->str(), span->offset(), span->offset() + span->length(),
        file->path())};
  if (span->digests())
    spans.push_back({&tensor, file});
  paths[stored.size() - 1] = file->path();
  source.read = [file, base = span->offset()](uint64_t offset, void *into,
                                              uint64_t length) {
    return file->readAt(base + offset, into, length);
  };
  return {};
}

Result<Weights> Weights::open(const LoadedPlan &plan, const std::string &init) {
  Weights weights;
  if (!plan.plan->stored())
    return weights;
  for (const plan::StoredTensor *stored : *plan.plan->stored()) {
    weights.shapes.push_back(shapeOf(*stored));
    weights.areComplex.push_back(stored->complex());
  }
  weights.paths.resize(weights.shapes.size(), init);
  if (!init.empty()) {
    if (Result<void> opened = weights.openInit(plan, init); !opened)
      return opened.error();
    return weights;
  }
  std::map<std::string, std::shared_ptr<InputFile>> files;
  for (const plan::StoredTensor *stored : *plan.plan->stored())
    if (Result<void> opened = weights.openSpan(plan, *stored, files); !opened)
      return opened.error();
  return weights;
}

} // namespace polyrank::runtime
