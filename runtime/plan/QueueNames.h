// Names of a program's queues, for pictures, traces and messages.

#pragma once

#include "runtime/plan/PlanMesh.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

/// Returns the names of the communication queues of a program, in the order of
/// their numbers, the first of which is firstCommunicationQueue: the axes of
/// the groups whose collectives run there ("data=2"), or the direction of what
/// is sent there ("pipe 0 to 1"). Groups and queues of the program are
/// verified.
std::vector<std::string> communicationQueueNames(const plan::Program &program,
                                                 const Mesh &mesh);

} // namespace polyrank::runtime
