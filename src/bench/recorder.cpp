#include "bench/recorder.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "bench/roofline.h"

namespace martlet::bench {

Recorder::Recorder(RunFile file, const std::string& folder) : file_(std::move(file)) {
  std::string name = file_.date;
  std::erase_if(name, [](char c) { return c == ':' || c == '-'; });
  path_ = folder + "/bench-" + name + ".json";
}

Status Recorder::add(Run run) {
  note_shares(file_, run);
  file_.runs.push_back(std::move(run));
  return save();
}

Status Recorder::save() const {
  return write_whole(path_, to_json(file_));
}

Status write_whole(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (out && std::rename(part.c_str(), path.c_str()) == 0) return {};
  return Error{ErrorKind::io, "cannot_write", "a file of the benchmark cannot be written", path};
}

TimeLeft::Work& TimeLeft::work(size_t engine) {
  engines_.resize(std::max(engines_.size(), engine + 1));
  return engines_[engine];
}

void TimeLeft::add(size_t engine, double weight) {
  work(engine).left += weight;
}

void TimeLeft::done(size_t engine, double weight, double seconds) {
  Work& of_engine = work(engine);
  of_engine.left -= weight;
  of_engine.done += weight;
  of_engine.seconds += seconds;
}

double TimeLeft::seconds() const {
  Work all;
  for (const Work& w : engines_) all.done += w.done, all.seconds += w.seconds;
  if (all.done <= 0) return -1;
  double sum = 0;
  for (const Work& w : engines_) sum += w.left * (w.done > 0 ? w.seconds / w.done : all.seconds / all.done);
  return sum;
}

}  // namespace martlet::bench
