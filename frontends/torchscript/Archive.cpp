// A TorchScript file: its object graph, its constants and its code.

#include "frontends/torchscript/Archive.h"

#include <algorithm>
#include <charconv>

namespace polyrank::frontends::torchscript {

using archive::PickleValue;
using Kind = PickleValue::Kind;

namespace {

/// The largest pickle and file of code that are read, in bytes.
constexpr uint64_t maxPickle = 1 << 30, maxCode = 64 << 20;

constexpr const char *wayOut =
    "; export the model with torch.jit.trace(model, inputs).save(FILE) or "
    "torch.jit.script(model).save(FILE), or with torch.export.save or "
    "torch.onnx.export";

std::string textOf(const std::vector<std::byte> &bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

} // namespace

Result<void> Archive::findRoot() {
  auto fail = [&](const std::string &what) {
    return Error{path() + ": " + what};
  };
  for (const ZipMember &member : zip.members()) {
    size_t slash = member.name.find('/');
    if (slash == std::string::npos)
      return fail("is a zip archive with the member '" + member.name +
                  "' beside all folders, as no TorchScript file has one" +
                  wayOut);
    std::string folder = member.name.substr(0, slash + 1);
    if (root.empty())
      root = folder;
    if (folder != root)
      return fail("has the folders '" + root + "' and '" + folder +
                  "', where a TorchScript file has one");
  }
  auto hasFolder = [&](const std::string &folder) {
    return std::any_of(zip.members().begin(), zip.members().end(),
                       [&](const ZipMember &member) {
                         return member.name.starts_with(root + folder);
                       });
  };
  bool isMobile = zip.find(root + "bytecode.pkl") != nullptr;
  if (!zip.find(root + "data.pkl"))
    return fail("has no data.pkl and is no TorchScript file" +
                std::string(wayOut));
  if (!hasFolder("code/") || !zip.find(root + "constants.pkl"))
    return isMobile
               ? fail("is a TorchScript file for mobile devices "
                      "(_save_for_lite_interpreter), which has bytecode and no "
                      "code" +
                      std::string(wayOut))
               : fail("is what torch.save writes: tensors (a state dict) or a "
                      "pickled Python module, but no graph" +
                      std::string(wayOut));
  return {};
}

Result<void> Archive::readVersion() {
  const ZipMember *old = zip.find(root + "version"),
                  *recent = zip.find(root + ".data/version");
  auto fail = [&](const std::string &what) {
    return Error{path() + ": " + what};
  };
  if (!old == !recent)
    return fail(old ? "states its version twice" : "states no version");
  POLYRANK_ASSIGN(bytes, zip.read(old ? *old : *recent, 64));
  std::string text = textOf(bytes);
  const char *end = text.data() + text.size();
  auto [rest, problem] = std::from_chars(text.data(), end, version);
  if (problem != std::errc() || version < 1 ||
      std::any_of(rest, end, [](char c) { return c != '\n' && c != ' '; }))
    return fail("states a version that is no number");
  if (version > newestVersion)
    return fail("has version " + std::to_string(version) +
                " of the format; up to " + std::to_string(newestVersion) +
                " is understood, which PyTorch 1.12 to 2.14 write");
  if (const ZipMember *order = zip.find(root + "byteorder")) {
    POLYRANK_ASSIGN(bytes, zip.read(*order, 64));
    if (textOf(bytes) != "little")
      return fail("has tensors in '" + textOf(bytes) +
                  "' byte order; save the model on a little-endian machine");
  }
  return {};
}

Result<archive::Pickle> Archive::readPickle(const std::string &name) const {
  const ZipMember *member = zip.find(root + name);
  POLYRANK_ASSIGN(bytes, zip.read(*member, maxPickle));
  return archive::Pickle::read(bytes, path() + ", '" + member->name + "'",
                               getBudget());
}

Result<std::unique_ptr<Archive>> Archive::open(const std::string &path) {
  POLYRANK_ASSIGN(file, InputFile::open(path));
  POLYRANK_ASSIGN(zip,
                  ZipFile::open(std::make_shared<InputFile>(std::move(file)),
                                "a zip archive"));
  std::unique_ptr<Archive> result(new Archive(std::move(zip)));
  if (auto done = result->findRoot(); !done)
    return done.error();
  if (auto done = result->readVersion(); !done)
    return done.error();
  POLYRANK_ASSIGN(data, result->readPickle("data.pkl"));
  if (!data.root().is(Kind::Object))
    return Error{path + ": data.pkl holds " + describe(data.root()) +
                 " and no module" + wayOut};
  result->data = std::move(data);
  POLYRANK_ASSIGN(constants, result->readPickle("constants.pkl"));
  if (!constants.root().is(Kind::Tuple))
    return Error{path + ": constants.pkl holds " + describe(constants.root()) +
                 ", not a tuple"};
  result->constants = std::move(constants);
  if (result->zip.find(result->root + "traced_inputs.pkl")) {
    POLYRANK_ASSIGN(traced, result->readPickle("traced_inputs.pkl"));
    result->traced = std::move(traced);
  }
  return result;
}

const PickleValue *Archive::getTracedInputs() const {
  return traced ? traced->root().find("forward") : nullptr;
}

Result<archive::StoredTensor>
Archive::locate(const archive::PickledTensor &tensor, Folder folder,
                const std::string &name) const {
  constexpr const char *names[] = {"data/", "constants/", "traced_inputs/"};
  return archive::locate(zip, root + names[int(folder)], tensor, name);
}

std::string Archive::memberOf(const std::string &module) const {
  std::string name = module;
  std::replace(name.begin(), name.end(), '.', '/');
  return root + "code/" + name + ".py";
}

Result<const Archive::Code *> Archive::codeOf(const std::string &module) const {
  auto [found, isNew] = codes.try_emplace(module);
  if (!isNew)
    return static_cast<const Code *>(found->second.get());
  std::string name = memberOf(module);
  const ZipMember *member = zip.find(name);
  if (!member)
    return static_cast<const Code *>(nullptr);
  POLYRANK_ASSIGN(bytes, zip.read(*member, maxCode));
  POLYRANK_ASSIGN(file,
                  SourceFile::parse(textOf(bytes), path() + ", '" + name + "'",
                                    getBudget()));
  auto code = std::make_unique<Code>();
  code->file = std::move(file);
  if (const ZipMember *debug = zip.find(name + ".debug_pkl")) {
    POLYRANK_ASSIGN(bytes, zip.read(*debug, maxPickle));
    std::string where = path() + ", '" + debug->name + "'";
    POLYRANK_ASSIGN(pickle, archive::Pickle::read(bytes, where, getBudget()));
    POLYRANK_ASSIGN(info,
                    DebugInfo::read(std::move(pickle), where, getBudget()));
    code->debug = std::move(info);
  }
  found->second = std::move(code);
  return static_cast<const Code *>(found->second.get());
}

/// Splits a name such as "__torch__.nn.Linear" into "__torch__.nn" and
/// "Linear".
static std::pair<std::string, std::string> split(const std::string &name) {
  size_t dot = name.rfind('.');
  if (dot == std::string::npos)
    return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

Result<Archive::Found<Class>>
Archive::findClass(const std::string &name) const {
  auto [module, leaf] = split(name);
  POLYRANK_ASSIGN(code, codeOf(module));
  if (!code)
    return Found<Class>{};
  auto found = code->file.classes.find(leaf);
  if (found == code->file.classes.end())
    return Found<Class>{};
  return Found<Class>{&found->second, &code->file, module};
}

Result<Archive::Found<Function>>
Archive::findFunction(const std::string &name) const {
  auto [module, leaf] = split(name);
  POLYRANK_ASSIGN(code, codeOf(module));
  if (!code)
    return Found<Function>{};
  auto found = code->file.functions.find(leaf);
  if (found == code->file.functions.end())
    return Found<Function>{};
  return Found<Function>{&found->second, &code->file, module};
}

SourceLine Archive::sourceOf(const std::string &module, uint32_t offset) const {
  auto found = codes.find(module);
  if (found == codes.end() || !found->second)
    return {};
  if (auto line = found->second->debug.find(offset))
    return *line;
  return {memberOf(module), found->second->file.lineOf(offset)};
}

} // namespace polyrank::frontends::torchscript
