#include "bench/report.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "bench/plot.h"

namespace martlet::bench {
namespace {

constexpr std::string_view kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}"
    "th,td{border-bottom:1px solid #ddd;padding:.3rem .7rem;text-align:right}"
    "th:first-child,td:first-child{text-align:left}"
    "svg{width:100%;max-width:700px;display:block;margin:1rem 0}"
    "svg text{font-size:12px;fill:#444}svg .title{font-size:15px;fill:#222}svg .legend{font-weight:600}"
    ".grid{stroke:#e5e5e5}.noise{background:#fff3cd;border:1px solid #e0c860;padding:.6rem 1rem}"
    ".bad{color:#b00020;font-weight:600}code{overflow-wrap:anywhere}"
    "@media(prefers-color-scheme:dark){body{background:#16181c;color:#ddd}svg text{fill:#bbb}svg .title{fill:#eee}"
    ".grid{stroke:#333}th,td{border-color:#333}.noise{background:#453a12;border-color:#7a6820}}";

std::string milliseconds(double s) {
  return format_figure(s * 1000);
}

std::string row(const std::vector<std::string>& cells, const char* tag) {
  std::string out = "<tr>";
  for (const std::string& cell : cells) out += fmt::format("<{}>{}</{}>", tag, cell, tag);
  return out + "</tr>";
}

std::string table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  std::string out = "<table>" + row(head, "th");
  for (const auto& r : rows) out += row(r, "td");
  return out + "</table>";
}

using Figure = double (*)(const Measurement&);
constexpr std::pair<const char*, Figure> kCompared[] = {{"TTFT", ttft}, {"TPOT", tpot}, {"tokens/s", effective_rate}};
constexpr double kUnsteady = 1.1;

// "martlet, 8 at once".
std::string cell_name(const Cell& cell) {
  if (cell.kind == Kind::sweep) return fmt::format("{}, {} at once", cell.engine, cell.concurrency);
  if (cell.kind == Kind::dispatch) return fmt::format("{}, {} processes", cell.engine, cell.instances);
  return cell.engine;
}

std::string quality_cell(const Quality& q) {
  if (q.tokens == 0) return "not judged";
  return fmt::format("<span{}>{}&thinsp;%</span>", q.passed() ? "" : " class='bad'", format_figure(100 * q.share()));
}

std::vector<std::string> figures_row(const Cell& cell, const std::string& name) {
  const Figures f = figures(cell.requests);
  const auto three = [](const Summary& s) {
    return fmt::format("{} / {} / {}", milliseconds(s.p50), milliseconds(s.p90), milliseconds(s.p99));
  };
  return {name,
          three(f.ttft),
          three(f.queued_ttft),
          fmt::format("{} ({}&thinsp;%)", milliseconds(f.tpot.p50), format_figure(100 * f.tpot.spread)),
          format_figure(f.effective_rate.p50),
          format_figure(median(cell.aggregate_rates)),
          cell.cold_ttfts.empty() ? "" : milliseconds(median(cell.cold_ttfts)),
          cell.peak_memory_mib > 0 ? format_figure(cell.peak_memory_mib) : "not known",
          cell.energy_j > 0 ? format_figure(cell.energy_j) : "not told",
          quality_cell(cell.quality),
          fmt::format("{}", f.failed)};
}

std::string load_table(const std::vector<Cell>& cells, Kind kind) {
  std::vector<std::vector<std::string>> rows;
  for (const Cell& cell : cells) {
    if (cell.kind != kind) continue;
    const char* mark = cell.noise.empty() ? "" : " <span class='bad' title='noisy'>*</span>";
    rows.push_back(figures_row(cell, escape_html(cell_name(cell)) + mark));
  }
  if (rows.empty()) return {};
  return table({"", "TTFT ms p50 / p90 / p99", "with queue", "TPOT ms (spread)", "tokens/s a request",
                "tokens/s together", "first TTFT ms", "memory MiB", "energy J", "quality", "failed"},
               rows);
}

// One series an engine; `y` of a cell against `x`.
template <class X, class Y>
std::vector<Series> series(const std::vector<EngineInfo>& engines, const std::vector<Cell>& cells, Kind kind, X x,
                           Y y) {
  std::vector<Series> out;
  for (const EngineInfo& engine : engines) {
    Series s{engine.name, {}};
    for (const Cell& cell : cells) {
      if (cell.kind == kind && cell.engine == engine.name) s.points.emplace_back(x(cell), y(cell));
    }
    std::sort(s.points.begin(), s.points.end());
    out.push_back(std::move(s));
  }
  return out;
}

