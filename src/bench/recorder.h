#pragma once

// Keeps the result file of a session up to date: after each run it is whole on the disk, whatever happens next.

#include <string>

#include "base/error.h"
#include "bench/result.h"

namespace martlet::bench {

class Recorder {
 public:
  // `folder` must exist; the file is named after the date of `file`.
  Recorder(RunFile file, const std::string& folder);

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

// How long is left, from what was done: requests weigh as their answers' tokens.
class TimeLeft {
 public:
  explicit TimeLeft(double total) : total_(total) {}
  void done(double weight) { done_ += weight; }
  // Seconds; negative while nothing is known.
  double seconds(double elapsed) const { return done_ > 0 ? elapsed * (total_ - done_) / done_ : -1; }

 private:
  double total_, done_ = 0;
};

}  // namespace martlet::bench
