// Parameters, buffers and constants of a program.

#include "frontends/exported_program/State.h"

namespace polyrank::frontends::exported_program {

Result<State> findState(const Archive &archive, std::string_view bytes) {
  using Kind = InputSpec::Kind;
  State state;
  for (const InputSpec &spec : archive.getProgram().inputs) {
    bool isStored = spec.kind == Kind::Parameter ||
                    (spec.kind == Kind::Buffer && spec.persistent);
    bool isConstant = spec.kind == Kind::TensorConstant ||
                      (spec.kind == Kind::Buffer && !spec.persistent);
    if (!isStored && !isConstant)
      continue;
    auto stored = isStored ? archive.findWeight(spec.target)
                           : archive.findConstant(spec.target);
    if (!stored)
      return stored.error();
    auto type = aten::toScalarType(static_cast<int64_t>(stored->type));
    if (!type)
      return Error{archive.path() + ": `" + spec.target + "` is " +
                   archive::nameOf(stored->type) +
                   ", which is not supported; convert it to float32 or int64"};
    aten::StateEntry &entry = state.entries.emplace_back();
    entry.name = spec.target;
    entry.role = spec.kind == Kind::Parameter ? aten::Role::Parameter
                 : isStored                   ? aten::Role::Buffer
                                              : aten::Role::Constant;
    entry.requiresGrad = stored->requiresGrad;
    aten::StoredTensor &tensor = entry.tensor;
    tensor.type = *type;
    tensor.sizes = stored->sizes;
    tensor.strides = stored->strides;
    tensor.storageOffset =
        static_cast<int64_t>((stored->begin - stored->storageBegin) /
                             archive::byteSize(stored->type));
    tensor.storage = {archive.path(), stored->storageBegin,
                      stored->storageLength};
    tensor.bytes = bytes.substr(stored->storageBegin, stored->storageLength);
    state.names.push_back(spec.argument.text);
    state.areTransient.push_back(spec.kind == Kind::Buffer && !isStored);
  }
  return state;
}

} // namespace polyrank::frontends::exported_program