std::string roofline(const RunFile& file, const std::vector<Cell>& cells) {
  if (file.machine.bandwidth_gb_s <= 0) return {};
  std::vector<Series> used;
  for (const EngineInfo& engine : file.engines) {
    Series s{engine.name, {}};
    for (const Cell& cell : cells) {
      if (cell.kind != Kind::single || cell.engine != engine.name || engine.weight_bytes_per_token <= 0) continue;
      const double time = figures(cell.requests).tpot.p50;
      if (time > 0) s.points = {{0, 100 * engine.weight_bytes_per_token / time / (file.machine.bandwidth_gb_s * 1e9)}};
    }
    used.push_back(std::move(s));
  }
  return bar_plot({"Read bandwidth used in decode (weights alone)", "",
                   "% of " + format_figure(file.machine.bandwidth_gb_s) + " GB/s", used});
}

std::string plots(const RunFile& file, const std::vector<Cell>& cells) {
  const auto concurrency = [](const Cell& c) { return static_cast<double>(c.concurrency); };
  const auto instances = [](const Cell& c) { return static_cast<double>(c.instances); };
  const auto together = [](const Cell& c) { return median(c.aggregate_rates); };
  const auto alone = [](const Cell& c) { return figures(c.requests).effective_rate.p50; };
  const auto wait = [](const Cell& c) { return 1000 * figures(c.requests).queued_ttft.p50; };
  const auto& e = file.engines;
  return bar_plot({"One stream", "", "tokens/s", series(e, cells, Kind::single, concurrency, alone)}) +
         roofline(file, cells) +
         line_plot({"Throughput of many streams", "streams at once", "tokens/s together",
                    series(e, cells, Kind::sweep, concurrency, together)}) +
         line_plot({"Time to the first token", "streams at once", "ms, p50, queue included",
                    series(e, cells, Kind::sweep, concurrency, wait)}) +
         line_plot({"Separate processes behind one queue", "processes", "tokens/s together",
                    series(e, cells, Kind::dispatch, instances, together)});
}

std::string section(const RunFile& file) {
  const std::vector<Cell> cells = pool(file.runs);
  std::string out = fmt::format("<h2>{}, {}</h2>", escape_html(file.model), escape_html(file.date));
  if (file.quick)
    out += "<p class='noise'>A quick run: fewer and shorter requests than the contract's. Not for comparing.</p>";
  for (const std::string& reason : file.noise)
    out += fmt::format("<p class='noise'>Noisy run: {}</p>", escape_html(reason));
  for (const Cell& cell : cells)
    for (const std::string& reason : cell.noise)
      out += fmt::format("<p class='noise'>* {}: {}</p>", escape_html(cell_name(cell)), escape_html(reason));
  if (file.interrupted) out += "<p class='noise'>Stopped before its end: what was measured until then.</p>";
  const Machine& m = file.machine;
  out += fmt::format(
      "<p>{}, {} cores, {} GiB, {}; memory read at {} GB/s. Contract version {}, answers of {} tokens at most.</p>",
      escape_html(m.processor), m.cores, format_figure(m.memory_gib), escape_html(m.system),
      format_figure(m.bandwidth_gb_s), file.contract_version, file.max_tokens);
  out += fmt::format("<p>Repeat it: <code>{}</code> (Martlet {}).</p>", escape_html(file.command),
                     escape_html(file.martlet_version));
  std::vector<std::vector<std::string>> engines;
  for (const EngineInfo& e : file.engines) {
    engines.push_back({escape_html(e.name), escape_html(e.version.empty() ? "does not tell" : e.version),
                       "<code>" + escape_html(e.command) + "</code>"});
  }
  out += table({"engine", "version", "started as"}, engines) + plots(file, cells);
  for (const auto& [kind, title] :
       {std::pair{Kind::single, "One request after another"}, std::pair{Kind::sweep, "Many at once"},
        std::pair{Kind::dispatch, "Separate processes behind one queue"}}) {
    const std::string rows = load_table(cells, kind);
    if (!rows.empty()) out += fmt::format("<h3>{}</h3>{}", title, rows);
  }
  return out;
}

Status same_contract(const RunFile& a, const RunFile& b) {
  if (a.contract_version == b.contract_version && a.contract_sha256 == b.contract_sha256) return {};
  return Error{ErrorKind::usage, "contract_mismatch", "the results follow different contracts and cannot be compared",
               ""};
}

}  // namespace

