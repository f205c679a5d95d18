// Tells torchrun why a task has failed.

#pragma once

#include "support/Result.h"

namespace polyrank::runtime {

/// Writes the error into the file that TORCHELASTIC_ERROR_FILE names, from
/// which torchrun takes the root cause that it shows. Does nothing without the
/// variable; that the file cannot be written is no failure of its own, since
/// the error is on standard error too.
void writeErrorFile(const Error &error);

} // namespace polyrank::runtime
