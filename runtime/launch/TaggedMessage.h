// How messages of ranks to their launcher are written: each type has a kind.

#pragma once

#include "support/Result.h"

#include <algorithm>
#include <array>
#include <exception>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>

namespace polyrank::runtime {

/// A message on its way. Its line is {"KIND": BODY} without a line break.
struct TaggedMessage {
  std::string kind;
  nlohmann::json body;

  std::string line() const;
  /// Fails unless the line is an object with one member.
  static Result<TaggedMessage> parse(std::string_view line);
};

/// The kinds of the alternatives of a variant, in their order. Each alternative
/// has the functions to_json and from_json; the latter throws for a body that
/// it cannot read.
template <class Variant>
using MessageKinds = std::array<std::string_view, std::variant_size_v<Variant>>;

template <class Variant>
TaggedMessage toTagged(const Variant &message,
                       const MessageKinds<Variant> &kinds) {
  return std::visit(
      [&](const auto &body) {
        return TaggedMessage{std::string(kinds[message.index()]), body};
      },
      message);
}

template <size_t size>
bool isOneOf(const TaggedMessage &message,
             const std::array<std::string_view, size> &kinds) {
  return std::find(kinds.begin(), kinds.end(), message.kind) != kinds.end();
}

/// Returns the message of its type. Fails if its kind is none of `kinds`, or if
/// its body lacks a field or has one of another type.
template <class Variant, size_t index = 0>
Result<Variant> fromTagged(const TaggedMessage &message,
                           const MessageKinds<Variant> &kinds) {
  if constexpr (index == std::variant_size_v<Variant>) {
    return Error{fmt::format("sends a message of the kind '{}', which its "
                             "launcher does not know",
                             message.kind),
                 Error::Fault::Rank};
  } else {
    if (message.kind != kinds[index])
      return fromTagged<Variant, index + 1>(message, kinds);
    using Body = std::variant_alternative_t<index, Variant>;
    try {
      return Variant(std::in_place_index<index>,
                     message.body.template get<Body>());
    } catch (const std::exception &wrong) {
      return Error{fmt::format("sends a message of the kind '{}' that its "
                               "launcher cannot read: {}",
                               message.kind, wrong.what()),
                   Error::Fault::Rank};
    }
  }
}

} // namespace polyrank::runtime
