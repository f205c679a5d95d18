// One rank's end of the communicator of several machines.
//
// Ranks of one machine meet in the control page, as in shm. A group that
// crosses machines has an entry in the page of each of them, in which a member
// on another machine stands like any other: it tells each machine what it
// starts, and whoever gets the message writes it into the page. So operations
// begin and end, and ranks wait for each other, as they do on one machine.
//
// What moves between machines is done by a thread of each rank, the wire
// thread, once all members have started the operation. Then all outputs may be
// written, and what comes needs no room but its own. Small operations are over
// by then: starts carry the inputs, and whoever hears of the last start on a
// machine does the work for the outputs there.

#pragma once

#include "runtime/comm/net/TcpWire.h"
#include "runtime/comm/net/WirePage.h"
#include "runtime/comm/shm/ShmCommunicator.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace polyrank::runtime::net {

/// The same as shm's, with another name.
inline constexpr CommunicatorProperties netProperties = fullProperties("net");

class NetCommunicator : public shm::ShmCommunicator, private WireUser {
public:
  static Result<std::unique_ptr<Communicator>>
  attach(std::span<const int> descriptors, JobMember &job,
         const PlanHash &program);
  ~NetCommunicator() override;

private:
  using Bytes = std::vector<std::byte>;
  /// The most bytes of a value that go into one frame.
  static constexpr uint64_t valuePiece = 1 << 18;
  /// The copies that one rank makes of one other rank's data.
  struct Incoming {
    int member = 0; // the source
    WorkRow row;    // its parts
    uint32_t pieces = 0, next = 0;
    std::vector<int> takers; // members of this machine whose outputs it is for
  };
  /// A range of the elements of a sum, which goes along the machines.
  struct Unit {
    uint32_t number = 0;
    int64_t begin = 0, end = 0;
    uint32_t pieces = 0, nextResult = 0;
    /// The elements of the last stage's only member go to the stage before it,
    /// which adds them last.
    bool isTurned = false;
    std::vector<size_t> path;          // stages, as a sum goes along them
    std::vector<int> resultPath;       // machines, as a result does
    std::vector<uint32_t> nextPartial; // by place in `path`
  };
  /// An operation that this rank has started and that crosses machines, as the
  /// wire thread knows it.
  struct WireTask : OwnedTask {
    using OwnedTask::OwnedTask;

    uint64_t key = 0; // of the group
    uint32_t floatMode = 0;
    bool hasSent = false; // its sends are under way
    /// The frames that it still sends and receives, and its sums of borders.
    uint64_t left = 0;
    /// By machine: its members, ascending.
    std::map<int, std::vector<int>> members;
    std::vector<Incoming> incoming; // of copies and of borders
    uint64_t bordersLeft = 0;       // pieces of borders
    /// By member: what has come of its widened blocks.
    std::map<int, std::pair<Bytes, std::vector<shm::BufferOffsets>>> borders;
    /// The stages of a sum: members that follow each other in the group and are
    /// on one machine.
    struct Stage {
      int machine = 0;
      std::vector<int> members;
    };
    std::vector<Stage> stages;
    std::vector<int64_t> starts; // of the transfers in the elements
    std::vector<Unit> units;     // of which this rank does something
  };
  /// Bytes of a piece, which has an owner unless they lie in a buffer of the
  /// operation.
  struct Piece {
    std::span<const std::byte> bytes;
    std::shared_ptr<const Bytes> owner;
  };
  /// A channel, as its sender describes it to its receiver.
  struct ChannelMessage {
    uint64_t bytes, offset;
    uint32_t slots, firstRecord;
  };
  /// The `record.carried` bytes of the inputs follow it in its frame.
  struct StartMessage {
    shm::OperationRecord record;
    uint64_t exchanged;
    int64_t linkTime;
    uint32_t member;
  };
  struct PendingStart {
    LocalGroup *group;
    uint64_t operation;
    StartMessage message;
    Bytes carried;
  };

  NetCommunicator(JobMember &job, WirePage page, const RankMachines &machines);

