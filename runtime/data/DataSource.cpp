// Maps positions of the order to samples of files.

#include "runtime/data/DataSource.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace polyrank::runtime {
namespace {

/// Returns true if all labels that count, at least one, equal the inputs.
bool isEqualWhereCounted(const InputSpec &spec,
                         const std::vector<int64_t> &labels,
                         const std::vector<int64_t> &inputs) {
  bool counts = false;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == spec.range.ignore)
      continue;
    if (labels[i] != inputs[i])
      return false;
    counts = true;
  }
  return counts;
}

/// Returns the fraction, rounded up; 0.07 of 100 is 7, although the double is a
/// little more.
uint64_t heldOutOf(uint64_t samples, double holdout) {
  double exact = static_cast<double>(samples) * holdout;
  double whole = std::round(exact);
  bool isWhole = std::abs(exact - whole) <=
                 exact * 2 * std::numeric_limits<double>::epsilon();
  return static_cast<uint64_t>(isWhole ? whole : std::ceil(exact));
}

} // namespace

void DataSource::Source::add(SampleFile file, double holdout) {
  uint64_t heldOut = heldOutOf(file.samples(), holdout);
  trainBefore.push_back(trainBefore.back() + file.samples() - heldOut);
  holdoutBefore.push_back(holdoutBefore.back() + heldOut);
  files.push_back(std::move(file));
}

Result<DataSource> DataSource::open(const DataOptions &options,
                                    std::span<const InputSpec> inputs) {
  if (!(options.holdout >= 0 && options.holdout < 1))
    return Error{"a held-out fraction of " + std::to_string(options.holdout) +
                 " is not in [0, 1)"};
  POLYRANK_ASSIGN(found, findDataFiles(options.paths));
  DataSource data;
  data.options = options;
  std::vector<double> weights;
  for (DataFiles &given : found) {
    // Without weights all files form one sequence.
    if (data.sources.empty() || given.weight)
      data.sources.emplace_back();
    Source &source = data.sources.back();
    for (const std::string &path : given.paths) {
      POLYRANK_ASSIGN(file, SampleFile::open(path, options.tokenType,
                                             options.documents, inputs));
      source.add(std::move(file), options.holdout);
    }
    if (given.weight)
      weights.push_back(*given.weight);
    source.given = std::move(given);
  }
  if (!weights.empty())
    data.mix.emplace(weights);
  if (Result<void> counted = data.countSamples(); !counted)
    return counted.error();
  return std::move(data);
}

DataSource DataSource::ofStream(std::shared_ptr<SampleStream> stream,
                                std::string description, std::string mixture,
                                uint64_t batch) {
  DataSource data;
  data.options.batch = batch;
  data.stream = std::move(stream);
  data.streamed = std::move(description);
  data.streamMixture = std::move(mixture);
  return data;
}

Result<void> DataSource::countSamples() {
  for (const Source &source : sources) {
    trainSamples += source.samples(Split::Train);
    holdoutSamples += source.samples(Split::Holdout);
    if (mix && source.samples(Split::Train) == 0)
      return Error{source.given.given +
                   ": has no sample to train on, but a weight"};
  }
  for (Split split : {Split::Train, Split::Holdout}) {
    bool train = split == Split::Train;
    uint64_t least = options.allowPart ? 1 : options.batch;
    if ((train || options.holdout > 0) && samples(split) < least)
      return Error{
          describe() + ": the " + (train ? "" : "held-out ") +
          "samples are fewer than one global batch of " +
          std::to_string(options.batch) + "; give more data" +
          (options.holdout > 0 ? " or another held-out fraction" : "")};
  }
  return {};
}

DataSource::Sample DataSource::sampleAt(Split split, uint64_t position) const {
  const Source *source = &sources[0];
  uint64_t sample = 0, seed = options.seed;
  if (split == Split::Holdout) {
    sample = position % holdoutSamples;
    for (; sample >= source->samples(split); ++source)
      sample -= source->samples(split);
  } else {
    if (mix) {
      SourceMix::Place place = mix->at(position);
      source += place.source;
      position = place.index;
      // Sources of equal size get different permutations.
      seed += place.source * 0x9e3779b97f4a7c15;
    }
    sample = runtime::sampleAt(options.order, source->samples(split), seed,
                               position);
  }
  const std::vector<uint64_t> &before =
      split == Split::Train ? source->trainBefore : source->holdoutBefore;
  size_t file = std::upper_bound(before.begin(), before.end(), sample) -
                before.begin() - 1;
  const SampleFile &found = source->files[file];
  uint64_t trained = source->trainBefore[file + 1] - source->trainBefore[file];
  return {&found,
          sample - before[file] + (split == Split::Train ? 0 : trained)};
}

Result<void> DataSource::read(const Batch &batch, size_t input, int64_t begin,
                              int64_t end, std::byte *into) const {
  if (stream) {
    uint64_t number = batch.first / options.batch;
    POLYRANK_ASSIGN(isThere,
                    stream->await(number, [] { return Result<void>(); }));
    // Whoever takes the batch asks whether there is one.
    if (isThere)
      stream->read(number, input, begin, end, into);
    return {};
  }
  std::vector<std::byte> stored;
  for (int64_t b = begin; b < end; ++b) {
    Sample sample = sampleAt(batch.split, batch.first + b % batch.count);
    if (auto done = sample.file->read(sample.number, input, stored, into);
        !done)
      return done;
    into += sample.file->input(input).rowBytes();
  }
  return {};
}

