// A `.pt2` file of torch.export.save: its program, and the place of its
// weights.

#include "frontends/exported_program/Archive.h"

#include <algorithm>
#include <limits>

namespace polyrank::frontends::exported_program {

/// The largest JSON member that is read, in bytes.
static constexpr uint64_t maxText = uint64_t(1) << 30;

static constexpr const char *wayOut =
    "; save the model with torch.export.save(torch.export.export(model, "
    "inputs), \"model.pt2\")";

std::optional<ElementType> typeOfNumber(int64_t exported) {
  if (exported < 0 || exported > std::numeric_limits<int>::max())
    return std::nullopt;
  return findElementType(&ElementTypeRow::exported, static_cast<int>(exported));
}

Result<std::string> Archive::read(const std::string &member) const {
  const ZipMember *found = zip.find(member);
  if (!found)
    return Error{path() + ": has no '" + member + "'" + wayOut};
  POLYRANK_ASSIGN(bytes, zip.read(*found, maxText));
  return std::string(reinterpret_cast<const char *>(bytes.data()),
                     bytes.size());
}

Result<void> Archive::readTensors(const std::string &folder,
                                  const std::string &config,
                                  const std::string &saved,
                                  Tensors &into) const {
  into.folder = folder;
  if (zip.find(config)) {
    POLYRANK_ASSIGN(text, read(config));
    POLYRANK_ASSIGN(table,
                    readPayloads(text, path() + ": " + config, getBudget()));
    into.table = std::move(table);
    return {};
  }
  const ZipMember *member = zip.find(saved);
  if (!member)
    return Error{path() + ": has neither '" + config + "' nor '" + saved + "'" +
                 wayOut};
  if (!member->isStored())
    return Error{path() + ": '" + saved +
                 "' is compressed; PyTorch stores it as it is"};
  if (member->size == 0) // nothing was saved
    return {};
  POLYRANK_ASSIGN(inner,
                  ZipFile::open(zip.file(), "an archive of torch.save",
                                member->offset, member->size, zip.budget()));
  std::string root;
  for (const ZipMember &each : inner.members())
    if (each.name.ends_with("/data.pkl"))
      root = each.name.substr(0, each.name.size() - 8);
  const ZipMember *pickle = inner.find(root + "data.pkl");
  if (!pickle)
    return Error{path() + ": '" + saved + "' has no data.pkl"};
  POLYRANK_ASSIGN(bytes, inner.read(*pickle, maxText));
  POLYRANK_ASSIGN(
      read, archive::Pickle::read(bytes, path() + ": " + saved, getBudget()));
  into.pickle = std::move(read);
  if (const archive::PickleValue &root = into.pickle.root();
      root.is(archive::PickleValue::Kind::Dict))
    // The last of equal keys counts, as in Python.
    for (size_t i = 0; i + 1 < root.elements.size(); i += 2)
      if (root.elements[i]->is(archive::PickleValue::Kind::String))
        into.pickled[root.elements[i]->text] = root.elements[i + 1];
  into.folder = root + "data/";
  into.inner = std::make_unique<ZipFile>(std::move(inner));
  return {};
}

Result<void> Archive::readProgram() {
  std::string model;
  if (zip.find("serialized_exported_program.json")) {
    model = "serialized_exported_program.json";
    auto done = readTensors("", "serialized_state_dict.json",
                            "serialized_state_dict.pt", weights);
    if (done)
      done = readTensors("", "serialized_constants.json",
                         "serialized_constants.pt", constants);
    if (!done)
      return done;
  } else {
    std::vector<std::string> models;
    std::string root;
    bool isCompiled = false;
    for (const ZipMember &member : zip.members()) {
      size_t slash = member.name.find('/');
      std::string folder =
          slash == std::string::npos ? "" : member.name.substr(0, slash + 1);
      isCompiled |= member.name.find("data/aotinductor/") != std::string::npos;
      if (!member.name.starts_with(folder + "models/") ||
          !member.name.ends_with(".json"))
        continue;
      root = folder;
      models.push_back(member.name);
    }
    if (models.empty())
      return Error{path() +
                   (isCompiled ? ": was compiled by AOTInductor and has no "
                                 "graph any more"
                               : ": has no models/*.json and is no file of "
                                 "torch.export.save") +
                   wayOut};
    if (models.size() > 1) {
      std::string list;
      for (const std::string &each : models)
        list += (list.empty() ? "'" : ", '") + each + "'";
      return Error{path() + ": has " + std::to_string(models.size()) +
                   " models, " + list + "; save each in a file of its own"};
    }
    model = models.front();
    size_t start = root.size() + 7; // behind "models/"
    std::string name = model.substr(start, model.size() - start - 5);
    std::string inWeights = root + "data/weights/",
                inConstants = root + "data/constants/";
    auto done =
        readTensors(inWeights, inWeights + name + "_weights_config.json",
                    inWeights + name + ".pt", weights);
    if (done)
      done = readTensors(inConstants,
                         inConstants + name + "_constants_config.json",
                         inConstants + name + ".pt", constants);
    if (!done)
      return done;
  }
  POLYRANK_ASSIGN(text, read(model));
  POLYRANK_ASSIGN(found, exported_program::readProgram(
                             text, path() + ": " + model, getBudget()));
  program = std::move(found);
  return {};
}

Result<std::unique_ptr<Archive>> Archive::open(const std::string &path) {
  POLYRANK_ASSIGN(file, InputFile::open(path));
  POLYRANK_ASSIGN(
      zip, ZipFile::open(std::make_shared<const InputFile>(std::move(file)),
                         "a file of torch.export.save"));
  std::unique_ptr<Archive> archive(new Archive(std::move(zip)));
  if (auto done = archive->readProgram(); !done)
    return done.error();
  return archive;
}

static std::string nameOf(const SymbolicInt &size) {
  return size.value ? std::to_string(*size.value) : size.expression;
}

Result<archive::StoredTensor> Archive::find(const Tensors &tensors,
                                            const std::string &name) const {
  auto fail = [&](const std::string &what) {
    return Error{path() + ": `" + name + "` " + what};
  };
  if (tensors.inner) {
    auto found = tensors.pickled.find(name);
    if (found == tensors.pickled.end())
      return fail("is not among the tensors of the file");
    const archive::PickleValue &value = *found->second;
    if (!value.tensor)
      return fail("is " + archive::describe(value) + ", not a tensor");
    return archive::locate(*tensors.inner, tensors.folder, *value.tensor, name);
  }
  auto found = tensors.table.find(name);
  if (found == tensors.table.end())
    return fail("is not among the tensors of the file");
  const Payload &payload = found->second;
  if (payload.isPickled || !payload.meta)
    return fail("was pickled as an object of a Python class (a tensor subclass "
                "or a custom object), which is not read; convert it to a plain "
                "tensor before the model is saved");
  const TensorMeta &meta = *payload.meta;
  auto type = typeOfNumber(meta.type);
  if (!type)
    return fail("has elements of type " + std::to_string(meta.type) +
                ", which torch.export does not have");
  std::vector<int64_t> sizes, strides;
  for (const auto &[from, into] :
       {std::pair(&meta.sizes, &sizes), std::pair(&meta.strides, &strides)})
    for (const SymbolicInt &each : *from) {
      if (!each.value)
        return fail("has the size " + nameOf(each) + ", which is no number");
      into->push_back(*each.value);
    }
  if (!meta.storageOffset.value)
    return fail("has no offset");
  auto tensor =
      archive::locate(zip, tensors.folder + payload.member, *type, sizes,
                      strides, *meta.storageOffset.value, name);
  if (tensor)
    tensor->requiresGrad = meta.requiresGrad;
  return tensor;
}

} // namespace polyrank::frontends::exported_program
