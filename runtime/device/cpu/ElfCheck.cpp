// Parses the ELF image by hand; every offset is checked against its size.

#include "runtime/device/cpu/ElfCheck.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank::runtime {
namespace {

// Sorted. The float variant of each (expf) is allowed too.
constexpr std::string_view mathFunctions[] = {
    "acos", "acosh", "asin",     "asinh",     "atan",  "atan2", "atanh",
    "cbrt", "ceil",  "copysign", "cos",       "cosh",  "erf",   "erfc",
    "exp",  "exp2",  "expm1",    "fabs",      "floor", "fma",   "fmax",
    "fmin", "fmod",  "log",      "log10",     "log1p", "log2",  "nearbyint",
    "pow",  "rint",  "round",    "roundeven", "sin",   "sinh",  "sqrt",
    "tan",  "tanh",  "trunc"};
constexpr std::string_view memoryFunctions[] = {"memcmp", "memcpy", "memmove",
                                                "memset"};

// The entries of the dynamic section that a plain shared object has.
constexpr int64_t allowedTags[] = {
    DT_PLTRELSZ, DT_PLTGOT,   DT_HASH,     DT_STRTAB,    DT_SYMTAB,
    DT_RELA,     DT_RELASZ,   DT_RELAENT,  DT_STRSZ,     DT_SYMENT,
    DT_SONAME,   DT_SYMBOLIC, DT_PLTREL,   DT_DEBUG,     DT_JMPREL,
    DT_BIND_NOW, DT_FLAGS,    DT_GNU_HASH, DT_RELACOUNT, DT_FLAGS_1};

class Image {
public:
  explicit Image(std::span<const uint8_t> bytes) : bytes(bytes) {}

  Result<void> check() {
    if (!checkHeader() || !checkSegments() || !checkDynamic() ||
        !checkRelocations(DT_RELA, DT_RELASZ) ||
        !checkRelocations(DT_JMPREL, DT_PLTRELSZ))
      return Error{"the plan's kernels are refused: " + reason};
    return {};
  }

private:
  bool fail(std::string why) {
    reason = std::move(why);
    return false;
  }

  template <typename T>
  bool read(uint64_t offset, T &value) const {
    if (offset > bytes.size() || sizeof(T) > bytes.size() - offset)
      return false;
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return true;
  }

  /// Finds the file offset of `size` bytes that are mapped at `address`.
  bool locate(uint64_t address, uint64_t size, uint64_t &offset) const {
    for (const Elf64_Phdr &load : loads)
      if (address >= load.p_vaddr && address - load.p_vaddr <= load.p_filesz &&
          size <= load.p_filesz - (address - load.p_vaddr)) {
        offset = load.p_offset + (address - load.p_vaddr);
        return true;
      }
    return false;
  }

  bool checkHeader() {
    if (!read(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
      return fail("they are no ELF image");
    if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_X86_64)
      return fail("they are for machine " + std::to_string(header.e_machine) +
                  ", this is x86-64 (" + std::to_string(EM_X86_64) + ")");
    if (header.e_type != ET_DYN)
      return fail("ELF type " + std::to_string(header.e_type) +
                  " is no shared object (3)");
    if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 ||
        header.e_phnum > 64)
      return fail("ELF header: " + std::to_string(header.e_phnum) +
                  " segments of " + std::to_string(header.e_phentsize) +
                  " bytes");
    return true;
  }

  bool checkSegments() {
    constexpr uint64_t maxMemory = uint64_t(1) << 31, pageSize = 4096;
    for (int number = 0; number < header.e_phnum; ++number) {
      Elf64_Phdr segment;
      if (header.e_phoff > bytes.size() ||
          !read(header.e_phoff + number * sizeof(segment), segment))
        return fail("the table of segments is outside the image");
      switch (segment.p_type) {
      case PT_LOAD:
        if (segment.p_offset > bytes.size() ||
            segment.p_filesz > bytes.size() - segment.p_offset ||
            segment.p_memsz < segment.p_filesz || segment.p_memsz == 0 ||
            segment.p_memsz > maxMemory || segment.p_vaddr > maxMemory)
          return fail("segment " + std::to_string(number) +
                      " is outside the image");
        if ((segment.p_flags & PF_W) && (segment.p_flags & PF_X))
          return fail("segment " + std::to_string(number) +
                      " is writable code");
        // The loader maps whole pages, a later segment over an earlier one, so
        // segments must not share pages: else it would map other bytes than
        // those checked here.
        if ((segment.p_vaddr - segment.p_offset) % pageSize != 0 ||
            (!loads.empty() &&
             segment.p_vaddr / pageSize <=
                 (loads.back().p_vaddr + loads.back().p_memsz - 1) / pageSize))
          return fail("segments overlap or are out of order at segment " +
                      std::to_string(number));
        loads.push_back(segment);
        break;
      case PT_DYNAMIC:
        if (dynamic.p_type == PT_DYNAMIC)
          return fail("two dynamic segments");
        dynamic = segment;
        break;
      case PT_GNU_STACK:
        if (segment.p_flags & PF_X)
          return fail("they ask for an executable stack");
        break;
      case PT_NULL:
      case PT_NOTE:
      case PT_PHDR:
      case PT_GNU_EH_FRAME:
      case PT_GNU_RELRO:
      case PT_GNU_PROPERTY:
        break;
      default:
        return fail("segment type " + std::to_string(segment.p_type) +
                    " (interpreter, thread-local storage or unknown)");
      }
    }
    if (dynamic.p_type != PT_DYNAMIC)
      return fail("they have no dynamic segment");
    return true;
  }

