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

Result<KernelModule> KernelModule::load(const plan::Kernels &kernels) {
  KernelModule module;
  if (!kernels.symbols() || kernels.symbols()->size() == 0)
    return module;
  if (!kernels.target() || kernels.target()->string_view() != "cpu")
    return Error{"the plan's kernels are for the target '" +
                 (kernels.target() ? kernels.target()->str() : "") +
                 "'; this polyrank-run has the target 'cpu'"};
  std::vector<std::string> features;
  if (kernels.features())
    for (const auto *feature : *kernels.features())
      features.push_back(feature->str());
  if (auto missing = missingFeatures(features); !missing.empty()) {
    std::string names;
    for (const std::string &name : missing)
      names += (names.empty() ? "" : ", ") + name;
    return Error{"the plan's kernels were compiled for " +
                 (kernels.cpu() ? "CPU '" + kernels.cpu()->str() + "'"
                                : std::string("another CPU")) +
                 " and need " + names +
                 ", which this CPU lacks: compile again here, or with --cpu "
                 "x86-64-v3"};
  }
  if (!kernels.object())
    return Error{"the plan names kernels but holds no image of them"};
  std::span<const uint8_t> image(kernels.object()->data(),
                                 kernels.object()->size());
  if (auto checked = checkKernelImage(image); !checked)
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
  for (size_t done = 0; done < image.size();) {
    ssize_t written = write(file, image.data() + done, image.size() - done);
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
  for (const auto *symbol : *kernels.symbols()) {
    void *address = dlsym(module.handle.get(), symbol->c_str());
    if (!address)
      return Error{"the plan's image has no kernel '" + symbol->str() + "'"};
    module.functions.push_back(reinterpret_cast<KernelFunction>(address));
  }
  return module;
}

} // namespace polyrank::runtime
