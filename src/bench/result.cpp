#include "bench/result.h"

#include <array>
#include <cmath>

#include <boost/json.hpp>

namespace martlet::bench {
namespace {

namespace json = boost::json;

constexpr std::string_view kSchema = "martlet-bench-2";
constexpr std::array<std::string_view, 3> kKinds = {"single", "sweep", "dispatch"};

json::string text(std::string_view s) {
  return json::string(s.data(), s.size());
}

// One list of members per struct serves writing and reading: `io` is a Writer or a Reader.
template <class Io>
void members(Io& io, Measurement& m) {
  io("offered_s", m.offered)("sent_s", m.sent)("first_token_s", m.first_token)("last_token_s", m.last_token);
  io("prompt", m.prompt)("instance", m.instance)("prompt_tokens", m.prompt_tokens)("output_tokens", m.output_tokens);
  io("cached_tokens", m.cached_tokens)("finish_reason", m.finish_reason)("error", m.error)("text", m.text);
}

template <class Io>
void members(Io& io, Quality& q) {
  io("tokens", q.tokens)("good", q.good);
}

template <class Io>
void members(Io& io, Run& r) {
  io("engine", r.engine)("kind", r.kind)("concurrency", r.concurrency)("instances", r.instances)("round", r.round);
  io("cold", r.cold)("requests", r.requests)("peak_memory_mib", r.peak_memory_mib)("energy_j", r.energy_j);
  io("harness_cores", r.harness_cores)("of_bandwidth", r.of_bandwidth)("of_peak", r.of_peak);
  io("quality", r.quality)("noise", r.noise);
}

template <class Io>
void members(Io& io, EngineInfo& e) {
  io("name", e.name)("version", e.version)("command", e.command)("weight_bytes_per_token", e.weight_bytes_per_token);
  io("request", e.request)("on_processor", e.on_processor);
}

template <class Io>
void members(Io& io, Machine& m) {
  io("processor", m.processor)("system", m.system)("cores", m.cores)("memory_gib", m.memory_gib);
  io("bandwidth_gb_s", m.bandwidth_gb_s)("bandwidth_after_gb_s", m.bandwidth_after_gb_s);
  io("int8_peak_gops", m.int8_peak_gops);
}

template <class Io>
void members(Io& io, Matrices& m) {
  io("layers", m.layers)("head", m.head);
}

template <class Io>
void members(Io& io, RunFile& f) {
  io("contract_version", f.contract_version)("contract_sha256", f.contract_sha256)("date", f.date);
  io("martlet_version", f.martlet_version)("model", f.model)("quick", f.quick)("max_tokens", f.max_tokens);
  io("context", f.context)("threads", f.threads)("interrupted", f.interrupted);
  io("command", f.command)("machine", f.machine)("matrices", f.matrices);
  io("prompt_tokens", f.prompt_tokens)("noise", f.noise);
  io("engines", f.engines)("runs", f.runs);
}

class Writer {
 public:
  template <class T>
  Writer& operator()(const char* name, T& value) {
    object_[name] = write(value);
    return *this;
  }
  json::object take() { return std::move(object_); }

 private:
  static json::value write(double v) { return v; }
  static json::value write(int v) { return v; }
  static json::value write(bool v) { return v; }
  static json::value write(std::string& v) { return text(v); }
  static json::value write(Kind v) { return text(kind_name(v)); }
  template <class T>
  static json::value write(std::vector<T>& list) {
    json::array out;
    for (T& item : list) out.push_back(write(item));
    return out;
  }
  template <class T>
  static json::value write(std::optional<T>& v) {
    return v ? write(*v) : json::value(nullptr);
  }
  template <class T>
  static json::value write(T& v) {
    Writer inner;
    members(inner, v);
    return inner.take();
  }

  json::object object_;
};

// Stops at the first member that is missing or wrong and remembers its path.
class Reader {
 public:
  Reader(const json::value& value, std::string path, std::string& problem)
      : object_(value.if_object()), path_(std::move(path)), problem_(problem) {
    if (!object_) fail(path_);
  }

  template <class T>
  Reader& operator()(const char* name, T& value) {
    if (!problem_.empty()) return *this;
    const std::string path = path_.empty() ? name : path_ + "." + name;
    const json::value* found = object_->if_contains(name);
    if (!found || !read(*found, path, value)) fail(path);
    return *this;
  }

 private:
  void fail(const std::string& path) {
    if (problem_.empty()) problem_ = path.empty() ? "the whole" : path;
  }
  bool read(const json::value& in, const std::string&, double& out) {
    if (!in.is_number()) return false;
    out = in.to_number<double>();
    return std::isfinite(out);
  }
  bool read(const json::value& in, const std::string&, int& out) {
    json::error_code code;
    if (!in.is_number()) return false;
    out = in.to_number<int>(code);
    return !code;
  }
  bool read(const json::value& in, const std::string&, bool& out) {
    return in.is_bool() && (out = in.get_bool(), true);
  }
  bool read(const json::value& in, const std::string&, std::string& out) {
    return in.is_string() && (out.assign(in.get_string().data(), in.get_string().size()), true);
  }
  bool read(const json::value& in, const std::string& path, Kind& out) {
    std::string name;
    if (!read(in, path, name)) return false;
    for (size_t i = 0; i < kKinds.size(); ++i)
      if (kKinds[i] == name) return out = static_cast<Kind>(i), true;
    return false;
  }
  template <class T>
  bool read(const json::value& in, const std::string& path, std::vector<T>& out) {
    if (!in.is_array()) return false;
    out.resize(in.get_array().size());
    for (size_t i = 0; i < out.size(); ++i) {
      const std::string at = path + "[" + std::to_string(i) + "]";
      if (!read(in.get_array()[i], at, out[i])) return fail(at), false;
    }
    return true;
  }
  template <class T>
  bool read(const json::value& in, const std::string& path, std::optional<T>& out) {
    return in.is_null() || read(in, path, out.emplace());
  }
  template <class T>
  bool read(const json::value& in, const std::string& path, T& out) {
    Reader inner(in, path, problem_);
    if (problem_.empty()) members(inner, out);
    return problem_.empty();
  }

  const json::object* object_;
  std::string path_;
  std::string& problem_;
};

}  // namespace

std::string_view kind_name(Kind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

std::string to_json(const RunFile& file) {
  RunFile copy = file;  // one list of members serves both directions, so it wants them mutable
  Writer writer;
  members(writer, copy);
  json::object root{{"schema", text(kSchema)}};
  for (auto& member : writer.take()) root.insert(std::move(member));
  return json::serialize(root) + "\n";
}

Result<RunFile> from_json(std::string_view input, const std::string& where) {
  json::error_code code;
  const json::value root = json::parse(json::string_view(input.data(), input.size()), code);
  if (code || !root.is_object())
    return Error{ErrorKind::usage, "bad_result", "this is no result of the benchmark", where};
  const json::value* schema = root.get_object().if_contains("schema");
  if (!schema || !schema->is_string() || schema->get_string() != text(kSchema)) {
    return Error{ErrorKind::usage, "bad_result", "the result has another schema than this version reads", where};
  }
  RunFile file;
  std::string problem;
  Reader reader(root, "", problem);
  members(reader, file);
  if (!problem.empty()) {
    return Error{ErrorKind::usage, "bad_result", "a member of the result is missing or wrong", where + ": " + problem};
  }
  return file;
}

}  // namespace martlet::bench
