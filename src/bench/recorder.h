#pragma once

// Keeps the result file of a session up to date: after each run it is whole on the disk, whatever happens next.

#include <string>
#include <vector>

#include "base/error.h"
#include "bench/result.h"

namespace martlet::bench {

class Recorder {
 public:
  // `folder` must exist; the file is named after the date of `file`.
  Recorder(RunFile file, const std::string& folder);

  // With the shares of the machine's limits that the run reached.
  Status add(Run run);
  Status save() const;  // Errors: ErrorKind::io `cannot_write`.
  RunFile& file() { return file_; }
  const std::string& path() const { return path_; }

 private:
  RunFile file_;
  std::string path_;
};

// Writes `text` so that a reader finds the old file or the new one, never half of it. Errors: ErrorKind::io
// `cannot_write`.
Status write_whole(const std::string& path, const std::string& text);

// How long is left, from what was done: each engine has its own speed.
class TimeLeft {
 public:
  void add(size_t engine, double weight);  // to do
  void done(size_t engine, double weight, double seconds);
  // Seconds; negative while nothing is known. An engine of which nothing is known is taken to be as fast as the others.
  double seconds() const;

 private:
  struct Work {
    double left = 0, done = 0, seconds = 0;
  };
  Work& work(size_t engine);
  std::vector<Work> engines_;
};

}  // namespace martlet::bench
