#pragma once

// SVG plots for the report: no script, no font file, nothing from a network. All text is escaped.

#include <string>
#include <string_view>
#include <vector>

namespace martlet::bench {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x ascending
};

struct Plot {
  std::string title, x_label, y_label;
  std::vector<Series> series;  // in the legend's order; one series has one colour in all plots of a page
};

// Lines with a dot at each point, y from 0. Empty series are left out; no point at all gives an empty string.
std::string line_plot(const Plot& plot);
// One horizontal bar for the first point of each series, its y as the length.
std::string bar_plot(const Plot& plot);

// `&`, `<`, `>` and quotes as entities, for text and attributes alike.
std::string escape_html(std::string_view text);
// Three significant digits, without exponents.
std::string format_figure(double value);

}  // namespace martlet::bench