  // Called in the rank's thread; TellMachines.cpp
  Result<void> join(std::span<const int> files, const PlanHash &program);
  Result<void> makeWire(const TcpOptions &options, const JobKey &key,
                        Descriptor listener);
  Result<void> awaitPeers();
  void hasCreated(const LocalGroup &group) override;
  void hasOpened(const OpenChannel &channel) override;
  void hasStarted(const Operation &operation,
                  const shm::OperationRecord &record) override;
  void hasBegun(const LocalGroup &group) const override;
  void hasEnded(const LocalGroup &group) const override;
  std::byte *carriedBy(const Task &operation, int member) const override;
  void hasMoved(const OpenChannel &channel, uint64_t bytes,
                bool isGiven) override;
  void takeArrived() override;
  void stillWaits(uint64_t word) override;
  JobMember::Presence presenceOf(int rank) const override;
  std::string describeAbsence(int rank) const override;
  uint64_t waitingOf(int rank) const override;
  std::vector<int> findBlockers(int rank, uint64_t word) override;
  std::string describeWait(int rank) const override;
  bool isCertain(const std::vector<std::pair<int, uint64_t>> &circle) override;
  /// Calls a function as the wire thread does: at once, unless that is at work
  /// and calls it itself.
  void post(std::function<void()> what);
  void takePosted();
  /// Wakes the wire thread of a rank of this machine.
  void ringWire(int rank) const;

  // The wire thread; WireThread.cpp
  void run();
  /// Does what can be done now, until the wire has to be waited for.
  Result<void> work();
  bool hasMore() const;
  /// Does something as the wire thread does, which goes on with what is left to
  /// do. Returns false if that is at work itself.
  bool tryWire(const std::function<Result<void>()> &what);
  void failWire(const Error &error);
  void tellAbort();
  void leave();
  bool hasLeft() const;
  int partnerOn(int machine, const LocalGroup *group) const;
  /// Sends bytes to a rank, of a kind that has few.
  void sendBytes(int peer, const Frame &frame, const void *data, size_t size);
  void sendToMachines(const LocalGroup *group, const Frame &frame,
                      const Piece &body);

  // WireUser; MirrorMessages.cpp
  Result<std::byte *> placeOf(int peer, const Frame &frame) override;
  Result<void> arrived(int peer, const Frame &frame) override;
  void sent(const std::shared_ptr<void> &token) override;
  void connected(int peer, uint32_t process) override;
  void gone(int peer, const std::string &why) override;
  Error wrong(int peer, const Frame &frame, const std::string &what) const;
  Result<void> addGroup(int peer, const Frame &frame, const Bytes &body);
  Result<void> addStart(int peer, const Frame &frame, const Bytes &body);
  Result<void> applyStarts();
  Result<void> completeFarStart(const Operation &operation, int member);
  Result<void> addChannel(int peer, const Frame &frame, const Bytes &body);
  Result<std::byte *> slotFor(int peer, const Frame &frame);
  Result<void> addValue(int peer, const Frame &frame, const Bytes &body);
  Result<void> freeSlot(int peer, const Frame &frame, const Bytes &body);
  void ringChannel(shm::ChannelHeader &header) const;

  // Sends one operation's data to one rank piece by piece, whenever the
  // connection has room.
  struct Stream {
    uint32_t next = 0, pieces = 0;
    std::function<void(uint32_t piece)> send;
  };
  void pump();

  // WirePlans.cpp
  /// Finds what this rank has to send and to receive.
  void plan(WireTask &task) const;
  void planCopies(WireTask &task) const;
  void planSums(WireTask &task) const;
  void planBorders(WireTask &task) const;
  /// The part of a source's data that a member takes; empty if nothing has to
  /// be sent.
  WorkRow rowOf(const WireTask &task, int source, int taker) const;
  bool takes(const WireTask &task, int taker, int source) const;
  /// Finds the ways of a sum, for which `isTurned` is known, and of its result.
  void planPaths(const WireTask &task, Unit &unit) const;
  /// How many frames of each piece of a unit this rank sends and receives.
  uint64_t framesOf(const WireTask &task, const Unit &unit) const;
  /// The member of a machine that works on a unit.
  int handlerOf(const WireTask &task, int machine, uint32_t unit) const;
  /// The same for the stage at a place of the unit's path.
  int handlerAt(const WireTask &task, const Unit &unit, size_t place) const {
    return handlerOf(task, task.stages[unit.path[place]].machine, unit.number);
  }
  int machineOf(const WireTask &task, int member) const {
    return machines.machineOf(task.group->ranks[member]);
  }

