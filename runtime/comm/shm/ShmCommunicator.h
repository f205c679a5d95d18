// One rank's end of the shared-memory communicator.

#pragma once

#include "runtime/comm/RowCopies.h"
#include "runtime/comm/shm/ShmMemory.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace polyrank::runtime::shm {

class ShmCommunicator : public Communicator {
public:
  static Result<std::unique_ptr<Communicator>>
  attach(std::span<const int> descriptors, JobMember &job,
         const ProgramDigest &program);
  ~ShmCommunicator() override;

  Result<void>
  registerMemory(std::shared_ptr<const DeviceMemory> memory) override;
  Result<Group> createGroup(std::span<const int32_t> ranks,
                            const LinkTime &link) override;
  Result<void> check(const Collective &collective) override;
  Result<Request> start(const Collective &collective, Events after) override;
  Result<Arrival> wait(const Request &request) override;
  Result<ChannelEnd> openChannel(const Channel &channel) override;
  Result<Arrival> send(ChannelEnd end, DeviceSpan value, Events after,
                       const SendTimes &times) override;
  Result<Arrival> receive(ChannelEnd end, DeviceSpan into, Events after,
                          const ReceiveTime &freed) override;
  Result<std::vector<uint64_t>> exchange(Group group, uint64_t value) override;
  void setParallelFor(ParallelFor parallelFor) override;
  void setCommThreads(int count) override;
  CommunicatorStatistics statistics() const override { return counters; }

protected:
  /// A rank's registered memory in this process.
  struct Arena {
    std::byte *base = nullptr;
    uint64_t size = 0;
    bool isReached = false;
  };
  struct LocalGroup {
    uint32_t entry = 0; // in the control page
    int me = 0;         // this rank's member number
    std::vector<int32_t> ranks;
    uint64_t operations = 0; // started by this rank
    bool isReached = false;  // the memory of all members of this machine
    /// The members that are on this machine, ascending.
    std::vector<int> near;
    LinkTime link;
    /// When the link to each member has delivered what was sent so far.
    std::map<uint32_t, int64_t> linkFreeAt;

    int members() const { return static_cast<int>(ranks.size()); }
    /// True if it has members on other machines.
    bool crosses() const { return near.size() < ranks.size(); }
  };

  /// The work of one owner as a linear range [begin, end): the elements of its
  /// part of a reduction, or the bytes that it copies. The range is cut into
  /// `pieces` of `size`. Copies and transfers begin at `starts`, whose last
  /// entry is the end.
  struct WorkRow {
    struct Part {
      RowCopy copy;
      size_t transfer = 0;
    };
    int64_t begin = 0, end = 0, size = 0;
    uint32_t pieces = 0;
    std::vector<int64_t> starts;
    std::vector<Part> parts; // the copies
  };

  /// One operation of a group's ring.
  struct Task {
    Collective collective; // its transfers are those of this round
    LocalGroup *group = nullptr;
    uint64_t number = 0; // in the group
    /// How long it occupies the group's link, in picoseconds. The rounds of a
    /// collective take as long as one round of all its transfers would.
    int64_t linkTime = 0;
    bool isSmall = false; // see smallBytes
    /// Where the inputs of a member on another machine lie in what its start
    /// carries; empty if it carries nothing.
    std::vector<BufferOffsets> carriedAt;

    uint32_t slot() const { return number % ringSlots; }
    /// The slot's turn until all members have started it; see OperationSlot.
    uint32_t turn() const {
      return static_cast<uint32_t>(2 * (number / ringSlots));
    }
  };
  /// The addresses of a member's buffers in this rank's mapping.
  struct Places {
    std::byte *base;
    const BufferOffsets *ring; // of publishedTransfers
    uint32_t first;

