// The manifest of a checkpoint: what it holds, and where every element is.

#pragma once

#include "runtime/checkpoint/Box.h"
#include "support/ElementType.h"

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace polyrank::runtime {

/// The version is raised when a manifest contains what an older program would
/// misunderstand. Version 2 has an evaluation; a manifest without one is
/// written as version 1.
inline constexpr uint64_t checkpointVersion = 2;
inline constexpr const char *manifestName = "manifest.json";

/// One file of a checkpoint, in its folder.
struct ManifestFile {
  std::string name; // shard-00001-of-00004.safetensors
  uint64_t bytes = 0;
};
std::string shardFileName(uint64_t number, uint64_t count); // from 0

/// A part of a tensor, dense and row-major: a tensor of its own in a file.
struct ManifestChunk {
  uint32_t file = 0; // number in Manifest::files
  std::string key;   // the tensor's name there
  Box box;
  std::vector<uint64_t> checksums; // of blocks, runtime/checkpoint/Checksum.h
};

/// The role of a tensor in the training.
enum class TensorRole {
  Parameter, // trained
  Buffer,    // a tensor of the model that no optimizer updates
  State      // kept by the optimizer, of a parameter or of the step as a whole
};
const char *nameOf(TensorRole role);

struct ManifestTensor {
  std::string name; // the user's name; for state "w.exp_avg", "step"
  TensorRole role = TensorRole::Parameter;
  std::string parameter, suffix; // for state: "w" (or empty), "exp_avg"
  ElementType dtype = ElementType::F32;
  std::vector<int64_t> shape;
  std::vector<ManifestChunk> chunks;

  uint64_t bytes() const;
};

/// The samples that a run takes: step s takes those at positions
/// (s - 1 - origin) B .. (s - origin) B - 1 of the order.
struct ManifestData {
  std::string description; // for messages
  std::string fingerprint; // of samples in their order; empty: no data
  std::string order;       // random, sequential
  uint64_t samples = 0;    // of one epoch
  uint64_t samplesPerStep = 0;
  uint64_t origin = 0; // the step after which the order began
};

/// The result of all evaluations up to a step.
struct ManifestEvaluation {
  uint64_t step = 0; // of the latest evaluation
  /// The step with the least loss, and the number of evaluations since.
  uint64_t bestStep = 0, without = 0;
  double bestLoss = std::numeric_limits<double>::infinity();
};

struct Manifest {
  uint64_t step = 0; // the last step that was done
  int64_t seed = 0;
  std::string program;  // the program that wrote it: "polyrank-run 0.1.0"
  std::string model;    // the plan's
  std::string planHash; // hex
  std::string mesh;     // "data=2,tensor=2", in words
  ManifestData data;
  std::vector<std::pair<std::string, double>> metrics; // of the step
  std::optional<ManifestEvaluation> evaluation;        // if there were any
  std::vector<ManifestFile> files;
  std::vector<ManifestTensor> tensors;

  const ManifestTensor *find(TensorRole role, std::string_view name) const;
  /// Parameters and buffers alike.
  const ManifestTensor *findStored(std::string_view name) const;
  /// The sum over all files.
  uint64_t bytes() const;
};

/// Returns the manifest as JSON, with a digest of all its contents.
std::string textOf(const Manifest &manifest);

/// Reads what `textOf` wrote, and checks
///   - the digest and the version, that each key occurs once and none is
///   unknown,
///   - that files are named as shards, without a path, each once,
///   - that each tensor is there once, with a shape that can be counted, and
///   each
///     chunk's key once in its file,
///   - that chunks are not empty, lie within their tensor, have a checksum for
///     each block, and that each element is in exactly one of them.
/// `path` is for messages. The text is untrusted.
Result<Manifest> manifestFromText(const std::string &path,
                                  const std::string &text);
/// Reads the file, of at most 1 GiB.
Result<Manifest> readManifest(const std::string &path);

/// Runs the same checks of tensors, files and chunks before anything is
/// written.
Result<void> checkManifest(const Manifest &manifest);

} // namespace polyrank::runtime
