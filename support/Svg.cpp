// Elements of SVG 1.1.

#include "support/Svg.h"

#include <fmt/format.h>

namespace polyrank {
namespace {

/// XML allows no control characters except tab and line feed, not even escaped.
std::string escaped(const std::string &text) {
  std::string result;
  for (char c : text)
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    default:
      result += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t'
                    ? '?'
                    : c;
    }
  return result;
}

std::string attributesOf(const Svg::Style &style) {
  std::string text = fmt::format("fill=\"{}\"", style.fill);
  if (style.stroke != "none")
    text += fmt::format(" stroke=\"{}\" stroke-width=\"0.5\"", style.stroke);
  if (style.opacity < 1)
    text += fmt::format(" opacity=\"{:.2f}\"", style.opacity);
  return text;
}

} // namespace

Svg::Svg(double width, double height, const std::string &title)
    : body(fmt::format(
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" "
          "height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
          "font-family=\"sans-serif\">\n<title>{2}</title>\n"
          "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"white\"/>\n",
          width, height, escaped(title))) {}

void Svg::rectangle(double x, double y, double width, double height,
                    const Style &style, const std::string &tip) {
  body += fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" {}",
      x, y, width, height, attributesOf(style));
  body += tip.empty()
              ? std::string("/>\n")
              : fmt::format("><title>{}</title></rect>\n", escaped(tip));
}

void Svg::line(double x1, double y1, double x2, double y2,
               const std::string &stroke, bool dashed) {
  body += fmt::format("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" "
                      "y2=\"{:.2f}\" stroke=\"{}\"{}/>\n",
                      x1, y1, x2, y2, stroke,
                      dashed ? " stroke-dasharray=\"4 3\"" : "");
}

void Svg::polygon(const std::vector<std::pair<double, double>> &points,
                  const Style &style) {
  body += "<polygon points=\"";
  for (auto [x, y] : points)
    body += fmt::format("{:.2f},{:.2f} ", x, y);
  body += "\" " + attributesOf(style) + "/>\n";
}

void Svg::polyline(const std::vector<std::pair<double, double>> &points,
                   const Pen &pen) {
  body += "<polyline points=\"";
  for (auto [x, y] : points)
    body += fmt::format("{:.2f},{:.2f} ", x, y);
  body += fmt::format("\" fill=\"none\" stroke=\"{}\" stroke-width=\"{:.2f}\" "
                      "stroke-linejoin=\"round\"",
                      pen.colour, pen.width);
  if (!pen.dashes.empty())
    body += fmt::format(" stroke-dasharray=\"{}\"", pen.dashes);
  if (pen.opacity < 1)
    body += fmt::format(" opacity=\"{:.2f}\"", pen.opacity);
  body += "/>\n";
}

void Svg::dot(double x, double y, double radius, const Style &style) {
  body += fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"{:.2f}\" {}/>\n",
                      x, y, radius, attributesOf(style));
}

void Svg::text(double x, double y, const std::string &text, double size,
               Anchor anchor, bool bold) {
  const char *where = anchor == Anchor::Start    ? "start"
                      : anchor == Anchor::Middle ? "middle"
                                                 : "end";
  body += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" font-size=\"{:.0f}\" "
                      "text-anchor=\"{}\"{}>{}</text>\n",
                      x, y, size, where, bold ? " font-weight=\"bold\"" : "",
                      escaped(text));
}

} // namespace polyrank
