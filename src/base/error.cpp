#include "base/error.h"

#include "base/printable.h"

namespace martlet {

std::string Error::line() const {
  std::string out = "error[" + code + "]: " + text;
  if (!where.empty()) out += " (" + where + ")";
  return printable(out);
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
    case ErrorKind::request:
      return 2;
    case ErrorKind::model:
      return 3;
    case ErrorKind::memory:
      return 4;
    case ErrorKind::io:
    case ErrorKind::unavailable:
    case ErrorKind::internal:
      return 5;
    case ErrorKind::network:
      return 6;
  }
  return 5;
}

}  // namespace martlet