    const BufferOffsets &at(size_t transfer) const {
      return ring[(first + transfer) % publishedTransfers];
    }
    std::byte *input(size_t transfer) const {
      return base + at(transfer).input;
    }
    std::byte *output(size_t transfer) const {
      return base + at(transfer).output;
    }
  };
  /// An operation that this rank has started.
  struct Operation : Task {
    WorkRow own;
    uint64_t exchanged = 0; // by this rank, in an exchange
    bool isExchange = false, isDone = false;
    Completion completion;
  };
  /// An operation as another thread than the rank's own knows it. It owns what
  /// the collective names, since the rank may have finished or given up the
  /// operation while that thread still looks at it.
  struct OwnedTask : Task {
    explicit OwnedTask(const Operation &operation);
    OwnedTask(const OwnedTask &) = delete;

    std::vector<Transfer> transfers;
    std::vector<int32_t> permutation;
  };
  /// An operation as communication threads know it.
  struct SharedTask : OwnedTask {
    explicit SharedTask(const Operation &operation)
        : OwnedTask(operation), own(operation.own) {}

    WorkRow own;
  };
  struct OpenCollective {
    uint64_t request = 0;
    CollectiveKind kind{};
    uint64_t bytes = 0; // that this rank sends
    std::vector<Operation> rounds;
    size_t numRounds = 0; // in use; the others are kept for their memory
  };
  /// The offsets of one operation in this rank's ring.
  struct Published {
    uint32_t entry, slot, turn; // of the operation in the control page
    uint64_t count;
  };

  /// This rank's end of a channel.
  struct OpenChannel {
    LocalGroup *group = nullptr;
    uint32_t to = 0;
    bool sends = false;
    int32_t sender = 0, peer = 0; // ranks
    uint32_t slots = 1;
    uint64_t id = 0, bytes = 0;
    uint32_t number = 0; // among the sender's channels
    ChannelHeader *header = nullptr;
    uint64_t count = 0; // values that this rank has sent or received
  };

  /// This machine has the ranks [first, first + count) of the job.
  ShmCommunicator(JobMember &job, const CommunicatorProperties &properties,
                  int first, int count)
      : Communicator(job, properties), self(job.rank()), firstNear(first),
        countNear(count) {}

  /// Maps the control page and takes over the files of Memory.
  Result<void> mapMemory(std::span<const int> descriptors,
                         const ProgramDigest &program);
  bool isNear(int rank) const {
    return rank >= firstNear && rank < firstNear + countNear;
  }

  // What a communicator over several machines adds. Members on other machines
  // have entries in this machine's control page, too: who brings their messages
  // writes into it what they would have written.

  /// A group, or this rank's end of a channel, was created.
  /// @{
  virtual void hasCreated(const LocalGroup &) {}
  virtual void hasOpened(const OpenChannel &) {}
  /// @}
  /// This rank has started an operation of a group that crosses machines.
  /// Unless it is small or an exchange, it has one piece for what this rank
  /// moves between machines, beside those that can be claimed. Called before
  /// the operation can begin.
  virtual void hasStarted(const Operation &, const OperationRecord &) {}
  /// An operation of such a group has begun, of which something moves between
  /// machines; or it has ended, and its slot is free. Called in any thread.
  /// @{
  virtual void hasBegun(const LocalGroup &) const {}
  virtual void hasEnded(const LocalGroup &) const {}
  /// @}
  /// What the start of a member on another machine has carried.
  virtual std::byte *carriedBy(const Task &, int /*member*/) const {
    return nullptr;
  }
  /// This rank has written the channel's last value, of so many bytes, to its
  /// slot, or has freed the slot of the last one. `isGiven` says that the times
  /// of the slot's record are no times of this machine's clock.
  virtual void hasMoved(const OpenChannel &, uint64_t /*bytes*/,
                        bool /*isGiven*/) {}
  /// This rank is about to sleep until others have done something, of which
  /// some are on other machines. It takes what they have sent.
  virtual void takeArrived() {}
  /// This rank still waits, as this word says; 0: it does no more.
  virtual void stillWaits(uint64_t /*word*/) {}
  virtual JobMember::Presence presenceOf(int rank) const {
    return job().presenceOf(rank);
  }
  virtual std::string describeAbsence(int rank) const {
    return job().describeAbsence(rank);
  }
  /// The word of what a rank waits for, 0 if it does not wait.
  virtual uint64_t waitingOf(int rank) const {
    return control.rank(rank).waiting.load();
  }
  /// Called for a circle that was found twice in a row: true if it is certain
  /// that all of its waits lasted at one time.
  virtual bool isCertain(const std::vector<std::pair<int, uint64_t>> &) {
    return true;
  }

