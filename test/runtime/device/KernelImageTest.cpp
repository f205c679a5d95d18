// The check of kernel images: each forbidden property is refused, and nothing
// past the end is read.

#include "runtime/device/cpu/ElfCheck.h"
#include "test/runtime/GuardedMemory.h"
#include "test/runtime/PlanBuilder.h"

#include <cstring>
#include <elf.h>
#include <functional>
#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

std::string refusalOf(std::span<const uint8_t> image) {
  auto checked = checkKernelImage(image);
  return checked ? "" : checked.error().message;
}

std::string refusalOfImage(const std::string &path) {
  std::string image = readFile(path);
  return refusalOf(
      {reinterpret_cast<const uint8_t *>(image.data()), image.size()});
}

TEST(KernelImage, IsRefusedForEachThingThatItMayNotHave) {
  for (auto [image, reason] : {std::pair("needed", "DT_NEEDED"),
                               {"constructor", "constructor"},
                               {"destructor", "destructor"},
                               {"resolver", "resolver"},
                               {"symbol", "'system'"},
                               {"tls", "thread-local"}}) {
    std::string message = refusalOfImage(std::string(POLYRANK_REFUSED_IMAGES) +
                                         "/refused-" + image + ".so");
    EXPECT_NE(message.find(reason), std::string::npos)
        << image << ": " << message;
  }
}

// The loader maps the later of two segments over the earlier one: what was
// checked would not be what runs.
TEST(KernelImage, IsRefusedWhereSegmentsOverlap) {
  std::vector<uint8_t> image = testKernels();
  Elf64_Ehdr header;
  std::memcpy(&header, image.data(), sizeof(header));
  std::vector<size_t> loads;
  for (int number = 0; number < header.e_phnum; ++number) {
    Elf64_Phdr segment;
    size_t at = header.e_phoff + number * sizeof(segment);
    std::memcpy(&segment, image.data() + at, sizeof(segment));
    if (segment.p_type == PT_LOAD)
      loads.push_back(at);
  }
  ASSERT_GE(loads.size(), 2u);
  std::memcpy(image.data() + loads[1], image.data() + loads[0],
              sizeof(Elf64_Phdr));
  auto checked = checkKernelImage(image);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find("overlap"), std::string::npos)
      << checked.error().message;
}

/// The image of the tests' kernels, field by field. Its segments are loaded for
/// headers, code, the dynamic section and, last, the table of the one function
/// that it calls, memset.
class Image {
public:
  std::vector<uint8_t> bytes = testKernels();

  Elf64_Ehdr &header() { return at<Elf64_Ehdr>(0); }
  /// The n-th segment of a type.
  Elf64_Phdr &segment(uint32_t type, int n = 0) {
    for (int number = 0; number < header().e_phnum; ++number) {
      auto &segment =
          at<Elf64_Phdr>(header().e_phoff + number * sizeof(Elf64_Phdr));
      if (segment.p_type == type && n-- == 0)
        return segment;
    }
    throw std::runtime_error("no such segment");
  }
  Elf64_Phdr &code() {
    for (int n = 0;; ++n)
      if (segment(PT_LOAD, n).p_flags & PF_X)
        return segment(PT_LOAD, n);
  }
  /// The segment with the addresses of functions, and the one before it.
  Elf64_Phdr &table(int before = 0) {
    int last = 0;
    while (true)
      try {
        segment(PT_LOAD, last), ++last;
      } catch (const std::runtime_error &) {
        return segment(PT_LOAD, last - 1 - before);
      }
  }
  Elf64_Dyn &dynamic(int64_t tag) {
    for (uint64_t place = segment(PT_DYNAMIC).p_offset;;
         place += sizeof(Elf64_Dyn))
      if (at<Elf64_Dyn>(place).d_tag == tag)
        return at<Elf64_Dyn>(place);
      else if (at<Elf64_Dyn>(place).d_tag == DT_NULL)
        throw std::runtime_error("no such dynamic entry");
  }
  // Headers are mapped at the addresses that are their places in the file.
  Elf64_Rela &relocation() {
    return at<Elf64_Rela>(dynamic(DT_JMPREL).d_un.d_val);
  }
  Elf64_Sym &symbol() {
    return at<Elf64_Sym>(dynamic(DT_SYMTAB).d_un.d_val +
                         ELF64_R_SYM(relocation().r_info) * sizeof(Elf64_Sym));
  }
  char *name() {
    return &at<char>(dynamic(DT_STRTAB).d_un.d_val + symbol().st_name);
  }

private:
  template <typename T>
  T &at(uint64_t offset) {
    return *reinterpret_cast<T *>(&bytes.at(offset));
  }
};

