#pragma once

namespace martlet::cli {

// Ctrl-C while an answer is made stops the answer and not the program. While an object lives, SIGINT only raises a
// flag.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool raised() const;
};

}  // namespace martlet::cli
