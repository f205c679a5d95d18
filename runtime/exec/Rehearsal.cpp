// Replaces commands by sleeping.

#include "runtime/exec/Rehearsal.h"

#include <algorithm>
#include <ctime>
#include <sys/prctl.h>

namespace polyrank::runtime {
namespace {

constexpr int64_t nanosecond = 1000; // picoseconds

/// The end of a command that is over now.
Result<Event> ended(const Result<void> &done) {
  return done ? Result<Event>(Event::over(eventClock()))
              : Result<Event>(done.error());
}

} // namespace

class Rehearsal::Sleep : public IssuedOperation {
public:
  Sleep(Rehearsal &rehearsal, int64_t time)
      : rehearsal(rehearsal), time(time) {}

  Result<Event> issue(Invocation, Events) override {
    rehearsal.planned += time;
    return ended(rehearsal.sleepUntil(rehearsal.planned));
  }

private:
  Rehearsal &rehearsal;
  int64_t time;
};

class Rehearsal::Flight : public CollectiveOperation {
public:
  Flight(Rehearsal &rehearsal, int64_t time, const plan::Collective &source,
         Group group)
      : CollectiveOperation(source, group), rehearsal(rehearsal), time(time) {}

  Result<Event> issue(Invocation, Events) override {
    POLYRANK_ASSIGN(started, rehearsal.communicator.start(collective));
    request = started;
    isOver = false;
    rehearsal.queues[collective.queue].started.push_back(this);
    return hasRequest ? Result<Event>(request.started) : wait();
  }

  Result<Event> wait() override { return ended(rehearsal.await(*this)); }

private:
  friend Rehearsal;

  Rehearsal &rehearsal;
  int64_t time, end = 0; // picoseconds; the end since the step's begin
  bool isOver = true;
};

/// A value is sent at the planned time of the command, or when a slot became
/// free if that is later.
class Rehearsal::Sending : public TransferOperation {
public:
  Sending(Rehearsal &rehearsal, int64_t time, const Channel &channel,
          ChannelEnd end, int32_t peer)
      : TransferOperation(peer), rehearsal(rehearsal), time(time),
        queue(channel.queue), end(end) {}

  Result<Event> issue(Invocation, Events) override {
    int64_t came = 0, freed = 0;
    TransferTimes planned;
    auto times = [&](int64_t free) -> Result<TransferTimes> {
      came = rehearsal.plannedNow(), freed = free;
      if (Result<void> done = rehearsal.goOnFrom(freed); !done)
        return done.error();
      planned.sent = planned.arrives = rehearsal.plannedNow();
      if (time > 0) {
        int64_t &linkFree = rehearsal.links[queue];
        planned.arrives = linkFree =
            std::max(linkFree, planned.sent) + time / nanosecond;
      }
      return planned;
    };
    POLYRANK_ASSIGN(done, rehearsal.communicator.send(end, {}, {}, times));
    int self = rehearsal.communicator.rank();
    last = Arrival(done.event(),
                   {std::max(came, freed), freed > came ? peer : self,
                    planned.arrives, self});
    return last.event();
  }

private:
  Rehearsal &rehearsal;
  int64_t time; // picoseconds
  uint32_t queue;
  ChannelEnd end;
};

class Rehearsal::Receiving : public TransferOperation {
public:
  Receiving(Rehearsal &rehearsal, ChannelEnd end, int32_t peer)
      : TransferOperation(peer), rehearsal(rehearsal), end(end) {}

  Result<Event> issue(Invocation, Events) override {
    int64_t came = 0;
    TransferTimes sent;
    auto freed = [&](const TransferTimes &times) -> Result<int64_t> {
      came = rehearsal.plannedNow(), sent = times;
      if (Result<void> done = rehearsal.goOnFrom(times.arrives); !done)
        return done.error();
      return rehearsal.plannedNow();
    };
    POLYRANK_ASSIGN(done, rehearsal.communicator.receive(end, {}, {}, freed));
    int self = rehearsal.communicator.rank();
    last = Arrival(done.event(),
                   {std::max(came, sent.sent), sent.sent > came ? peer : self,
                    std::max(came, sent.arrives), self});
    return last.event();
  }

private:
  Rehearsal &rehearsal;
  ChannelEnd end;
};

void Rehearsal::makePunctual() { prctl(PR_SET_TIMERSLACK, 1); }

std::unique_ptr<IssuedOperation> Rehearsal::prepare(uint32_t segment,
                                                    uint32_t number) {
  return std::make_unique<Sleep>(*this, times[segment][number]);
}

std::unique_ptr<CollectiveOperation>
Rehearsal::prepare(uint32_t segment, uint32_t number,
                   const plan::Collective &source, Group group) {
  return std::make_unique<Flight>(*this, times[segment][number], source, group);
}

std::unique_ptr<TransferOperation>
Rehearsal::prepareSend(uint32_t segment, uint32_t number,
                       const Channel &channel, ChannelEnd end, int32_t peer) {
  return std::make_unique<Sending>(*this, times[segment][number], channel, end,
                                   peer);
}

std::unique_ptr<TransferOperation> Rehearsal::prepareReceive(ChannelEnd end,
                                                             int32_t peer) {
  return std::make_unique<Receiving>(*this, end, peer);
}

Result<void> Rehearsal::goOnFrom(int64_t time) {
  planned = std::max(planned, (time - begin) * nanosecond);
  return sleepUntil(planned);
}

void Rehearsal::beginStep() {
  begin = eventClock();
  planned = 0;
  for (auto &[number, queue] : queues)
    queue.freeFrom = 0;
}

/// Sleeps in parts, so that a long sleep counts as progress and the rank ends
/// with the job.
Result<void> Rehearsal::sleepUntil(int64_t picoseconds) {
  constexpr int64_t longest = 100'000'000;
  int64_t end = begin + picoseconds / nanosecond;
  for (int64_t time = eventClock(); time < end; time = eventClock()) {
    int64_t until = std::min(end, time + longest);
    timespec at{until / 1'000'000'000, until % 1'000'000'000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
    communicator.job().beat();
    if (Result<void> alive = communicator.job().health(); !alive)
      return alive;
  }
  return {};
}

/// A collective's end depends on the earlier ones of its queue. All members
/// have started these, or will before they start this one.
Result<void> Rehearsal::await(Flight &flight) {
  Queue &queue = queues[flight.collective.queue];
  while (!flight.isOver) {
    Flight &next = *queue.started.front();
    queue.started.pop_front();
    POLYRANK_ASSIGN(arrival, communicator.wait(next.request));
    Completion completion = arrival.completion();
    int64_t allStarted = (completion.started - begin) * nanosecond;
    next.end = queue.freeFrom =
        std::max(queue.freeFrom, allStarted) + next.time;
    completion.finished = begin + next.end / nanosecond;
    next.last = Arrival(arrival.event(), completion);
    next.isOver = true;
  }
  planned = std::max(planned, flight.end);
  return sleepUntil(flight.end);
}

} // namespace polyrank::runtime
