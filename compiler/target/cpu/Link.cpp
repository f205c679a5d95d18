// Links object files into one shared object.

#include "compiler/target/cpu/Link.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

using namespace llvm;
using namespace polyrank;

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

  std::string output = inside("kernels.so");
  std::vector<std::string> arguments = {
      "ld.lld", "-shared", "--no-undefined-version", "-z", "noexecstack",
      "--hash-style=gnu", "--build-id=none", "--gc-sections", "-s",
      // Kernels are small, and a file that is mapped is removed by handlers of
      // signals that would replace this program's own.
      "--threads=1", "--no-mmap-output-file", "-o", output};
  std::error_code error;
  for (size_t i = 0; i < objects.size() && !error; ++i) {
    std::string path = inside(Twine(i) + ".o");
    raw_fd_ostream file(path, error);
    file << objects[i];
    file.close();
    if (file.has_error()) {
      error = file.error();
      file.clear_error();
    }
    arguments.push_back(std::move(path));
  }
  if (error)
    return fail("cannot write temporary files: " + error.message());

  std::vector<const char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(argument.c_str());
  std::string log;
  raw_string_ostream messages(log);
  lld::Result linked =
      lld::lldMain(pointers, messages, messages, {{lld::Gnu, &lld::elf::link}});
  if (linked.retCode != 0)
    return fail("the linker failed: " + StringRef(log).rtrim());
  auto image = MemoryBuffer::getFile(output);
  if (!image)
    return fail("cannot read " + output + ": " + image.getError().message());
  std::string bytes = (*image)->getBuffer().str();
  if (std::string fault = findFault(bytes); !fault.empty())
    return polyrank::Error{fault};
  return bytes;
}
