#include "cli/command.h"

int main(int argc, char** argv) {
  return martlet::cli::main(argc, argv);
}
