// Pictures as SVG text.

#pragma once

#include <string>
#include <utility>
#include <vector>

namespace polyrank {

/// A picture that is drawn from left to right and top to bottom, in pixels.
/// Text may be any UTF-8; XML's special characters are escaped.
class Svg {
public:
  Svg(double width, double height, const std::string &title);

  struct Style {
    std::string fill = "none", stroke = "none";
    double opacity = 1;
  };
  /// `tip` is the tooltip in a browser; may be empty.
  void rectangle(double x, double y, double width, double height,
                 const Style &style, const std::string &tip = "");
  void line(double x1, double y1, double x2, double y2,
            const std::string &stroke, bool dashed = false);
  /// A closed shape.
  void polygon(const std::vector<std::pair<double, double>> &points,
               const Style &style);
  struct Pen {
    std::string colour;
    double width = 1;
    std::string dashes{}; // lengths on and off: "6 3"; empty: none
    double opacity = 1;
  };
  /// An open line through all points.
  void polyline(const std::vector<std::pair<double, double>> &points,
                const Pen &pen);
  void dot(double x, double y, double radius, const Style &style);
  enum class Anchor { Start, Middle, End };
  void text(double x, double y, const std::string &text, double size = 12,
            Anchor anchor = Anchor::Start, bool bold = false);

  /// The complete file.
  std::string finish() const { return body + "</svg>\n"; }

private:
  std::string body;
};

} // namespace polyrank
