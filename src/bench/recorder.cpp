#include "bench/recorder.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace martlet::bench {

Recorder::Recorder(RunFile file, const std::string& folder) : file_(std::move(file)) {
  std::string name = file_.date;
  std::erase_if(name, [](char c) { return c == ':' || c == '-'; });
  path_ = folder + "/bench-" + name + ".json";
}

Status Recorder::add(Run run) {
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

}  // namespace martlet::bench