  bool checkDynamic() {
    uint64_t offset;
    if (!locate(dynamic.p_vaddr, dynamic.p_filesz, offset) ||
        offset != dynamic.p_offset)
      return fail("the dynamic segment is not loaded");
    bool ended = false;
    for (uint64_t at = 0; !ended; at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      if (at + sizeof(entry) > dynamic.p_filesz || !read(offset + at, entry))
        return fail("the dynamic segment has no end");
      if (entry.d_tag == DT_NULL) {
        ended = true;
        continue;
      }
      if (std::find(std::begin(allowedTags), std::end(allowedTags),
                    entry.d_tag) == std::end(allowedTags))
        return fail(describeTag(entry.d_tag));
      if (!values.emplace(entry.d_tag, entry.d_un.d_val).second)
        return fail("dynamic entry " + std::to_string(entry.d_tag) +
                    " occurs twice");
    }
    if (!values.count(DT_STRTAB) || !values.count(DT_STRSZ) ||
        !values.count(DT_SYMTAB))
      return fail("they have no dynamic symbols");
    if (!locate(values[DT_STRTAB], values[DT_STRSZ], strings) ||
        values[DT_STRSZ] == 0 || bytes[strings + values[DT_STRSZ] - 1] != '\0')
      return fail("the table of names is outside the image");
    return true;
  }

  static std::string describeTag(int64_t tag) {
    switch (tag) {
    case DT_NEEDED:
      return "they depend on another library (DT_NEEDED)";
    case DT_INIT:
    case DT_INIT_ARRAY:
    case DT_PREINIT_ARRAY:
      return "they have a constructor";
    case DT_FINI:
    case DT_FINI_ARRAY:
      return "they have a destructor";
    case DT_TEXTREL:
      return "they relocate code (DT_TEXTREL)";
    default:
      return "dynamic entry " + std::to_string(tag) + " is not allowed";
    }
  }

  bool checkRelocations(int64_t tableTag, int64_t sizeTag) {
    if (!values.count(tableTag))
      return true;
    uint64_t size = values.count(sizeTag) ? values[sizeTag] : 0, offset;
    if (size % sizeof(Elf64_Rela) != 0 ||
        !locate(values[tableTag], size, offset))
      return fail("a table of relocations is outside the image");
    for (uint64_t at = 0; at < size; at += sizeof(Elf64_Rela)) {
      Elf64_Rela relocation;
      if (!read(offset + at, relocation) || !checkRelocation(relocation))
        return false;
    }
    return true;
  }

  bool checkRelocation(const Elf64_Rela &relocation) {
    uint32_t type = ELF64_R_TYPE(relocation.r_info);
    if (type == R_X86_64_IRELATIVE)
      return fail("they have a resolver (IFUNC), which runs when loaded");
    if (type != R_X86_64_RELATIVE && type != R_X86_64_GLOB_DAT &&
        type != R_X86_64_JUMP_SLOT && type != R_X86_64_64)
      return fail("relocation type " + std::to_string(type) +
                  " is not allowed");
    bool inside = false;
    for (const Elf64_Phdr &load : loads)
      inside |= (load.p_flags & PF_W) && relocation.r_offset >= load.p_vaddr &&
                load.p_memsz >= 8 &&
                relocation.r_offset - load.p_vaddr <= load.p_memsz - 8;
    if (!inside)
      return fail("a relocation writes outside the writable segments");
    uint64_t number = ELF64_R_SYM(relocation.r_info), offset;
    if (number == 0)
      return type == R_X86_64_RELATIVE || fail("a relocation names no symbol");
    Elf64_Sym symbol;
    if (!locate(values[DT_SYMTAB] + number * sizeof(symbol), sizeof(symbol),
                offset) ||
        !read(offset, symbol) || symbol.st_name >= values[DT_STRSZ])
      return fail("symbol " + std::to_string(number) + " is outside the image");
    const char *name =
        reinterpret_cast<const char *>(bytes.data() + strings + symbol.st_name);
    if (ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC)
      return fail("symbol '" + std::string(name) + "' is a resolver");
    if (symbol.st_shndx == SHN_UNDEF && !isAllowedSymbol(name))
      return fail("they call '" + std::string(name) +
                  "', which kernels may not");
    return true;
  }

  std::span<const uint8_t> bytes;
  std::string reason;
  Elf64_Ehdr header{};
  Elf64_Phdr dynamic{};
  std::vector<Elf64_Phdr> loads;
  std::map<int64_t, uint64_t> values; // of the dynamic section
  uint64_t strings = 0;
};

} // namespace

bool isAllowedSymbol(const char *name) {
  std::string_view symbol = name;
  auto isMath = [](std::string_view function) {
    return std::find(std::begin(mathFunctions), std::end(mathFunctions),
                     function) != std::end(mathFunctions);
  };
  if (isMath(symbol) ||
      (symbol.ends_with('f') && isMath(symbol.substr(0, symbol.size() - 1))))
    return true;
  return std::find(std::begin(memoryFunctions), std::end(memoryFunctions),
                   symbol) != std::end(memoryFunctions);
}

Result<void> checkKernelImage(std::span<const uint8_t> image) {
  return Image(image).check();
}

} // namespace polyrank::runtime