  Error failed(const std::string &message);
  /// Lets this rank reach the memory of all members, for which it waits until
  /// they have registered it.
  Result<void> reach(LocalGroup &group);
  /// Maps the memory of another rank, if it has registered it within `longest`;
  /// see Arena::isReached.
  Result<void> mapArena(int rank, std::chrono::milliseconds longest);
  Result<void> awaitArena(int rank);
  Result<uint32_t> findEntry(std::span<const int32_t> ranks);
  Result<void> awaitReady(std::atomic<EntryState> &state);

  Result<OpenCollective *> startRounds(const Collective &collective);
  Result<Completion> finishRounds(OpenCollective &collective);
  Result<void> startOperation(Operation &operation,
                              const OperationRecord &record);
  Result<void> makeRoom(Operation &operation);
  void publishOffsets(Operation &operation, MemberOperation &mine);
  Result<void> completeStart(const Task &operation, int starter);
  Operation *findOpen(uint32_t entry, uint32_t slot, uint32_t turn);
  OperationSlot &slotOf(const Task &operation) const {
    return control.group(operation.group->entry).operations[operation.slot()];
  }
  MemberOperation &memberOf(const Task &operation, int member) const {
    return control.member(operation.group->entry, member)
        .operations[operation.slot()];
  }
  std::atomic<uint64_t> &claimsOf(const Task &operation, int member) const {
    return control.member(operation.group->entry, member)
        .claims[operation.slot()];
  }

  // Wait.cpp
  /// Waits for what the device still does in the background.
  Result<void> await(Events after);
  Result<void> finish(Operation &operation);
  /// An event that a rank waits for.
  struct Awaited {
    uint64_t word;                          // as RankState::waiting shows it
    std::atomic<uint32_t> &bell, &sleepers; // the futex, its sleepers
    std::function<bool()> isOver;
    std::function<Result<void>()> checkPeers; // fails if it cannot happen
    bool isFar = false; // it may come from another machine
  };
  /// Spins a moment, then sleeps. Returns whether it slept. Fails if the event
  /// cannot happen any more.
  Result<bool> await(const Awaited &awaited);
  void publishWait(uint64_t word) const;
  void wake(const Task &operation) const;
  Result<void> awaitTurn(const Operation &operation, uint32_t turn);
  Result<void> awaitLink(int64_t end);
  Result<void> checkPeers(const Operation &operation, uint32_t turn);
  /// Ranks that wait for each other in a cycle, with the words of their waits;
  /// empty if this rank is in no cycle.
  using WaitPath = std::vector<std::pair<int, uint64_t>>;
  WaitPath findCircle();
  bool extendCircle(WaitPath &path, std::vector<bool> &visited);
  /// Returns the ranks for which `rank` waits if it shows this word; none if
  /// the wait is over.
  virtual std::vector<int> findBlockers(int rank, uint64_t word);
  virtual std::string describeWait(int rank) const;
  /// What comes after "rank 3 waits at value 7 (step 2, command 5) ".
  std::string describeAwaited(uint64_t word) const;

