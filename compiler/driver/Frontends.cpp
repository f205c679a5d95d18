// The formats of model files: detects a file's format, and imports it.

#include "compiler/driver/Frontends.h"

#include "frontends/exported_program/Import.h"
#include "frontends/onnx/Describe.h"
#include "frontends/onnx/Import.h"
#include "frontends/torchscript/Import.h"
#include "mlir/IR/Diagnostics.h"
#include "support/File.h"
#include "support/ZipFile.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::driver;

/// Detects the format of an archive: torch.export.save writes the graph as
/// JSON, torch.jit.save writes code. The TorchScript reader rejects other
/// archives, with an error that says what is missing.
static Result<ModelFormat> findArchive(InputFile file,
                                       const std::string &path) {
  POLYRANK_ASSIGN(
      zip, ZipFile::open(std::make_shared<const InputFile>(std::move(file)),
                         "a model"));
  for (const ZipMember &member : zip.members()) {
    StringRef name(member.name);
    StringRef inner = name.split('/').second;
    if (name == "serialized_exported_program.json" ||
        inner == "archive_format" || inner.starts_with("data/aotinductor/") ||
        (inner.starts_with("models/") && inner.ends_with(".json")))
      return ModelFormat::ExportedProgram;
  }
  if (!zip.members().empty() &&
      llvm::all_of(zip.members(), [](const ZipMember &member) {
        return StringRef(member.name).ends_with(".npy");
      }))
    return Error{"'" + path +
                 "' is a set of NumPy arrays; export the model with "
                 "torch.onnx.export(model, inputs, ...), torch.export.save or "
                 "torch.jit.save"};
  return ModelFormat::TorchScript;
}

Result<ModelFormat> polyrank::driver::findFormat(const std::string &path) {
  POLYRANK_ASSIGN(file, InputFile::open(path));
  char start[4] = {};
  bool isZip = file.size() >= sizeof(start) &&
               file.readAt(0, start, sizeof(start)) &&
               StringRef(start, sizeof(start)) == "PK\x03\x04";
  if (isZip)
    return findArchive(std::move(file), path);
  if (StringRef(path).ends_with(".onnx"))
    return ModelFormat::Onnx;
  return Error{
      "'" + path +
      "' is no ONNX file (.onnx), no file of torch.export.save and no "
      "TorchScript archive; export the model with torch.onnx.export(..., "
      "dynamo=True, optimize=False), torch.export.save(torch.export.export("
      "model, inputs), FILE) or torch.jit.trace(model, inputs).save(FILE)"};
}

/// The error for options that have no effect on files of this format; empty if
/// there are none.
static std::string findUseless(ModelFormat format,
                               const frontends::ImportOptions &options) {
  if (format == ModelFormat::Onnx && options.trainingMode)
    return std::string(*options.trainingMode ? "--train" : "--eval") +
           ": the layers of an ONNX file have no mode; --dropout and "
           "--batch-norm say what they do";
  if (format != ModelFormat::Onnx && !options.params.empty())
    return "--params: files of torch.jit and torch.export keep all parameters "
           "and their names; leave the option out";
  return "";
}

OwningOpRef<ModuleOp>
polyrank::driver::importModel(MLIRContext &context, const std::string &path,
                              const frontends::ImportOptions &options) {
  auto format = findFormat(path);
  if (!format) {
    emitError(UnknownLoc::get(&context)) << format.error().message;
    return {};
  }
  if (std::string useless = findUseless(*format, options); !useless.empty()) {
    emitError(UnknownLoc::get(&context)) << useless;
    return {};
  }
  if (*format == ModelFormat::TorchScript)
    return frontends::importTorchScript(context, path, options);
  if (*format == ModelFormat::ExportedProgram)
    return frontends::importExportedProgram(context, path, options);
  return frontends::importOnnx(context, path, options);
}

Result<frontends::ModelDescription>
polyrank::driver::describeModel(const std::string &path,
                                const frontends::ImportOptions &options) {
  POLYRANK_ASSIGN(format, findFormat(path));
  if (format != ModelFormat::Onnx && !options.params.empty())
    return Error{findUseless(format, options)};
  switch (format) {
  case ModelFormat::TorchScript:
    return frontends::describeTorchScript(path, options);
  case ModelFormat::ExportedProgram:
    return frontends::describeExportedProgram(path, options);
  case ModelFormat::Onnx:
    return frontends::describeOnnx(path, options);
  }
  llvm_unreachable("covered switch");
}
