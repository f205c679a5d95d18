// Compiled kernels that a folder keeps, for plans that have them again.

#include "compiler/target/KernelCache.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/File.h"
#include "support/Sha256.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace polyrank;
using namespace polyrank::target;

static constexpr size_t numDigits = 64; // of a digest

static void add(Sha256 &digest, llvm::StringRef text) {
  // With its length, so that no two lists of texts are the same bytes.
  std::string length = std::to_string(text.size()) + ":";
  for (llvm::StringRef part : {llvm::StringRef(length), text})
    digest.add({reinterpret_cast<const uint8_t *>(part.data()), part.size()});
}

static std::string digestOf(llvm::StringRef bytes) {
  Sha256 digest;
  add(digest, bytes);
  return digest.hex();
}

/// Returns the build id of a loaded file in hex; empty if it has none.
static std::string buildIdOf(const dl_phdr_info &loaded) {
  for (const ElfW(Phdr) &part :
       llvm::ArrayRef(loaded.dlpi_phdr, loaded.dlpi_phnum)) {
    if (part.p_type != PT_NOTE)
      continue;
    const char *at =
        reinterpret_cast<const char *>(loaded.dlpi_addr + part.p_vaddr);
    const char *end = at + part.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      const auto &note = *reinterpret_cast<const ElfW(Nhdr) *>(at);
      const char *name = at + sizeof(note);
      const char *id = name + llvm::alignTo(note.n_namesz, 4);
      if (note.n_type == NT_GNU_BUILD_ID &&
          llvm::StringRef(name, note.n_namesz) == llvm::StringRef("GNU\0", 4))
        return llvm::toHex(llvm::StringRef(id, note.n_descsz));
      at = id + llvm::alignTo(note.n_descsz, 4);
    }
  }
  return "";
}

/// Returns the build ids of the executable, which comes first, and of the
/// libraries that it is linked with.
static std::vector<std::string> findBuildIds() {
  std::vector<std::string> ids;
  dl_iterate_phdr(
      [](dl_phdr_info *loaded, size_t, void *ids) {
        static_cast<std::vector<std::string> *>(ids)->push_back(
            buildIdOf(*loaded));
        return 0;
      },
      &ids);
  return ids;
}

Result<KernelCache> KernelCache::open(const std::string &folder) {
  std::vector<std::string> ids = findBuildIds();
  if (ids.empty() || ids.front().empty())
    return Error{fmt::format(
        "'{}' cannot keep kernels: this program was linked without a build id "
        "(--build-id), by which it knows which compiler made a kernel",
        folder)};
  if (auto code = llvm::sys::fs::create_directories(
          folder, /*IgnoreExisting=*/true, llvm::sys::fs::owner_all))
    return Error{fmt::format("cannot make the folder '{}' for kernels: {}",
                             folder, code.message())};
  struct stat status;
  if (stat(folder.c_str(), &status) != 0)
    return fileError(folder, "cannot keep kernels there");
  if (!S_ISDIR(status.st_mode))
    return Error{
        fmt::format("'{}' cannot keep kernels: it is no folder", folder)};
  if (status.st_uid != geteuid())
    return Error{fmt::format(
        "'{}' cannot keep kernels: it belongs to user {}, and this is user {}, "
        "whose plans would run what is in it; name a folder of your own",
        folder, status.st_uid, geteuid())};
  if (status.st_mode & (S_IWGRP | S_IWOTH))
    return Error{fmt::format(
        "'{}' cannot keep kernels: it has mode {:04o}, so that others could "
        "write what your plans run; chmod go-w '{}'",
        folder, status.st_mode & 07777, folder)};
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return fileError(folder, "cannot keep kernels there");
  return KernelCache(folder, llvm::join(ids, " "));
}

KernelCache::KernelCache(KernelCache &&other) noexcept
    : folder(std::move(other.folder)), compiler(std::move(other.compiler)),
      found(other.found.load()), compiled(other.compiled.load()) {}

std::string KernelCache::pathOf(llvm::ArrayRef<llvm::StringRef> texts) const {
  Sha256 key;
  add(key, compiler);
  for (llvm::StringRef text : texts)
    add(key, text);
  // The beginning of the name is what pruneCache looks for.
  return folder + "/llvmcache-" + key.hex();
}

mlir::FailureOr<std::string>
KernelCache::get(llvm::ArrayRef<llvm::StringRef> texts,
                 llvm::function_ref<mlir::FailureOr<std::string>()> compile,
                 llvm::function_ref<void(const std::string &)> warn) {
  std::string path = pathOf(texts);
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  if (file) {
    llvm::StringRef bytes = (*file)->getBuffer();
    llvm::StringRef digest = bytes.take_front(numDigits);
    llvm::StringRef code = bytes.drop_front(digest.size());
    if (!code.empty() && digest == digestOf(code)) {
      ++found;
      return code.str();
    }
    warn(fmt::format("the kernel in '{}' is damaged, and is compiled again",
                     path));
  } else if (file.getError() != std::errc::no_such_file_or_directory) {
    warn(fmt::format("cannot read the kernel in '{}', which is compiled again: "
                     "{}",
                     path, file.getError().message()));
  }
  mlir::FailureOr<std::string> code = compile();
  if (failed(code))
    return mlir::failure();
  ++compiled;
  llvm::Error error = llvm::writeToOutput(path, [&](llvm::raw_ostream &out) {
    out << digestOf(*code) << *code;
    out.flush();
    auto &file = static_cast<llvm::raw_fd_ostream &>(out);
    std::error_code lost = file.error();
    file.clear_error(); // the stream would end the program
    return llvm::errorCodeToError(lost);
  });
  if (error)
    warn(fmt::format("cannot keep a kernel as '{}': {}", path,
                     llvm::toString(std::move(error))));
  return code;
}

void KernelCache::prune() const {
  llvm::CachePruningPolicy policy;
  policy.MaxSizeBytes = mostBytes;
  llvm::pruneCache(folder, policy);
}
