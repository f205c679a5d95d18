// The shared object of a CPU's kernels, loaded into this process.

#include "test/compiler/codegen/KernelImage.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/plan/plan_generated.h"

using namespace polyrank;
using namespace polyrank::codegen;

Result<std::unique_ptr<KernelImage>>
KernelImage::load(const target::CompiledKernels &kernels) {
  std::unique_ptr<KernelImage> loaded(new KernelImage);
  // The loader identifies libraries by path, so the descriptor must stay open.
  loaded->file = memfd_create("kernels", MFD_CLOEXEC);
  const std::string &image = kernels.images.front().bytes;
  if (write(loaded->file, image.data(), image.size()) !=
      static_cast<ssize_t>(image.size()))
    return Error{"cannot write an image of kernels into memory"};
  loaded->library =
      dlopen(("/proc/self/fd/" + std::to_string(loaded->file)).c_str(),
             RTLD_NOW | RTLD_LOCAL);
  if (!loaded->library)
    return Error{std::string("cannot load kernels: ") + dlerror()};
  for (const target::CompiledKernel &kernel : kernels.kernels) {
    void *symbol = dlsym(loaded->library, kernel.symbol.c_str());
    if (!symbol)
      return Error{"the image has no kernel " + kernel.symbol};
    loaded->functions[kernel.symbol] = reinterpret_cast<Kernel>(symbol);
  }
  return loaded;
}

KernelImage::~KernelImage() {
  if (library)
    dlclose(library);
  if (file >= 0)
    close(file);
}

int64_t KernelImage::getRange(rank::KernelOp kernel) {
  runtime::plan::LaunchT launch;
  auto target = target::getKernelTarget(kernel);
  bool isWritten =
      succeeded(target) && succeeded(target->writeLaunch(kernel, launch));
  return isWritten ? launch.body.AsCpuLaunch()->range : 0;
}
