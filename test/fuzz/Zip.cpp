// Any bytes as a zip archive: every member of what is accepted can be read, or
// a message says why not.

#include "support/ZipFile.h"
#include "test/fuzz/Input.h"

using namespace polyrank;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string path = fuzz::writeFile("archive.pt", fuzz::text(data, size));
  auto file = InputFile::open(path);
  if (!file)
    std::abort();
  auto zip = ZipFile::open(std::make_shared<InputFile>(std::move(*file)),
                           "an archive");
  if (!zip) {
    if (zip.error().message.find(path) == std::string::npos)
      std::abort(); // a message names the file
    return 0;
  }
  for (const ZipMember &member : zip->members()) {
    if (member.compressed > size || member.offset > size - member.compressed ||
        zip->find(member.name) != &member)
      std::abort();
    auto content = zip->read(member, 16 << 20);
    if (content ? content->size() != member.size
                : content.error().message.find(path) == std::string::npos)
      std::abort();
    auto inner = member.isStored() ? ZipFile::open(zip->file(), "an archive",
                                                   member.offset, member.size)
                                   : Result<ZipFile>(Error{""});
    if (inner)
      for (const ZipMember &deeper : inner->members())
        if (deeper.offset < member.offset ||
            deeper.offset + deeper.compressed > member.offset + member.size)
          std::abort();
  }
  return 0;
}
