// The commands of polyrank, each of which is a tool of its own.

#pragma once

namespace polyrank {

/// Replaces this process by the tool of the command: `polyrank run a.plan` by
/// `polyrank-run a.plan`, and `polyrank help run` by `polyrank-run --help`. The
/// tool is the file beside this program. Returns only if no tool was started:
/// 0 once help, the version or a document was printed (as without arguments),
/// or 1 after an error, such as a command that does not exist.
int runCommand(int argc, char **argv);

} // namespace polyrank