struct Lie {
  const char *name;
  std::function<void(Image &)> tell;
  const char *message; // a part of what the check must say
};

void PrintTo(const Lie &lie, std::ostream *out) { *out << lie.name; }

const uint64_t far = 1 << 20; // a whole number of pages, past the image

const Lie lies[] = {
    {"magic", [](Image &i) { i.header().e_ident[0] = 'x'; }, "no ELF image"},
    {"magicsEnd", [](Image &i) { i.header().e_ident[3] = 'x'; },
     "no ELF image"},
    {"class", [](Image &i) { i.header().e_ident[EI_CLASS] = ELFCLASS32; },
     "for machine 62"},
    {"bytesOrder", [](Image &i) { i.header().e_ident[EI_DATA] = ELFDATA2MSB; },
     "for machine 62"},
    {"machine", [](Image &i) { i.header().e_machine = EM_AARCH64; },
     "for machine 183, this is x86-64 (62)"},
    {"fileType", [](Image &i) { i.header().e_type = ET_EXEC; },
     "ELF type 2 is no shared object"},
    {"segmentSize", [](Image &i) { i.header().e_phentsize = 64; },
     "segments of 64 bytes"},
    {"noSegments", [](Image &i) { i.header().e_phnum = 0; }, " 0 segments"},
    {"manySegments", [](Image &i) { i.header().e_phnum = 65; }, "65 segments"},
    {"segmentsOutside",
     [](Image &i) { i.header().e_phoff = i.bytes.size() - 8; },
     "table of segments is outside"},
    {"segmentBehindTheImage", [](Image &i) { i.table().p_offset += far; },
     "is outside the image"},
    {"segmentBeyondTheImage",
     [](Image &i) { i.table().p_filesz = i.table().p_memsz = far; },
     "is outside the image"},
    {"segmentsMemoryTooSmall",
     [](Image &i) { i.code().p_memsz = i.code().p_filesz - 1; },
     "is outside the image"},
    {"emptySegment", [](Image &i) { i.code().p_memsz = i.code().p_filesz = 0; },
     "is outside the image"},
    {"hugeSegment",
     [](Image &i) { i.table().p_memsz = (uint64_t(1) << 31) + 1; },
     "is outside the image"},
    {"segmentAtAHugeAddress",
     [](Image &i) { i.table().p_vaddr += uint64_t(1) << 32; },
     "is outside the image"},
    {"writableCode", [](Image &i) { i.code().p_flags |= PF_W; },
     "is writable code"},
    {"executableData", [](Image &i) { i.table().p_flags |= PF_X; },
     "is writable code"},
    {"segmentOffItsPage", [](Image &i) { i.table().p_vaddr -= 8; },
     "overlap or are out of order"},
    {"segmentsThatShareAPage",
     [](Image &i) {
       Elf64_Phdr &before = i.table(1);
       before.p_memsz = i.table().p_vaddr / 4096 * 4096 + 1 - before.p_vaddr;
     },
     "overlap or are out of order"},
    {"segmentsOutOfOrder",
     [](Image &i) { std::swap(i.code(), i.segment(PT_LOAD)); },
     "overlap or are out of order"},
    {"twoDynamicSegments",
     [](Image &i) { i.segment(PT_NOTE).p_type = PT_DYNAMIC; },
     "two dynamic segments"},
    {"executableStack",
     [](Image &i) { i.segment(PT_GNU_STACK).p_flags |= PF_X; },
     "executable stack"},
    {"interpreter", [](Image &i) { i.segment(PT_NOTE).p_type = PT_INTERP; },
     "segment type 3"},
    {"threadLocal", [](Image &i) { i.segment(PT_NOTE).p_type = PT_TLS; },
     "segment type 7"},
    {"unknownSegment", [](Image &i) { i.segment(PT_NOTE).p_type = 99; },
     "segment type 99"},
    {"noDynamicSegment",
     [](Image &i) { i.segment(PT_DYNAMIC).p_type = PT_NULL; },
     "no dynamic segment"},
    {"dynamicNotLoaded", [](Image &i) { i.segment(PT_DYNAMIC).p_vaddr = far; },
     "is not loaded"},
    {"dynamicLoadedFromElsewhere",
     [](Image &i) { i.segment(PT_DYNAMIC).p_offset -= 16; }, "is not loaded"},
    {"dynamicLoadedInPart",
     [](Image &i) {
       i.segment(PT_DYNAMIC).p_filesz = i.table(1).p_filesz + 16;
     },
     "is not loaded"},
    {"dynamicWithoutEnd",
     [](Image &i) { i.segment(PT_DYNAMIC).p_filesz -= 16; }, "has no end"},
    {"needed", [](Image &i) { i.dynamic(DT_SYMENT).d_tag = DT_NEEDED; },
     "DT_NEEDED"},
    {"init", [](Image &i) { i.dynamic(DT_SYMENT).d_tag = DT_INIT; },
     "a constructor"},
    {"initArray", [](Image &i) { i.dynamic(DT_SYMENT).d_tag = DT_INIT_ARRAY; },
     "a constructor"},
    {"preinitArray",
     [](Image &i) { i.dynamic(DT_SYMENT).d_tag = DT_PREINIT_ARRAY; },
     "a constructor"},
    {"fini", [](Image &i) { i.dynamic(DT_SYMENT).d_tag = DT_FINI; },
     "a destructor"},
    {"finiArray", [](Image &i) { i.dynamic(DT_SYMENT).d_tag = DT_FINI_ARRAY; },
     "a destructor"},
    {"relocatedCode", [](Image &i) { i.dynamic(DT_SYMENT).d_tag = DT_TEXTREL; },
     "DT_TEXTREL"},
    {"searchPath", [](Image &i) { i.dynamic(DT_SYMENT).d_tag = DT_RUNPATH; },
     "dynamic entry 29 is not allowed"},
    {"otherRelocations", [](Image &i) { i.dynamic(DT_SYMENT).d_tag = DT_REL; },
     "dynamic entry 17 is not allowed"},
    {"auditor", [](Image &i) { i.dynamic(DT_SYMENT).d_tag = DT_AUDIT; },
     "is not allowed"},
    {"twoTablesOfSymbols",
     [](Image &i) { i.dynamic(DT_SYMENT).d_tag = DT_SYMTAB; },
     "dynamic entry 6 occurs twice"},
    {"noSymbols", [](Image &i) { i.dynamic(DT_SYMTAB).d_tag = DT_DEBUG; },
     "no dynamic symbols"},
    {"noNames", [](Image &i) { i.dynamic(DT_STRTAB).d_tag = DT_DEBUG; },
     "no dynamic symbols"},
    {"noSizeOfNames", [](Image &i) { i.dynamic(DT_STRSZ).d_tag = DT_DEBUG; },
     "no dynamic symbols"},
    {"namesOutside", [](Image &i) { i.dynamic(DT_STRTAB).d_un.d_val = far; },
     "table of names is outside"},
    {"namesBeyond", [](Image &i) { i.dynamic(DT_STRSZ).d_un.d_val = far; },
     "table of names is outside"},
    {"emptyNames", [](Image &i) { i.dynamic(DT_STRSZ).d_un.d_val = 0; },
     "table of names is outside"},
    {"namesWithoutEnd", [](Image &i) { i.dynamic(DT_STRSZ).d_un.d_val -= 1; },
     "table of names is outside"},
    {"relocationsOutside",
     [](Image &i) { i.dynamic(DT_JMPREL).d_un.d_val = far; },
     "a table of relocations is outside"},
    {"relocationsBeyond",
     [](Image &i) { i.dynamic(DT_PLTRELSZ).d_un.d_val = 24 * far; },
     "a table of relocations is outside"},
    {"relocationInPart",
     [](Image &i) { i.dynamic(DT_PLTRELSZ).d_un.d_val = 25; },
     "a table of relocations is outside"},
    {"resolver",
     [](Image &i) {
       i.relocation().r_info = ELF64_R_INFO(0, R_X86_64_IRELATIVE);
     },
     "a resolver (IFUNC)"},
    {"relocationType",
     [](Image &i) { i.relocation().r_info = ELF64_R_INFO(1, R_X86_64_COPY); },
     "relocation type 5 is not allowed"},
    {"relocationOfThreadLocals",
     [](Image &i) {
       i.relocation().r_info = ELF64_R_INFO(1, R_X86_64_DTPMOD64);
     },
     "relocation type 16 is not allowed"},
    {"relocationOfCode",
     [](Image &i) { i.relocation().r_offset = i.code().p_vaddr; },
     "outside the writable segments"},
    {"relocationOfHeaders", [](Image &i) { i.relocation().r_offset = 0; },
     "outside the writable segments"},
    {"relocationAnywhere", [](Image &i) { i.relocation().r_offset = far; },
     "outside the writable segments"},
    {"relocationBeforeItsSegment",
     [](Image &i) { i.relocation().r_offset = i.table().p_vaddr - 1; },
     "outside the writable segments"},
    {"relocationOverItsSegmentsEnd",
     [](Image &i) {
       i.relocation().r_offset = i.table().p_vaddr + i.table().p_memsz - 7;
     },
     "outside the writable segments"},
    {"relocationInASmallSegment",
     [](Image &i) { i.table().p_memsz = i.table().p_filesz = 4; },
     "outside the writable segments"},
    {"relocationOfTheOtherTable",
     [](Image &i) {
       i.relocation().r_offset = far;
       i.dynamic(DT_JMPREL).d_tag = DT_RELA;
       i.dynamic(DT_PLTRELSZ).d_tag = DT_RELASZ;
     },
     "outside the writable segments"},
    {"relocationWithoutSymbol",
     [](Image &i) {
       i.relocation().r_info = ELF64_R_INFO(0, R_X86_64_JUMP_SLOT);
     },
     "a relocation names no symbol"},
    {"symbolOutside",
     [](Image &i) {
       i.relocation().r_info = ELF64_R_INFO(far, R_X86_64_JUMP_SLOT);
     },
     "symbol 1048576 is outside the image"},
    {"nameOutside",
     [](Image &i) { i.symbol().st_name = i.dynamic(DT_STRSZ).d_un.d_val; },
     "symbol 1 is outside the image"},
    {"symbolThatIsAResolver",
     [](Image &i) {
       i.symbol().st_info = ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC);
     },
     "symbol 'memset' is a resolver"},
    {"symbolThatKernelsMayNotCall",
     [](Image &i) { std::memcpy(i.name(), "system", 6); },
     "they call 'system', which kernels may not"},
};

