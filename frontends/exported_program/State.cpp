// Parameters, buffers and constants of a program.

#include "frontends/exported_program/State.h"

namespace polyrank::frontends::exported_program {

Result<State> findState(const Archive &archive) {
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
    if (!aten::isSupported(stored->type))
      return Error{archive.path() + ": `" + spec.target + "` is " +
                   archive::nameOf(stored->type) +
                   ", which is not supported; convert it to float32 or int64"};
    state.entries.push_back({spec.target, std::move(*stored),
                             spec.kind == Kind::Parameter
                                 ? aten::Role::Parameter
                             : isStored ? aten::Role::Buffer
                                        : aten::Role::Constant});
    state.names.push_back(spec.argument.text);
    state.areTransient.push_back(spec.kind == Kind::Buffer && !isStored);
  }
  return state;
}

} // namespace polyrank::frontends::exported_program
