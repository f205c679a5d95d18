// The tasks of a launcher tell each other on which machine they are, where the
// launcher itself does not say it.

#pragma once

#include "runtime/place/Interfaces.h"
#include "runtime/place/JobPlace.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

/// What a launcher offers its tasks to exchange values.
class TaskExchange {
public:
  virtual ~TaskExchange() = default;
  /// Gives a text to all tasks, and returns the texts of all, by the number of
  /// the task. Every task calls it once, and waits for the others.
  virtual Result<std::vector<std::string>> gather(const std::string &mine) = 0;
};

/// What a task tells the others.
struct MachineCard {
  std::string identity;               // see identityOfMachine
  std::vector<std::string> addresses; // without those of loopback

  bool operator==(const MachineCard &) const = default;
  std::string text() const;
  static Result<MachineCard> parse(const std::string &text);
};

/// The card of this machine. `interface` is that of --interface; empty: any.
Result<MachineCard> cardOf(const std::string &identity,
                           const std::vector<InterfaceAddress> &own,
                           const std::string &interface);

/// Completes a place that is to be exchanged by the cards of all tasks.
/// Machines are numbered in the order of their first tasks; machine 0 is where
/// task 0 is. Fails if machines have different numbers of tasks, or if no
/// address of machine 0 leads there.
Result<JobPlace> placeByCards(JobPlace place, const PlaceOptions &options,
                              const std::vector<MachineCard> &cards,
                              const std::vector<InterfaceAddress> &own);

/// Completes a place by an exchange, if it needs one.
Result<JobPlace> exchangeIfNeeded(JobPlace place, const PlaceOptions &options,
                                  const std::string &interface,
                                  TaskExchange &exchange);

} // namespace polyrank::runtime
