// Loads kernels with memfd, seals and dlopen.

#include "runtime/device/cpu/KernelModule.h"

#include "runtime/device/cpu/CpuFeatures.h"
#include "runtime/device/cpu/ElfCheck.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace polyrank::runtime {

void KernelModule::Unload::operator()(void *handle) const { dlclose(handle); }

void KernelModule::Close::operator()(int *file) const {
  close(*file);
  delete file;
}

Result<void> KernelModule::checkRequirements(const plan::Image &image) {
  if (image.symbols()->size() == 0)
    return {};
  const plan::Requirements &needs = *image.requirements();
  std::vector<std::string> features;
  if (needs.features())
    for (const auto *feature : *needs.features())
      features.push_back(feature->str());
  auto missing = missingFeatures(features);
  if (missing.empty())
    return {};
  std::string names;
  for (const std::string &name : missing)
    names += (names.empty() ? "" : ", ") + name;
  return Error{"were compiled for " +
               (needs.machine() ? "CPU '" + needs.machine()->str() + "'"
                                : std::string("another CPU")) +
               " and need " + names + ", which this CPU lacks"};
}

Result<KernelModule> KernelModule::load(const plan::Image &image) {
  KernelModule module;
  if (image.symbols()->size() == 0)
    return module;
  if (Result<void> can = checkRequirements(image); !can)
    return Error{"the plan's kernels " + can.error().message};
  std::span<const uint8_t> bytes(image.bytes()->data(), image.bytes()->size());
  if (auto checked = checkKernelImage(bytes); !checked)
    return checked.error();

  auto systemError = [](const char *what) {
    return Error{std::string("cannot load the plan's kernels: ") + what + ": " +
                     std::strerror(errno),
                 Error::Fault::Rank};
  };
  int file = memfd_create("polyrank-kernels", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0)
    return systemError("memfd_create");
  module.file.reset(new int(file));
  for (size_t done = 0; done < bytes.size();) {
    ssize_t written = write(file, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno != EINTR)
      return systemError("write");
    done += written > 0 ? written : 0;
  }
  if (fcntl(file, F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    return systemError("seal");
  std::string path = "/proc/self/fd/" + std::to_string(file);
  module.handle.reset(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!module.handle)
    return Error{std::string("cannot load the plan's kernels: ") + dlerror(),
                 Error::Fault::Rank};
  for (const auto *symbol : *image.symbols()) {
    void *address = dlsym(module.handle.get(), symbol->c_str());
    if (!address)
      return Error{"the plan's image has no kernel '" + symbol->str() + "'"};
    module.functions.push_back(reinterpret_cast<KernelFunction>(address));
  }
  return module;
}

} // namespace polyrank::runtime
