// The files of a model: the mapped model and its external data.

#include "frontends/onnx/Model.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace polyrank::frontends::onnx {

namespace {

/// Closes its descriptor unless it was released.
struct Descriptor {
  explicit Descriptor(int value) : value(value) {}
  Descriptor(const Descriptor &) = delete;
  ~Descriptor() {
    if (value >= 0)
      close(value);
  }
  int release() { return std::exchange(value, -1); }
  void reset(int next) {
    if (value >= 0)
      close(value);
    value = next;
  }
  int value;
};

std::string systemError() { return std::strerror(errno); }

} // namespace

ExternalFile::~ExternalFile() {
  if (descriptor >= 0)
    close(descriptor);
}

Result<void> ExternalFile::read(uint64_t offset, std::span<char> into) const {
  size_t done = 0;
  while (done < into.size()) {
    ssize_t count = pread(descriptor, into.data() + done, into.size() - done,
                          static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return Error{path + ": " +
                   (count < 0
                        ? systemError()
                        : std::string("the file ends before the weights do"))};
    done += static_cast<size_t>(count);
  }
  return {};
}

Result<ExternalFile> openBelow(const std::string &folder,
                               std::string_view location) {
  std::string shown = "external data `" + std::string(location) + "`: ";
  if (location.empty() || location.front() == '/' ||
      location.find('\0') != std::string_view::npos)
    return Error{shown + "not a path relative to the model's folder"};
  // Opens component by component, so that no link is ever followed and there is
  // no gap between the check and the open.
  Descriptor here(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (here.value < 0)
    return Error{folder + ": " + systemError()};
  for (std::string_view rest = location;;) {
    size_t slash = rest.find('/');
    std::string component(rest.substr(0, slash));
    bool last = slash == std::string_view::npos;
    if (component == "..")
      return Error{shown + "leaves the model's folder"};
    if (!component.empty() && component != ".") {
      int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK |
                  (last ? 0 : O_DIRECTORY);
      int next = openat(here.value, component.c_str(), flags);
      if (next < 0) {
        bool link = errno == ELOOP || (errno == ENOTDIR && !last);
        return Error{
            shown + (link ? "`" + component +
                                "` is a symbolic link or no folder; put the "
                                "data itself beside the model"
                          : systemError() +
                                "; it belongs into the model's folder (without "
                                "weights: --abstract-weights)")};
      }
      here.reset(next);
    } else if (last)
      return Error{shown + "names a folder"};
    if (last)
      break;
    rest.remove_prefix(slash + 1);
  }
  struct stat status;
  if (fstat(here.value, &status) != 0 || !S_ISREG(status.st_mode))
    return Error{shown + "not a regular file"};
  if (status.st_nlink != 1)
    return Error{shown + "has several hard links; put a copy beside the model"};
  std::string path = folder == "." ? std::string(location)
                                   : folder + "/" + std::string(location);
  return ExternalFile(std::move(path), here.release(),
                      static_cast<uint64_t>(status.st_size));
}

const Function *Model::findFunction(const Node &node) const {
  for (const Function &function : functions)
    if (function.name == node.type && function.domain == node.domain &&
        function.overload == node.overload)
      return &function;
  return nullptr;
}

Result<void> Model::load(const StoredTensor &tensor,
                         std::vector<char> &into) const {
  if (tensor.isAbsent)
    return Error{"the file has no elements for `" + std::string(tensor.name) +
                 "`, and shapes or constants are computed from them"};
  if (!tensor.external) {
    into.assign(tensor.bytes.begin(), tensor.bytes.end());
    return {};
  }
  into.resize(tensor.span->length);
  return externals[*tensor.external].read(tensor.span->offset, into);
}

} // namespace polyrank::frontends::onnx