std::vector<Batch> DataSource::batchesOfAll(Split split) const {
  std::vector<Batch> batches;
  uint64_t all = samples(split);
  for (uint64_t first = 0; first < all;) {
    uint64_t count = std::min(options.batch, all - first);
    while (options.batch % count != 0)
      --count;
    batches.push_back({split, first, count});
    first += count;
  }
  return batches;
}

std::string DataSource::findNan(Split split, uint64_t step) const {
  if (isStream()) // its samples are gone
    return "";
  Batch batch = batchOf(split, step);
  for (size_t input = 0; input < sources[0].files[0].inputs(); ++input)
    for (uint64_t b = 0; b < options.batch; ++b) {
      Sample sample = sampleAt(split, batch.first + b);
      if (std::string found = sample.file->findNan(sample.number, input);
          !found.empty())
        return found;
    }
  return "";
}

std::string DataSource::findUnshifted() const {
  if (isStream())
    return "";
  constexpr uint64_t rows = 16; // no 16 rows are equal by chance
  const SampleFile &file = *sampleAt(Split::Train, 0).file;
  for (size_t labels = 0; labels < file.inputs(); ++labels) {
    const InputSpec &spec = file.input(labels);
    // Labels of a token file are shifted anyway, and a single number is not a
    // row of tokens.
    if (!spec.labels || spec.dtype != ElementType::I64 ||
        spec.rowElements() < 2 || !file.isWhole(labels))
      continue;
    for (size_t input = 0; input < file.inputs(); ++input) {
      const InputSpec &other = file.input(input);
      if (other.labels || other.rowShape != spec.rowShape ||
          other.dtype != spec.dtype)
        continue;
      uint64_t count = std::min({rows, trainSamples, options.batch});
      std::vector<int64_t> a(count * spec.rowElements()), b = a;
      // A read error is reported when a step reads the samples.
      if (!read(Split::Train, 0, labels, 0, count,
                std::as_writable_bytes(std::span(a)).data()) ||
          !read(Split::Train, 0, input, 0, count,
                std::as_writable_bytes(std::span(b)).data()))
        continue;
      if (isEqualWhereCounted(spec, a, b))
        return file.path() + ": the labels '" + spec.name + "' are '" +
               other.name +
               "' itself, so the model learns to repeat its input; for the "
               "next token, save labels that are shifted by one: labels[:, "
               ":-1] = " +
               other.name +
               "[:, 1:], labels[:, -1] = " + std::to_string(spec.range.ignore);
    }
  }
  return "";
}

Result<void> DataSource::checkAll() const {
  for (const Source &source : sources)
    for (const SampleFile &file : source.files)
      if (Result<void> done = file.checkAll(); !done)
        return done;
  return {};
}

bool DataSource::isChecked() const {
  uint64_t bytes = 0;
  for (const Source &source : sources)
    for (const SampleFile &file : source.files)
      bytes += file.checkedBytes();
  return bytes <= checkedBytes;
}

Result<void> DataSource::checkRanges() const {
  for (const Source &source : sources)
    for (const SampleFile &file : source.files)
      if (isChecked())
        if (Result<void> done = file.checkRanges(); !done)
          return done;
  return {};
}

uint64_t DataSource::memoryBytes() const {
  uint64_t sum = 0;
  for (const Source &source : sources)
    for (const SampleFile &file : source.files)
      sum += file.memoryBytes();
  return sum;
}

Result<std::string> DataSource::identity() const {
  std::string text;
  for (const Source &source : sources)
    for (const SampleFile &file : source.files) {
      POLYRANK_ASSIGN(each, file.identity());
      text += each;
    }
  return text;
}

std::vector<std::string> DataSource::paths() const {
  std::vector<std::string> paths;
  for (const Source &source : sources)
    for (const SampleFile &file : source.files)
      paths.push_back(file.path());
  return paths;
}

std::string DataSource::describe() const {
  if (isStream())
    return streamed;
  std::string text;
  double weights = 0;
  for (const Source &source : sources)
    weights += source.given.weight.value_or(0);
  for (const Source &source : sources) {
    text += text.empty() ? "" : "\n";
    const SampleFile &first = source.files.front();
    if (source.files.size() == 1) {
      text += first.describe();
    } else {
      uint64_t tokens = 0, samples = 0;
      for (const SampleFile &file : source.files)
        tokens += file.tokens(), samples += file.samples();
      text += fmt::format("{} files, {} to {}: ", source.files.size(),
                          first.path(), source.files.back().path());
      text += tokens ? fmt::format("{} tokens, {} samples of {}", tokens,
                                   samples, first.input(0).rowElements())
                     : fmt::format("{} samples", samples);
    }
    if (uint64_t heldOut = source.samples(Split::Holdout))
      text += fmt::format(", of which {} are held out", heldOut);
    if (source.given.weight)
      text += fmt::format("; {:.4g} % of what is trained on",
                          100 * *source.given.weight / weights);
  }
  return text;
}

} // namespace polyrank::runtime
