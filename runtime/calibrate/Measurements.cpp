// The least and the median of times, and measurements as JSON.

#include "runtime/calibrate/Measurements.h"

#include <algorithm>

namespace polyrank::runtime {

using nlohmann::json;

Timing Timing::of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {seconds.front(), seconds[seconds.size() / 2]};
}

namespace {

json toJson(const Timing &timing) { return {timing.least, timing.median}; }
Timing timingOf(const json &pair) {
  return {pair.at(0).get<double>(), pair.at(1).get<double>()};
}

} // namespace

void to_json(json &object, const Measurements &measured) {
  object = {
      {"devices", measured.devices},       {"threads", measured.threads},
      {"launch", toJson(measured.launch)}, {"host", toJson(measured.host)},
      {"products", json::array()},         {"additions", json::array()},
      {"collectives", json::array()}};
  for (const auto &[work, seconds] : measured.products)
    object["products"].push_back(
        {{"elements", int(work.elements)},
         {"result", int(work.result)},
         {"size", {work.batch, work.m, work.n, work.k}},
         {"transposed", {work.transposeA, work.transposeB}},
         {"seconds", toJson(seconds)}});
  for (const auto &[work, seconds] : measured.additions)
    object["additions"].push_back(
        {{"elements", work.elements}, {"seconds", toJson(seconds)}});
  for (const auto &[kind, members, bytes, seconds] : measured.collectives)
    object["collectives"].push_back({{"kind", int(kind)},
                                     {"members", members},
                                     {"bytes", bytes},
                                     {"seconds", toJson(seconds)}});
}

void from_json(const json &object, Measurements &measured) {
  measured.devices = object.at("devices").get<int>();
  measured.threads = object.at("threads").get<int>();
  measured.launch = timingOf(object.at("launch"));
  measured.host = timingOf(object.at("host"));
  measured.products.clear();
  for (const json &one : object.at("products")) {
    const json &size = one.at("size"), &transposed = one.at("transposed");
    ProductTrial work;
    work.elements = ElementType(one.at("elements").get<int>());
    work.result = ElementType(one.at("result").get<int>());
    size.at(0).get_to(work.batch);
    size.at(1).get_to(work.m);
    size.at(2).get_to(work.n);
    size.at(3).get_to(work.k);
    transposed.at(0).get_to(work.transposeA);
    transposed.at(1).get_to(work.transposeB);
    measured.products.push_back({work, timingOf(one.at("seconds"))});
  }
  measured.additions.clear();
  for (const json &one : object.at("additions"))
    measured.additions.push_back(
        {{one.at("elements").get<int64_t>()}, timingOf(one.at("seconds"))});
  measured.collectives.clear();
  for (const json &one : object.at("collectives"))
    measured.collectives.push_back({CollectiveKind(one.at("kind").get<int>()),
                                    one.at("members").get<int64_t>(),
                                    one.at("bytes").get<uint64_t>(),
                                    timingOf(one.at("seconds"))});
}

} // namespace polyrank::runtime