std::vector<Cell> pool(const std::vector<Run>& runs) {
  std::vector<Cell> cells;
  for (const Run& run : runs) {
    const auto same = [&](const Cell& c) {
      return c.engine == run.engine && c.kind == run.kind && c.concurrency == run.concurrency &&
             c.instances == run.instances;
    };
    auto cell = std::find_if(cells.begin(), cells.end(), same);
    if (cell == cells.end())
      cell = cells.insert(
          cell,
          Cell{.engine = run.engine, .kind = run.kind, .concurrency = run.concurrency, .instances = run.instances});
    cell->requests.insert(cell->requests.end(), run.requests.begin(), run.requests.end());
    cell->aggregate_rates.push_back(aggregate_rate(run.requests));
    if (run.cold && run.cold->ok()) cell->cold_ttfts.push_back(ttft(*run.cold));
    cell->peak_memory_mib = std::max(cell->peak_memory_mib, run.peak_memory_mib);
    cell->energy_j += run.energy_j.value_or(0);
    for (const std::string& reason : run.noise)
      if (std::find(cell->noise.begin(), cell->noise.end(), reason) == cell->noise.end()) cell->noise.push_back(reason);
    if (run.quality) cell->quality.tokens += run.quality->tokens, cell->quality.good += run.quality->good;
  }
  return cells;
}

std::vector<std::string> unsteady(const std::vector<Run>& runs) {
  std::vector<std::string> out;
  for (const Cell& cell : pool(runs)) {
    const Summary rates = summarize(cell.aggregate_rates);
    if (rates.count < 2 || rates.minimum <= 0 || rates.maximum / rates.minimum < kUnsteady) continue;
    out.push_back(
        fmt::format("{}: its rounds differ by {:.0f} %", cell_name(cell), 100 * (rates.maximum / rates.minimum - 1)));
  }
  return out;
}

Result<RunFile> read_result(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  if (!in || !(bytes << in.rdbuf())) return Error{ErrorKind::io, "cannot_read", "a result cannot be read", path};
  return from_json(bytes.str(), path);
}

Result<std::vector<RunFile>> read_results(const std::string& folder) {
  std::error_code code;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    if (entry.path().extension() == ".json" && entry.is_regular_file(code)) paths.push_back(entry.path());
  }
  if (code) return Error{ErrorKind::io, "cannot_read", "the folder of results cannot be read", folder};
  if (paths.empty())
    return Error{ErrorKind::usage, "no_results", "the folder holds no result of a run (*.json)", folder};
  std::sort(paths.begin(), paths.end());
  std::vector<RunFile> files;
  for (const auto& path : paths) {
    MARTLET_ASSIGN(RunFile file, read_result(path.string()));
    files.push_back(std::move(file));
  }
  std::stable_sort(files.begin(), files.end(), [](const RunFile& a, const RunFile& b) { return a.date < b.date; });
  return files;
}

Result<std::string> html_report(const std::vector<RunFile>& files) {
  std::string body;
  for (const RunFile& file : files) {
    MARTLET_TRY(same_contract(files.front(), file));
    body += section(file);
  }
  return fmt::format(
      "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
      "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">"
      "<title>Martlet's fairness benchmark</title><style>{}</style><h1>Martlet's fairness benchmark</h1>{}</html>\n",
      kStyle, body);
}

Result<std::string> text_comparison(const RunFile& before, const RunFile& after) {
  MARTLET_TRY(same_contract(before, after));
  const std::vector<Cell> old_cells = pool(before.runs), new_cells = pool(after.runs);
  const auto values = [](const Cell& cell, double (*figure)(const Measurement&)) {
    std::vector<double> out;
    for (const Measurement& m : cell.requests)
      if (m.ok()) out.push_back(figure(m));
    return out;
  };
  std::string out;
  for (const Cell& a : old_cells) {
    const auto b = std::find_if(new_cells.begin(), new_cells.end(), [&](const Cell& c) {
      return c.engine == a.engine && c.kind == a.kind && c.concurrency == a.concurrency && c.instances == a.instances;
    });
    if (b == new_cells.end()) continue;
    out += fmt::format("{} {} (streams {}, processes {})\n", a.engine, kind_name(a.kind), a.concurrency, a.instances);
    for (const auto& [name, figure] : kCompared) {
      const Change c = compare(values(a, figure), values(*b, figure));
      if (c.ratio > 0) {
        out += fmt::format("  {:9} x {:.3f} (95 %: {:.3f} to {:.3f}){}\n", name, c.ratio, c.low, c.high,
                           c.certain() ? "" : ", no certain change");
      }
    }
  }
  if (out.empty())
    return Error{ErrorKind::usage, "nothing_in_common", "the two results measured no load in common", ""};
  return out;
}

}  // namespace martlet::bench