  // Channels.cpp
  /// Returns the number of the channel among those of its sender.
  Result<uint32_t> findChannel(int32_t sender, int32_t receiver, uint64_t id);
  /// Takes the slots of a channel in which this rank sends.
  Result<void> takeSlots(const OpenChannel &channel, bool hasValues);
  TransferRecord &slotRecordOf(const OpenChannel &channel) const;
  /// The next slot. The channel's sender has opened it.
  std::byte *slotOf(const OpenChannel &channel) const;
  /// Waits until there is a slot to send to, or a value to receive.
  Result<void> awaitPeer(const OpenChannel &channel);
  /// The same for a slot. Returns when it became free; see SendTimes.
  Result<int64_t> awaitRoom(const OpenChannel &channel);
  /// The same for a value. Fails if the ends disagree on the channel.
  Result<TransferTimes> awaitValue(const OpenChannel &channel);
  Result<void> checkPeer(const OpenChannel &channel);
  bool isFor(const OpenChannel &channel, uint64_t word) const;
  void ring(const OpenChannel &channel) const;
  void copyValue(const std::byte *from, std::byte *to, uint64_t bytes) const;
  bool isOver(int rank, uint64_t word);

  // Work.cpp
  bool isSmall(const Task &operation) const;
  /// Finds `carriedAt`. Returns how many bytes the start of a member carries.
  uint64_t packInputs(Task &operation) const;
  void fillRow(const Task &operation, int owner, WorkRow &row) const;
  void workAlone(const Task &operation) const;
  /// Works on all threads of `team`, or on this thread if it is empty. Returns
  /// whether anything was left to do.
  bool work(const Task &operation, const WorkRow &own,
            const ParallelFor &team) const;
  bool claim(const Task &operation, int owner, uint32_t &left) const;
  void finishPieces(const Task &operation, uint32_t count) const;
  void workOn(const Task &operation, const WorkRow &row, int owner,
              int64_t from, int64_t to) const;
  void reducePiece(const Task &operation, const WorkRow &row, int owner,
                   int64_t from, int64_t to) const;
  void addBordersPiece(const Task &operation, const WorkRow &row,
                       std::span<const Places> places, int owner, int64_t from,
                       int64_t to) const;
  void copyPiece(const Task &operation, const WorkRow &row, int owner,
                 int64_t from, int64_t to) const;
  Places placesOf(const Task &operation, int member) const;
  std::span<const Places> allPlaces(const Task &operation) const;

  // CommThreads.cpp
  void share(const Operation &operation);
  void unshare(const Operation &operation);
  void ring(const LocalGroup &group) const;
  void help();
  void awaitBell(uint32_t bell) const;
  void stopCommThreads();

  Descriptor file; // of the control page
  /// Where this rank leaves its memory, and by rank where it takes that of
  /// others.
  Descriptor sending;
  std::vector<Descriptor> receiving;
  std::shared_ptr<const DeviceMemory> registered;
  ControlPage control;
  Job::AbortHook wakes;
  uint64_t spinNanoseconds = 0; // before a thread sleeps
  int self;
  int firstNear, countNear;  // the ranks of this machine
  std::vector<Arena> arenas; // by rank
  std::deque<LocalGroup> groups;
  std::deque<OpenChannel> channels;
  /// The channels in which this rank sends have taken so much of what is its
  /// own in the control memory.
  uint32_t usedRecords = 0;
  uint64_t usedSlotBytes = 0;
  ParallelFor threads;
  CommunicatorStatistics counters{};
  uint64_t waited = 0; // nanoseconds, in the current call
  /// Collectives that were started and not waited for, oldest first; and spare
  /// objects for further ones.
  std::vector<std::unique_ptr<OpenCollective>> open, spare;
  std::deque<Published> published;
  uint64_t requests = 0, publishedEnd = 0, publishedCount = 0;

  std::vector<std::thread> commThreads;
  std::atomic<bool> commThreadsEnd = false;
  std::mutex sharedMutex;
  /// The operations in flight, oldest first; empty without communication
  /// threads.
  std::vector<std::shared_ptr<const SharedTask>> shared;
};

} // namespace polyrank::runtime::shm
