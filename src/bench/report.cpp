#include "bench/report.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "bench/comparison.h"
#include "bench/plot.h"

namespace martlet::bench {
namespace {

constexpr std::string_view kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2rem auto;padding:0 1rem;color:#222}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;margin:1rem "
    "0;font-size:13px;font-variant-numeric:tabular-nums}"
    "th,td{border-bottom:1px solid #ddd;padding:.3rem .5rem;text-align:right}"
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

constexpr double kUnsteady = 1.1;

// "martlet, 8 at once".
std::string cell_name(const Cell& cell) {
  if (cell.kind == Kind::sweep) return fmt::format("{}, {} at once", cell.engine, cell.concurrency);
  if (cell.kind == Kind::dispatch) return fmt::format("{}, {} processes", cell.engine, cell.instances);
  return cell.engine;
}

std::string quality_cell(const Quality& q) {
  if (q.tokens == 0) return {};
  return fmt::format("<span{}>{}&thinsp;%</span>", q.passed() ? "" : " class='bad'", format_figure(100 * q.share()));
}

// A row of a table of loads, and what it is held against: the engine's smallest load of that kind.
struct Row {
  const Cell& cell;
  const Cell& least;
  Figures figures;
};

std::string percentiles(const Summary& s) {
  return fmt::format("{} / {} / {}", milliseconds(s.p50), milliseconds(s.p90), milliseconds(s.p99));
}

std::string known(double value) {
  return value > 0 ? format_figure(value) : "";
}

std::string percent(const std::vector<double>& shares) {
  return shares.empty() ? "" : format_figure(100 * median(shares)) + "&thinsp;%";
}

// "120 (×1.5)"; the row that others are held against stands alone.
std::string held_against(const Row& row, double value, double least) {
  if (value <= 0 || least <= 0 || &row.cell == &row.least) return known(value);
  return fmt::format("{} (×{})", format_figure(value), format_figure(value / least));
}

std::string tokens_cell(const Row& row) {
  int64_t output = 0, prompt = 0, cached = 0;
  for (const Measurement& m : row.cell.requests) {
    if (!m.ok()) continue;
    output += m.output_tokens, prompt += m.prompt_tokens, cached += m.cached_tokens;
  }
  if (cached == 0) return fmt::format("{}", output);
  return fmt::format("{} ({} of {} of prompts from a cache)", output, cached, prompt);
}

struct Column {
  const char* head;
  std::string (*cell)(const Row& row);  // empty: not known
};
// Those that nobody has something to say in are left out.
constexpr Column kColumns[] = {
    {"TTFT ms p50 / p90 / p99", [](const Row& r) { return percentiles(r.figures.ttft); }},
    {"with queue",
     [](const Row& r) { return r.cell.kind == Kind::dispatch ? percentiles(r.figures.queued_ttft) : ""; }},
    {"TPOT ms p50 / p90 / p99", [](const Row& r) { return percentiles(r.figures.tpot); }},
    {"TPOT spread", [](const Row& r) { return format_figure(100 * r.figures.tpot.spread) + "&thinsp;%"; }},
    {"tokens/s a request", [](const Row& r) { return format_figure(r.figures.effective_rate.p50); }},
    {"tokens/s together",
     [](const Row& r) { return held_against(r, median(r.cell.aggregate_rates), median(r.least.aggregate_rates)); }},
    {"of bandwidth", [](const Row& r) { return percent(r.cell.of_bandwidth); }},
    {"of 8-bit peak", [](const Row& r) { return percent(r.cell.of_peak); }},
    {"memory MiB", [](const Row& r) { return held_against(r, r.cell.peak_memory_mib, r.least.peak_memory_mib); }},
    {"energy J", [](const Row& r) { return known(r.cell.energy_j); }},
    {"cold TTFT ms", [](const Row& r) { return known(1000 * median(r.cell.cold_ttfts)); }},
    {"tokens", tokens_cell},
    {"quality", [](const Row& r) { return quality_cell(r.cell.quality); }},
    {"failed", [](const Row& r) { return fmt::format("{}", r.figures.failed); }},
};

std::string load_table(const std::vector<Cell>& cells, Kind kind) {
  std::vector<Row> rows;
  std::vector<std::vector<std::string>> lines;
  for (const Cell& cell : cells) {
    if (cell.kind != kind) continue;
    const auto least = std::find_if(cells.begin(), cells.end(),
                                    [&](const Cell& c) { return c.kind == kind && c.engine == cell.engine; });
    rows.push_back({cell, *least, figures(cell.requests)});
    const char* mark = cell.noise.empty() ? "" : " <span class='bad' title='noisy'>*</span>";
    lines.push_back({escape_html(cell_name(cell)) + mark});
  }
  if (rows.empty()) return {};
  std::vector<std::string> head{""};
  for (const Column& column : kColumns) {
    std::vector<std::string> texts;
    for (const Row& row : rows) texts.push_back(column.cell(row));
    if (std::all_of(texts.begin(), texts.end(), [](const std::string& text) { return text.empty(); })) continue;
    head.push_back(column.head);
    for (size_t i = 0; i < rows.size(); ++i) lines[i].push_back(texts[i].empty() ? "–" : texts[i]);
  }
  return "<div class='wide'>" + table(head, lines) + "</div>";
}

// One series an engine; `y` of a cell against `x`, where it is known.
template <class X, class Y>
std::vector<Series> series(const std::vector<EngineInfo>& engines, const std::vector<Cell>& cells, Kind kind, X x,
                           Y y) {
  std::vector<Series> out;
  for (const EngineInfo& engine : engines) {
    Series s{engine.name, {}};
    for (const Cell& cell : cells) {
      if (cell.kind == kind && cell.engine == engine.name && y(cell) > 0) s.points.emplace_back(x(cell), y(cell));
    }
    std::sort(s.points.begin(), s.points.end());
    out.push_back(std::move(s));
  }
  return out;
}

std::string plots(const RunFile& file, const std::vector<Cell>& cells) {
  const auto concurrency = [](const Cell& c) { return static_cast<double>(c.concurrency); };
  const auto instances = [](const Cell& c) { return static_cast<double>(c.instances); };
  const auto together = [](const Cell& c) { return median(c.aggregate_rates); };
  const auto alone = [](const Cell& c) { return figures(c.requests).effective_rate.p50; };
  const auto wait = [](const Cell& c) { return 1000 * figures(c.requests).queued_ttft.p50; };
  const auto bandwidth = [](const Cell& c) { return 100 * median(c.of_bandwidth); };
  const auto peak = [](const Cell& c) { return 100 * median(c.of_peak); };
  const auto& e = file.engines;
  const Machine& m = file.machine;
  return bar_plot({"One stream", "", "tokens/s", series(e, cells, Kind::single, concurrency, alone)}) +
         bar_plot({"Read bandwidth used in decode (weights alone)", "",
                   "% of " + format_figure(m.bandwidth_gb_s) + " GB/s",
                   series(e, cells, Kind::single, concurrency, bandwidth)}) +
         line_plot({"Throughput of many streams", "streams at once", "tokens/s together",
                    series(e, cells, Kind::sweep, concurrency, together)}) +
         line_plot({"8-bit products used", "streams at once", "% of " + format_figure(m.int8_peak_gops) + " GOP/s",
                    series(e, cells, Kind::sweep, concurrency, peak)}) +
         line_plot({"Time to the first token", "streams at once", "ms, p50, queue included",
                    series(e, cells, Kind::sweep, concurrency, wait)}) +
         line_plot({"Separate processes behind one queue", "processes", "tokens/s together",
                    series(e, cells, Kind::dispatch, instances, together)});
}

std::string notices(const RunFile& file, const std::vector<Cell>& cells) {
  std::string out;
  const auto add = [&](const std::string& text) { out += fmt::format("<p class='noise'>{}</p>", text); };
  if (file.quick) add("A quick run: fewer and shorter requests than the contract's. Not for comparing.");
  for (const std::string& reason : file.noise) add("Noisy run: " + escape_html(reason));
  for (const Cell& cell : cells)
    for (const std::string& reason : cell.noise) add("* " + escape_html(cell_name(cell) + ": " + reason));
  if (file.interrupted) add("Stopped before its end: what was measured until then.");
  return out;
}

std::string conditions(const RunFile& file) {
  const Machine& m = file.machine;
  double harness = 0;
  bool energy = false;
  for (const Run& run : file.runs) {
    harness = std::max(harness, run.harness_cores);
    energy = energy || run.energy_j.has_value();
  }
  return fmt::format(
      "<p>{}, {} cores, {} GiB, {}; memory read at {} GB/s, 8-bit products at {} GOP/s{}. Contract version {}, answers "
      "of "
      "{} tokens at most. The benchmark itself took {}&thinsp;% of a core at most.</p><p>Repeat it: <code>{}</code> "
      "(Martlet {}).</p>",
      escape_html(m.processor), m.cores, format_figure(m.memory_gib), escape_html(m.system),
      format_figure(m.bandwidth_gb_s), format_figure(m.int8_peak_gops), energy ? "" : "; it does not tell its energy",
      file.contract_version, file.max_tokens, format_figure(100 * harness), escape_html(file.command),
      escape_html(file.martlet_version));
}

std::string section(const RunFile& file) {
  const std::vector<Cell> cells = pool(file.runs);
  std::string out = fmt::format("<h2>{}, {}</h2>", escape_html(file.model), escape_html(file.date));
  out += notices(file, cells) + conditions(file);
  std::vector<std::vector<std::string>> engines;
  for (const EngineInfo& e : file.engines) {
    engines.push_back({escape_html(e.name), escape_html(e.version.empty() ? "does not tell" : e.version),
                       "<code>" + escape_html(e.command) + "</code>" +
                           (e.request.empty() ? "" : ", asked with <code>" + escape_html(e.request) + "</code>")});
  }
  out += table({"engine", "version", "started as"}, engines) + plots(file, cells);
  for (const auto& [kind, title] :
       {std::pair{Kind::single, "One request after another"}, std::pair{Kind::sweep, "Many at once"},
        std::pair{Kind::dispatch, "Separate processes behind one queue"}}) {
    const std::string rows = load_table(cells, kind);
    if (!rows.empty()) out += fmt::format("<h3>{}</h3>{}", title, rows);
  }
  return out + "<p>–: not known, or nobody told. ×: against the engine's smallest load in the table.</p>";
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
    if (run.of_bandwidth > 0) cell->of_bandwidth.push_back(run.of_bandwidth);
    if (run.of_peak > 0) cell->of_peak.push_back(run.of_peak);
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

}  // namespace martlet::bench
