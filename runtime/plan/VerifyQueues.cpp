// Verifies the queues of commands: each runs on a queue of its kind, and what
// has one order for several ranks is on one queue.
//
// The ranks of one program start everything in the same order, so any of their
// collectives may share a queue. Other programs have an order of their own:
// what is exchanged with them has a queue for itself, on which nothing of
// another order can be before it.

#include "runtime/plan/CommandText.h"
#include "runtime/plan/ProgramGroups.h"
#include "runtime/plan/Verifier.h"

#include <map>
#include <tuple>

namespace polyrank::runtime {

using namespace plan;

bool PlanVerifier::verifyQueue(const std::string &what,
                               const Command &command) {
  uint32_t queue = command.queue(), count = program->communication_queues();
  if (queue >= firstCommunicationQueue + count)
    return fail("{}: runs on queue {}, and the program has queues 0 to {}",
                what, queue, firstCommunicationQueue + count - 1);
  bool computes = isComputed(command) || command.body_as_Wait();
  if (computes && queue != computeQueue)
    return fail("{}: {} on queue {}, and only queue {} does", what,
                isComputed(command) ? "computes" : "waits", queue,
                computeQueue);
  if (!computes && queue < firstCommunicationQueue)
    return fail("{}: communicates on queue {}, and only queues from {} on do",
                what, queue, firstCommunicationQueue);
  return true;
}

/// The queues of one program.
class PlanVerifier::QueueWalk {
public:
  QueueWalk(PlanVerifier &verifier, const ProgramGroups &groups,
            uint32_t number)
      : verifier(verifier), groups(groups), number(number),
        program(*verifier.plan.programs()->Get(number)),
        users(program.communication_queues()) {}

  bool verify();

private:
  /// What has one order: the collectives of a group, or all that goes in one
  /// direction between two of its ranks (for collectives -1).
  using Stream = std::tuple<ProgramGroups::Key, int64_t, int64_t>;
  /// The first command of a stream.
  struct First {
    uint32_t queue;
    std::string what, name;
    bool isAlone; // others of its queue would be of another order
  };

  bool verify(const std::string &what, const Command &command);
  std::pair<Stream, std::string> streamOf(const Command &command) const;

  PlanVerifier &verifier;
  const ProgramGroups &groups;
  uint32_t number;
  const Program &program;
  std::map<Stream, First> streams;
  std::vector<const First *> users; // of each communication queue, the first
};

std::pair<PlanVerifier::QueueWalk::Stream, std::string>
PlanVerifier::QueueWalk::streamOf(const Command &command) const {
  auto linkOf = [&](const auto &end) {
    return std::pair(
        Stream(groups.keyOf(number, end.group()), end.from(), end.to()),
        fmt::format("what goes over {} from {} to {}",
                    groups.describe(number, end.group()), end.from(),
                    end.to()));
  };
  if (const Send *send = command.body_as_Send())
    return linkOf(*send);
  if (const Receive *receive = command.body_as_Receive())
    return linkOf(*receive);
  uint32_t group = command.body_as_Collective()->group();
  return {Stream(groups.keyOf(number, group), -1, -1),
          "the collectives of " + groups.describe(number, group)};
}

bool PlanVerifier::QueueWalk::verify(const std::string &what,
                                     const Command &command) {
  auto [stream, name] = streamOf(command);
  const Collective *collective = command.body_as_Collective();
  bool isAlone = !collective || groups.spans(number, collective->group());
  auto [at, isNew] = streams.insert(
      {std::move(stream), {command.queue(), what, name, isAlone}});
  const First &first = at->second;
  if (first.queue != command.queue())
    return verifier.fail("{}: runs on queue {}, and {} on queue {}: {} must be "
                         "on one queue",
                         what, command.queue(), first.what, first.queue,
                         first.name);
  const First *&user = users[command.queue() - firstCommunicationQueue];
  if (!user)
    user = &first;
  if (user != &first && (user->isAlone || isAlone))
    return verifier.fail("{}: runs on queue {}, as {} does: {} and {} are not "
                         "in one order on all ranks, and must have queues of "
                         "their own",
                         what, command.queue(), user->what, user->name, name);
  return true;
}

bool PlanVerifier::QueueWalk::verify() {
  for (const Segment *segment : *program.segments())
    for (uint64_t c = 0; segment->commands() && c < segment->commands()->size();
         ++c) {
      const Command &command = *segment->commands()->Get(uint32_t(c));
      if (command.queue() >= firstCommunicationQueue &&
          !verify(describe(*segment, c), command))
        return false;
    }
  for (size_t queue = 0; queue < users.size(); ++queue)
    if (!users[queue])
      return verifier.fail("no command runs on queue {}, the last of which is "
                           "{}",
                           firstCommunicationQueue + queue,
                           firstCommunicationQueue + users.size() - 1);
  return true;
}

bool PlanVerifier::verifyQueues() {
  Mesh mesh(plan);
  ProgramGroups groups(plan, mesh);
  for (uint32_t number = 0; number < plan.programs()->size(); ++number) {
    if (QueueWalk(*this, groups, number).verify())
      continue;
    if (plan.programs()->size() > 1)
      message = "at " +
                describePlaces(mesh, plan.programs()->Get(number)->at()) +
                ": " + message;
    return false;
  }
  return true;
}

} // namespace polyrank::runtime
