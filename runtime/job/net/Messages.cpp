// The fields of each message, in their order.

#include "runtime/job/net/Messages.h"

#include "runtime/job/net/Wire.h"

#include <fmt/format.h>
#include <utility>

namespace polyrank::runtime::net {
namespace {

using Bounds = MessageBounds;

template <class Archive>
void fields(Archive &archive, RankReport &report) {
  archive.choice(report.phase, RankPhase::Left);
  archive.integer(report.pid);
  archive.integer(report.step);
  archive.integer(report.command);
  archive.integer(report.issued.step);
  archive.integer(report.issued.command);
  archive.flag(report.isBeside);
  archive.integer(report.operation);
  archive.flag(report.waiting);
  archive.integer(report.beats);
}

template <class Archive>
void fields(Archive &archive, RemoteRank &rank) {
  archive.integer(rank.pid);
  archive.flag(rank.running);
  archive.integer(rank.state);
  archive.integer(rank.awaitedNanoseconds);
  fields(archive, rank.report);
  archive.choice(rank.wait.what, RankWait::What::Barrier);
  archive.list(rank.wait.ranks, Bounds::blockers, sizeof(int32_t),
               [](auto &each, int &blocker) { each.integer(blocker); });
  archive.integer(rank.barriers);
}
/// A RemoteRank takes at least so many bytes.
constexpr size_t leastOfRank = 68;

template <class Archive>
void fields(Archive &archive, NodeStatement &statement) {
  archive.integer(statement.protocol);
  archive.text(statement.version, Bounds::word);
  archive.integer(statement.plan);
  archive.text(statement.cpu, Bounds::words);
  archive.text(statement.settings, Bounds::words);
  archive.text(statement.data, Bounds::word);
  archive.text(statement.resumed, Bounds::word);
  archive.integer(statement.ranks);
  archive.integer(statement.memory);
  archive.integer(statement.openFiles);
}

template <class Archive>
void fields(Archive &archive, JoinMessage &message) {
  fields(archive, message.statement);
  archive.text(message.address, Bounds::word);
}

template <class Archive>
void fields(Archive &archive, StartMessage &message) {
  archive.integer(message.machine);
  archive.integer(message.start);
  archive.list(message.machines, Bounds::machines, 28,
               [](auto &each, StartMessage::Machine &machine) {
                 each.text(machine.address, Bounds::word);
                 each.integer(machine.firstRank);
                 each.integer(machine.ranks);
                 each.integer(machine.memory);
                 each.integer(machine.openFiles);
               });
}

template <class Archive>
void fault(Archive &archive, Error::Fault &fault) {
  archive.choice(fault, Error::Fault::NotFinite);
  if constexpr (Archive::isReader)
    if (fault < Error::Fault::Input)
      archive.fail();
}

template <class Archive>
void fields(Archive &archive, RefuseMessage &message) {
  archive.text(message.reason, Bounds::text);
  fault(archive, message.fault);
}

template <class Archive>
void fields(Archive &archive, NodePulse &pulse) {
  archive.integer(pulse.answer.round);
  archive.integer(pulse.answer.begun);
  archive.integer(pulse.firstRank);
  archive.list(pulse.ranks, Bounds::ranks, leastOfRank,
               [](auto &each, RemoteRank &rank) { fields(each, rank); });
  archive.list(pulse.awaited, Bounds::awaited, 12,
               [](auto &each, NodePulse::Awaited &awaited) {
                 each.integer(awaited.rank);
                 each.integer(awaited.nanoseconds);
               });
  if constexpr (Archive::isReader)
    if (pulse.firstRank > Bounds::ranks - pulse.ranks.size())
      archive.fail();
}

template <class Archive>
void fields(Archive &archive, CoordinatorPulse &pulse) {
  archive.integer(pulse.order.round);
  archive.choice(pulse.order.phase, FrontierOrder::Phase::Stop);
  archive.integer(pulse.order.step);
  archive.integer(pulse.order.signal);
}

template <class Archive>
void fields(Archive &archive, PingMessage &message) {
  archive.integer(message.sent);
}

template <class Archive>
void fields(Archive &archive, PongMessage &message) {
  archive.integer(message.sent);
  archive.integer(message.at);
}

template <class Archive>
void fields(Archive &archive, FailMessage &message) {
  archive.integer(message.failure.machine);
  archive.integer(message.failure.rank);
  archive.text(message.failure.error.message, Bounds::text);
  fault(archive, message.failure.error.fault);
  archive.flag(message.failure.fromOutside);
  archive.integer(message.failure.signal);
  archive.integer(message.failure.begun);
  archive.flag(message.isFinal);
}

template <class Archive>
void fields(Archive &archive, TellMessage &message) {
  archive.list(
      message.lines, Bounds::lines, sizeof(uint32_t),
      [](auto &each, std::string &line) { each.text(line, Bounds::text); });
}

template <class Archive>
void fields(Archive &archive, StopMessage &message) {
  archive.integer(message.signal);
}

template <class Archive>
void fields(Archive &archive, DoneMessage &message) {
  archive.integer(message.begun);
  archive.integer(message.status);
}

template <class Archive>
void fields(Archive &archive, RanksMessage &message) {
  archive.integer(message.first);
  archive.list(message.ranks, Bounds::ranks, leastOfRank,
               [](auto &each, RemoteRank &rank) { fields(each, rank); });
}

template <class Archive>
void fields(Archive &archive, BarrierMessage &message) {
  archive.integer(message.number);
  archive.integer(message.lastToCome);
}

template <class Archive>
void fields(Archive &archive, WindowMessage &message) {
  archive.integer(message.offset);
  archive.blob(message.bytes, Bounds::filled);
}

template <class Archive>
void fields(Archive &archive, ReportsMessage &message) {
  archive.list(message.parts, Bounds::lines, 9,
               [](auto &each, ReportsMessage::Part &part) {
                 each.integer(part.rank);
                 each.flag(part.isLast);
                 each.text(part.text, Bounds::text);
               });
}

template <class Archive>
void fields(Archive &archive, ExchangeMessage &message) {
  archive.integer(message.number);
  archive.list(
      message.texts, Bounds::machines, sizeof(uint32_t),
      [](auto &each, std::string &text) { each.text(text, Bounds::text); });
}

template <class Archive>
void fields(Archive &archive, AgainMessage &message) {
  archive.integer(message.incarnation);
}

template <class Archive>
void fields(Archive &archive, FewerMessage &message) {
  archive.integer(message.machines);
  archive.integer(message.machine);
}

template <size_t... index>
Result<Message> decodeOneOf(uint16_t kind, std::span<const uint8_t> body,
                            std::index_sequence<index...>) {
  WireReader reader(body);
  Message message;
  bool known = ((kind == index + 1 &&
                 (fields(reader, message.emplace<index>()), true)) ||
                ...);
  if (!known)
    return Error{fmt::format("a message of kind {}, which this version does "
                             "not know",
                             kind),
                 Error::Fault::Rank};
  if (!reader.isDone())
    return Error{fmt::format("a {} of {} bytes that is {}", nameOfKind(kind),
                             body.size(),
                             reader.hasFailed() ? "cut or out of its bounds"
                                                : "too long"),
                 Error::Fault::Rank};
  return message;
}

} // namespace

const char *nameOfKind(uint16_t kind) {
  constexpr const char *names[] = {
      "JoinMessage",      "StartMessage",  "RefuseMessage",  "NodePulse",
      "CoordinatorPulse", "PingMessage",   "PongMessage",    "FailMessage",
      "TellMessage",      "StopMessage",   "DoneMessage",    "RanksMessage",
      "BarrierMessage",   "WindowMessage", "ReportsMessage", "ExchangeMessage",
      "AgainMessage",     "FewerMessage"};
  static_assert(std::size(names) == numKinds);
  return kind >= 1 && kind <= numKinds ? names[kind - 1] : "unknown message";
}

std::vector<uint8_t> encode(const Message &message) {
  WireWriter writer;
  std::visit(
      [&](const auto &body) {
        auto copy = body; // the same functions read and write
        fields(writer, copy);
      },
      message);
  return std::move(writer.bytes);
}

Result<Message> decode(uint16_t kind, std::span<const uint8_t> body) {
  if (body.size() > Bounds::body)
    return Error{fmt::format("a message of {} bytes, and the most is {}",
                             body.size(), Bounds::body),
                 Error::Fault::Rank};
  return decodeOneOf(kind, body, std::make_index_sequence<numKinds>());
}

} // namespace polyrank::runtime::net
