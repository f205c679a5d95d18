// Joins neighbouring coordinates.

#include "support/Places.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace polyrank {
namespace {

struct Place {
  std::string_view axis;
  int64_t coordinate = 0;
};

/// The place "AXIS=NUMBER"; none for other texts.
std::optional<Place> parse(std::string_view text) {
  size_t equal = text.find('=');
  if (equal == std::string_view::npos)
    return std::nullopt;
  Place place{text.substr(0, equal)};
  const char *end = text.data() + text.size();
  auto [stop, error] =
      std::from_chars(text.data() + equal + 1, end, place.coordinate);
  if (error != std::errc() || stop != end)
    return std::nullopt;
  return place;
}

} // namespace

std::string joinPlaces(std::span<const std::string> places) {
  std::string text;
  std::string_view axis; // of the places before
  for (size_t i = 0; i < places.size(); ++i) {
    if (!text.empty())
      text += ", ";
    std::optional<Place> first = parse(places[i]);
    if (!first) {
      text += places[i];
      axis = {};
      continue;
    }
    size_t last = i;
    for (; last + 1 < places.size(); ++last) {
      std::optional<Place> next = parse(places[last + 1]);
      if (!next || next->axis != first->axis ||
          next->coordinate != first->coordinate + int64_t(last + 1 - i))
        break;
    }
    text += first->axis == axis ? std::to_string(first->coordinate) : places[i];
    if (last > i)
      text += (last == i + 1 ? ", " : " to ") +
              std::to_string(first->coordinate + int64_t(last - i));
    axis = first->axis;
    i = last;
  }
  return text;
}

} // namespace polyrank
