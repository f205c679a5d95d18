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
    aten::Role role = spec.kind == Kind::Parameter ? aten::Role::Parameter
                      : isStored                   ? aten::Role::Buffer
                                                   : aten::Role::Constant;
    if (std::string why = aten::explainType(*stored, role); !why.empty())
      return Error{archive.path() + ": `" + spec.target + "` " + why};
    state.entries.push_back({spec.target, std::move(*stored), role});
    state.names.push_back(spec.argument.text);
    state.areTransient.push_back(spec.kind == Kind::Buffer && !isStored);
  }
  return state;
}

} // namespace polyrank::frontends::exported_program
