// Joins equal remarks.

#include "compiler/overlap/Remarks.h"

#include "dialects/rank/Programs.h"
#include "support/Places.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::overlap;

void Remarks::add(func::FuncOp function, std::string begin, std::string end) {
  auto same = llvm::find_if(remarks, [&](const Remark &other) {
    return other.begin == begin && other.end == end;
  });
  if (same == remarks.end()) {
    remarks.push_back({function, std::move(begin), std::move(end), {}});
    same = std::prev(remarks.end());
  }
  if (auto at = function->getAttrOfType<DictionaryAttr>(rank::placeAttrName)) {
    std::string place;
    for (NamedAttribute each : at)
      place += (place.empty() ? "" : ",") + each.getName().str() + "=" +
               std::to_string(cast<IntegerAttr>(each.getValue()).getInt());
    same->places.push_back(place);
  }
}

void Remarks::emit() {
  for (Remark &remark : remarks)
    remark.first.emitRemark()
        << remark.begin
        << (remark.places.empty() ? "" : " at " + joinPlaces(remark.places))
        << remark.end;
  remarks.clear();
}
