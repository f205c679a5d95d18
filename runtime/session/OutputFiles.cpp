// Creates, clears and commits the files of a run.

#include "runtime/session/OutputFiles.h"

#include "support/arrays/Npz.h"

#include <fmt/format.h>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

Result<void> create(std::optional<OutputFile> &file, const std::string &path,
                    uint64_t bytes = 0) {
  if (path.empty())
    return {};
  POLYRANK_ASSIGN(created, OutputFile::create(path, bytes));
  file.emplace(std::move(created));
  return {};
}

} // namespace

Result<OutputFiles> OutputFiles::create(const SessionOptions &options,
                                        const plan::Plan &plan,
                                        uint64_t windowBytes) {
  OutputFiles files;
  files.windowBytes = windowBytes;
  for (const SaveFile &save : options.saves()) {
    if (save.path.empty())
      continue;
    POLYRANK_ASSIGN(output, SaveOutput::create(
                                save, savedFilesOf(plan, save.what, save.path,
                                                   options.saveShardBytes())));
    files.saves.push_back(std::move(output));
  }
  if (Result<void> made = runtime::create(files.profileOutput, options.profile);
      !made)
    return made.error();
  if (Result<void> made = runtime::create(files.traceOutput, options.trace);
      !made)
    return made.error();
  if (Result<void> made =
          runtime::create(files.arraysOutput, options.outputs, windowBytes);
      !made)
    return made.error();
  return std::move(files);
}

Result<void> OutputFiles::createWindow() {
  if (windowBytes == 0)
    return {};
  POLYRANK_ASSIGN(
      created,
      Window::create(windowBytes, arraysOutput ? "outputs" : "what is saved"));
  window.emplace(std::move(created));
  return {};
}

std::vector<int> OutputFiles::weights() const {
  std::vector<int> descriptors;
  for (const SaveOutput &save : saves)
    for (const OutputFile &file : save.files())
      descriptors.push_back(file.descriptor().get());
  return descriptors;
}

Result<void> OutputFiles::clear() {
  for (SaveOutput &save : saves)
    if (Result<void> cleared = save.clear(); !cleared)
      return cleared;
  for (std::optional<OutputFile> *file : {&profileOutput, &traceOutput})
    if (*file)
      if (Result<void> cleared = (*file)->clear(); !cleared)
        return cleared;
  return window ? window->clear() : Result<void>();
}

Result<void> OutputFiles::commitWeights() {
  for (SaveOutput &save : saves)
    if (Result<void> committed = save.commit(); !committed)
      return committed;
  return {};
}

Result<void> OutputFiles::commit(const std::vector<OutputArray> &outputs,
                                 const Progress &progress) {
  if (Result<void> committed = commitWeights(); !committed)
    return committed;
  for (std::optional<OutputFile> *file : {&profileOutput, &traceOutput})
    if (*file)
      if (Result<void> committed = (*file)->commit(); !committed)
        return committed;
  return arraysOutput ? writeArrays(outputs, progress) : Result<void>();
}

Result<void> OutputFiles::writeArrays(const std::vector<OutputArray> &outputs,
                                      const Progress &progress) {
  NpzWriter writer(*std::move(arraysOutput));
  for (const OutputArray &output : outputs)
    if (Result<void> added =
            writer.add(output.name, output.dtype, output.shape,
                       window->data().subspan(output.offset, output.bytes));
        !added)
      return added;
  for (auto &[name, value] : progress.means())
    if (Result<void> added = writer.add(name, ElementType::F64, {},
                                        std::as_bytes(std::span(&value, 1)));
        !added)
      return added;
  return writer.commit();
}

std::string OutputFiles::describeKept(bool isKept, uint64_t steps) const {
  if (saves.empty())
    return "";
  std::string kept;
  for (const SaveOutput &save : saves)
    for (const OutputFile &file : save.files())
      if (isKept)
        kept += fmt::format("; '{}' has the weights after step {}", file.path(),
                            steps);
      else if (access(file.path().c_str(), F_OK) == 0)
        kept += fmt::format("; '{}' is as it was", file.path());
  return kept.empty() ? "; nothing is saved" : kept;
}

} // namespace polyrank::runtime