  // WireWork.cpp
  void advance();
  void sendAll(const std::shared_ptr<WireTask> &task);
  void sendRow(const std::shared_ptr<WireTask> &task, WorkRow row,
               FrameKind kind, int target);
  /// The members to which this rank sends copies, with what it sends.
  std::vector<std::pair<int, WorkRow>> copiesFrom(const WireTask &task) const;
  Frame frameOf(const WireTask &task, FrameKind kind, uint32_t unit,
                uint32_t piece, uint16_t stage) const;
  void sendPiece(const std::shared_ptr<WireTask> &task, int rank,
                 const Frame &frame, Piece piece);
  std::shared_ptr<WireTask> taskOf(uint64_t key, uint64_t operation) const;
  Result<std::byte *> placeOfPiece(int peer, const Frame &frame);
  void addPiece(int peer, const Frame &frame);
  /// Where a piece can be received because its bytes lie there as they come.
  std::byte *bufferOf(WireTask &task, const Frame &frame) const;
  /// Elements [from, to) of a member's output, if they are neighbours.
  std::byte *outputOf(const WireTask &task, int member, int64_t from,
                      int64_t to) const;
  /// The members of this machine that a result is for.
  std::vector<int> takersOf(const WireTask &task, const Unit &unit) const;
  void addCopy(WireTask &task, const Frame &frame, const Piece &piece);
  Incoming *incomingOf(WireTask &task, const Frame &frame) const;
  Unit *unitOf(WireTask &task, const Frame &frame) const;
  /// The bytes that this rank expects in the frame's piece; nothing if it
  /// expects another piece, or none.
  std::optional<uint64_t> expectedBytes(WireTask &task, int peer,
                                        const Frame &frame) const;

  // WireSums.cpp
  void addPartial(const std::shared_ptr<WireTask> &task, const Frame &frame,
                  const Piece &piece);
  void addResult(const std::shared_ptr<WireTask> &task, const Frame &frame,
                 const Piece &piece);
  /// Adds this machine's members of a stage, which is at that place of the
  /// unit's path, to a piece of a sum.
  void sumPiece(const std::shared_ptr<WireTask> &task, const Unit &unit,
                size_t place, uint32_t piece, const std::byte *before);
  void deliver(const std::shared_ptr<WireTask> &task, const Unit &unit,
               uint32_t piece, Piece result, size_t place);
  void addBorders(WireTask &task);

  WirePage page;
  RankMachines machines;
  std::vector<Descriptor> bells; // by rank of this machine
  std::unique_ptr<Wire> wire;
  std::vector<int> far; // the ranks of other machines
  /// By rank, of those on other machines.
  /// @{
  struct FarRank {
    std::atomic<JobMember::Presence> presence = JobMember::Presence::Expected;
    std::atomic<uint32_t> process = 0;
    // Written by the wire thread; `why` the rank is gone comes before
    // `presence`.
    std::string why;
    bool leaves = false; // it has said so
  };
  std::vector<FarRank> farRanks;
  /// @}

  /// Held by who uses the wire, or what the wire thread uses. Nobody waits for
  /// it but the wire thread.
  std::mutex wireMutex;
  mutable std::mutex mutex; // of what follows
  std::condition_variable changed;
  std::vector<std::function<void()>> inbox;
  int connectedPeers = 0;
  std::optional<Error> failure; // of the wire
  std::atomic<bool> ends = false;
  std::thread wireThread;

  // Used by the rank's thread.
  bool hasTold = false; // what it waits for
  uint64_t beats = 0;
  std::vector<std::pair<int, uint64_t>> suspected;
  std::vector<uint64_t> suspectedBeats;

  // Used by who holds `wireMutex`.
  std::map<uint64_t, LocalGroup> foreign; // groups of others, by key
  std::deque<PendingStart> pending;
  std::map<std::pair<int, uint64_t>, uint32_t> channelNumbers; // of senders
  std::map<std::pair<int, uint64_t>, shm::ChannelHeader *> outgoing;
  std::vector<std::shared_ptr<WireTask>> tasks;
  std::vector<std::deque<Stream>> streams; // by rank
  std::vector<Bytes> bodies;               // of control messages, by rank
  /// By rank, what arrives: in memory of its own, or in an operation's buffer.
  /// @{
  std::vector<std::shared_ptr<Bytes>> pieces;
  std::vector<std::byte *> buffers;
  /// @}
  std::vector<bool> hasSaidBye; // by rank
  bool hasToldAbort = false, hasSentLeave = false;
};

} // namespace polyrank::runtime::net