class RefusedImage : public testing::TestWithParam<Lie> {};

TEST_P(RefusedImage, SaysWhy) {
  Image image;
  ASSERT_EQ(refusalOf(image.bytes), "");
  GetParam().tell(image);
  std::string message = refusalOf(image.bytes);
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(KernelImage, RefusedImage, testing::ValuesIn(lies),
                         [](const auto &info) { return info.param.name; });

TEST(KernelImage, MayMoveAddressesOfItsOwn) {
  Image image;
  image.relocation().r_info = ELF64_R_INFO(0, R_X86_64_RELATIVE);
  EXPECT_EQ(refusalOf(image.bytes), "");
  image.relocation().r_offset = image.table().p_vaddr;
  EXPECT_EQ(refusalOf(image.bytes), "");
}

TEST(KernelImage, MayCallMathematicsAndMemoryAndNothingElse) {
  for (const char *name : {"exp", "expf", "erff", "fma", "fmaf", "tanh",
                           "memcpy", "memset", "memmove", "memcmp"})
    EXPECT_TRUE(isAllowedSymbol(name)) << name;
  for (const char *name : {"", "f", "expff", "memcpyf", "xexp", "printf",
                           "system", "mmap", "dlopen", "expl"})
    EXPECT_FALSE(isAllowedSymbol(name)) << name;
}

TEST(KernelImage, IsRefusedWhereAByteThatMattersIsDamaged) {
  Image image;
  auto check = [&](auto &field, size_t begin, size_t end, const char *what) {
    auto *bytes = reinterpret_cast<uint8_t *>(&field);
    for (size_t byte = begin; byte < end; ++byte)
      for (uint8_t flip : {0x80, 0xff}) {
        bytes[byte] ^= flip;
        EXPECT_NE(refusalOf(image.bytes), "") << what << ", byte " << byte;
        bytes[byte] ^= flip;
      }
  };
  Elf64_Ehdr &header = image.header();
  check(header.e_ident, 0, 6, "magic, class and order of bytes");
  check(header.e_type, 0, 2, "file type");
  check(header.e_machine, 0, 2, "machine");
  check(header.e_phoff, 0, 8, "place of the segments");
  check(header.e_phentsize, 0, 2, "size of a segment's header");
  check(header.e_phnum, 0, 2, "number of segments");
  for (int number = 0; number < header.e_phnum; ++number) {
    auto &segment = reinterpret_cast<Elf64_Phdr *>(image.bytes.data() +
                                                   header.e_phoff)[number];
    check(segment.p_type, 0, 4, "type of a segment");
    if (segment.p_type != PT_LOAD)
      continue;
    check(segment.p_offset, 2, 8, "offset of a segment");
    check(segment.p_vaddr, 4, 8, "address of a segment");
    check(segment.p_filesz, 2, 8, "bytes of a segment");
    check(segment.p_memsz, 4, 8, "memory of a segment");
  }
  for (int64_t tag : {DT_JMPREL, DT_PLTRELSZ, DT_SYMTAB, DT_STRTAB, DT_STRSZ}) {
    Elf64_Dyn &entry = image.dynamic(tag);
    check(entry.d_tag, 0, 8, "tag");
    check(entry.d_un.d_val, 2, 8, "what a tag says");
  }
  check(image.relocation().r_offset, 0, 8, "place of a relocation");
  check(image.relocation().r_info, 0, 8, "type and symbol of a relocation");
  check(image.symbol().st_name, 0, 4, "place of a name");
  EXPECT_EQ(refusalOf(image.bytes), "");
}

TEST(KernelImage, IsRefusedWhereItIsCutOffAndNotReadBehindItsEnd) {
  Image image;
  uint64_t loaded = image.table().p_offset + image.table().p_filesz;
  GuardedMemory memory(image.bytes.size());
  for (size_t size = 0; size < image.bytes.size(); ++size) {
    std::string message =
        refusalOf(memory.copyOf(std::span(image.bytes).first(size)));
    EXPECT_EQ(message.empty(), size >= loaded) << size << ": " << message;
  }
}

TEST(KernelImage, SurvivesEveryDamagedByte) {
  std::vector<uint8_t> good = testKernels();
  GuardedMemory memory(good.size());
  std::span<uint8_t> image = memory.copyOf(good);
  ASSERT_EQ(refusalOf(image), "");
  for (uint8_t &byte : image)
    for (uint8_t flip : {0x01, 0x80, 0xff}) {
      byte ^= flip;
      (void)checkKernelImage(image);
      byte ^= flip;
    }
}

} // namespace
} // namespace polyrank::runtime::test
