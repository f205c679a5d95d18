// Links object files into one shared object.

#include "compiler/target/cpu/Link.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace polyrank;

/// The linker next to the LLVM that we are built with, or on PATH.
static ErrorOr<std::string> findLinker() {
  for (StringRef name : {"ld.lld-22", "ld.lld"}) {
    if (auto path = sys::findProgramByName(
            name, {POLYRANK_LLVM_BIN, "/usr/lib/llvm-22/bin"}))
      return path;
    if (auto path = sys::findProgramByName(name))
      return path;
  }
  return std::make_error_code(std::errc::no_such_file_or_directory);
}

/// The functions that LLVM itself may call for a copy or a fill.
static bool isAllowed(StringRef symbol) {
  return StringSwitch<bool>(symbol)
      .Cases({"memcpy", "memset", "memmove", "memcmp"}, true)
      .Default(false);
}

/// The first property that a shared object of kernels must not have.
static std::string findFault(StringRef image) {
  auto object = object::ObjectFile::createELFObjectFile(
      MemoryBufferRef(image, "kernels"));
  if (!object)
    return "the linker wrote no object: " + toString(object.takeError());
  auto *elf = dyn_cast<object::ELF64LEObjectFile>(object->get());
  if (!elf)
    return "the linker wrote no 64-bit object";
  for (object::ELFSymbolRef symbol : elf->getDynamicSymbolIterators()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (!flags || !name)
      return "the linker wrote a symbol that cannot be read";
    if ((*flags & object::SymbolRef::SF_Undefined) && !name->empty() &&
        !isAllowed(*name))
      return ("a kernel calls " + *name + ", which no plan provides").str();
  }
  auto entries = elf->getELFFile().dynamicEntries();
  if (!entries)
    return "the linker wrote no dynamic section";
  for (const auto &entry : *entries)
    if (entry.getTag() == ELF::DT_NEEDED || entry.getTag() == ELF::DT_INIT ||
        entry.getTag() == ELF::DT_INIT_ARRAY ||
        entry.getTag() == ELF::DT_FINI_ARRAY)
      return "the kernels depend on a library or run code when loaded";
  return "";
}

polyrank::Result<std::string>
cpu::linkImage(const std::vector<std::string> &objects) {
  auto fail = [&](const Twine &why) { return polyrank::Error{why.str()}; };
  ErrorOr<std::string> linker = findLinker();
  if (!linker)
    return fail("ld.lld is not installed (Debian: lld-22)");
  SmallString<128> directory;
  if (std::error_code error =
          sys::fs::createUniqueDirectory("polyrank-kernels", directory))
    return fail("cannot make a folder for temporary files: " + error.message());
  scope_exit remove([&] { sys::fs::remove_directories(directory); });
  auto inside = [&](const Twine &name) {
    SmallString<128> path = directory;
    sys::path::append(path, name);
    return std::string(path);
  };

  // Use a response file: hundreds of objects are too long for a command line.
  std::string output = inside("kernels.so"), list = inside("objects");
  std::string log = inside("log");
  std::error_code error;
  raw_fd_ostream names(list, error);
  for (size_t i = 0; i < objects.size() && !error; ++i) {
    std::string path = inside(Twine(i) + ".o");
    names << path << "\n";
    raw_fd_ostream file(path, error);
    file << objects[i];
  }
  names.close();
  if (error)
    return fail("cannot write temporary files: " + error.message());

  std::string listArgument = "@" + list;
  std::string message;
  std::optional<StringRef> redirects[] = {"", log, log};
  int status =
      sys::ExecuteAndWait(*linker,
                          {*linker, "-shared", "--no-undefined-version", "-z",
                           "noexecstack", "--hash-style=gnu", "--build-id=none",
                           "--gc-sections", "-s", "-o", output, listArgument},
                          std::nullopt, redirects, /*SecondsToWait=*/0,
                          /*MemoryLimit=*/0, &message);
  if (status != 0) {
    if (auto text = MemoryBuffer::getFile(log))
      message += (*text)->getBuffer();
    return fail(*linker + " failed: " + message);
  }
  auto image = MemoryBuffer::getFile(output);
  if (!image)
    return fail("cannot read " + output + ": " + image.getError().message());
  std::string bytes = (*image)->getBuffer().str();
  if (std::string fault = findFault(bytes); !fault.empty())
    return polyrank::Error{fault};
  return bytes;
}
