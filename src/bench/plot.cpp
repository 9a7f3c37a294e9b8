#include "bench/plot.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace martlet::bench {
namespace {

constexpr double kWidth = 640, kHeight = 320, kLeft = 64, kRight = 16, kTop = 36, kBottom = 44;
// Okabe and Ito's colours, which colour-blind readers can tell apart.
constexpr std::array<const char*, 7> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#e69f00", "#56b4e9", "#555555"};

const char* colour(size_t series) {
  return kColours[series % kColours.size()];
}

// The next 1, 2 or 5 times a power of ten that cuts `range` into at most five steps.
double tick_step(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (range / (power * factor) <= 5) return power * factor;
  }
  return power * 10;
}

struct Axes {
  double x_max = 0, y_max = 0;
  double x(double v) const { return kLeft + v / x_max * (kWidth - kLeft - kRight); }
  double y(double v) const { return kHeight - kBottom - v / y_max * (kHeight - kTop - kBottom); }
};

std::string open_svg(const Plot& plot, double height) {
  const std::string title = escape_html(plot.title);
  return fmt::format(
      "<svg viewBox='0 0 {:.0f} {:.0f}' role='img' aria-label='{}'><text class='title' x='{:.0f}' y='20'>{}</text>",
      kWidth, height, title, kLeft, title);
}

std::string grid(const Plot& plot, const Axes& axes) {
  std::string out;
  const double step = tick_step(axes.y_max);
  for (double v = 0; v <= axes.y_max * 1.0001; v += step) {
    out += fmt::format("<line class='grid' x1='{:.1f}' x2='{:.1f}' y1='{:.1f}' y2='{:.1f}'/>", kLeft, kWidth - kRight,
                       axes.y(v), axes.y(v));
    out += fmt::format("<text class='tick' text-anchor='end' x='{:.1f}' y='{:.1f}'>{}</text>", kLeft - 6, axes.y(v) + 4,
                       format_figure(v));
  }
  std::vector<double> positions;
  for (const Series& s : plot.series)
    for (const auto& [x, y] : s.points) positions.push_back(x);
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  for (const double x : positions) {
    out += fmt::format("<text class='tick' text-anchor='middle' x='{:.1f}' y='{:.1f}'>{}</text>", axes.x(x),
                       kHeight - kBottom + 16, format_figure(x));
  }
  out += fmt::format("<text class='label' text-anchor='middle' x='{:.1f}' y='{:.1f}'>{}</text>", kWidth / 2,
                     kHeight - 8, escape_html(plot.x_label));
  return out + fmt::format("<text class='label' text-anchor='end' x='{:.1f}' y='20'>{}</text>", kWidth - kRight,
                           escape_html(plot.y_label));
}

std::string legend(const Plot& plot) {
  std::string out;
  double y = kTop + 14;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    if (plot.series[i].points.empty()) continue;
    out += fmt::format("<text class='legend' style='fill:{}' x='{:.0f}' y='{:.0f}'>{}</text>", colour(i), kLeft + 10, y,
                       escape_html(plot.series[i].name));
    y += 16;
  }
  return out;
}

}  // namespace

std::string line_plot(const Plot& plot) {
  Axes axes;
  for (const Series& s : plot.series) {
    for (const auto& [x, y] : s.points) axes.x_max = std::max(axes.x_max, x), axes.y_max = std::max(axes.y_max, y);
  }
  if (axes.x_max <= 0 || axes.y_max <= 0) return {};
  axes.x_max *= 1.05;
  axes.y_max *= 1.1;
  std::string out = open_svg(plot, kHeight) + grid(plot, axes);
  for (size_t i = 0; i < plot.series.size(); ++i) {
    std::string points, dots;
    for (const auto& [x, y] : plot.series[i].points) {
      points += fmt::format("{:.1f},{:.1f} ", axes.x(x), axes.y(y));
      dots += fmt::format("<circle fill='{}' r='3.5' cx='{:.1f}' cy='{:.1f}'><title>{}: {}</title></circle>", colour(i),
                          axes.x(x), axes.y(y), escape_html(plot.series[i].name), format_figure(y));
    }
    out += fmt::format("<polyline fill='none' stroke-width='2' stroke='{}' points='{}'/>{}", colour(i), points, dots);
  }
  return out + legend(plot) + "</svg>";
}

std::string bar_plot(const Plot& plot) {
  constexpr double kBar = 26, kNames = 170;
  double longest = 0;
  for (const Series& s : plot.series) {
    if (!s.points.empty()) longest = std::max(longest, s.points[0].second);
  }
  if (longest <= 0) return {};
  std::string bars;
  double y = kTop;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    if (plot.series[i].points.empty()) continue;
    const double value = plot.series[i].points[0].second, width = value / longest * (kWidth - kNames - 150);
    bars += fmt::format("<text class='tick' text-anchor='end' x='{:.0f}' y='{:.0f}'>{}</text>", kNames - 8, y + 17,
                        escape_html(plot.series[i].name));
    bars += fmt::format("<rect fill='{}' x='{:.0f}' y='{:.0f}' width='{:.1f}' height='{:.0f}'/>", colour(i), kNames,
                        y + 4, width, kBar - 8);
    bars += fmt::format("<text class='tick' x='{:.1f}' y='{:.0f}'>{} {}</text>", kNames + width + 6, y + 17,
                        format_figure(value), escape_html(plot.y_label));
    y += kBar;
  }
  return open_svg(plot, y + 10) + bars + "</svg>";
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string format_figure(double value) {
  if (!std::isfinite(value)) return "?";
  const double size = std::abs(value);
  const int decimals =
      size == 0 || size >= 100 ? 0 : std::clamp(2 - static_cast<int>(std::floor(std::log10(size))), 0, 6);
  std::string out = fmt::format("{:.{}f}", value, decimals);
  if (out.find('.') != out.npos) {
    out.erase(out.find_last_not_of('0') + 1);
    if (out.back() == '.') out.pop_back();
  }
  return out;
}

}  // namespace martlet::bench
