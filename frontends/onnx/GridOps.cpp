// Imports GridSample.

#include "frontends/emit/GridSample.h"
#include "frontends/onnx/NodeImporter.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

LogicalResult importGridSample(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  StringRef mode = n.getString("mode", n.since < 20 ? "bilinear" : "linear");
  StringRef where = n.getString("padding_mode", "zeros");
  auto found = llvm::StringSwitch<std::optional<GridMode>>(mode)
                   .Cases({"linear", "bilinear"}, GridMode::Linear)
                   .Case("nearest", GridMode::Nearest)
                   .Cases({"cubic", "bicubic"}, GridMode::Cubic)
                   .Default(std::nullopt);
  if (!found)
    return n.fail("its mode `" + mode + "`");
  auto padding = llvm::StringSwitch<std::optional<GridPadding>>(where)
                     .Case("zeros", GridPadding::Zeros)
                     .Case("border", GridPadding::Border)
                     .Case("reflection", GridPadding::Reflection)
                     .Default(std::nullopt);
  if (!padding)
    return n.fail("its padding_mode `" + where + "`");
  auto result =
      gridSample(n.emit, n.operand(0), n.operand(1),
                 {*found, *padding, n.getInt("align_corners", 0) != 0});
  if (failed(result))
    return failure();
  n.result(0, *result);
  return success();
}

const OpRow rows[] = {
    {"", "GridSample", 16, importGridSample},
    {"", "GridSample", 20, importGridSample},
};

} // namespace

ArrayRef<OpRow> getGridRows() { return rows; }

} // namespace polyrank::frontends::onnx
