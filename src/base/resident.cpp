#include "base/resident.h"

#ifdef __APPLE__
#include <mach/mach.h>
#else
#include <unistd.h>

#include <fstream>
#endif

namespace martlet {

int64_t resident_bytes() {
#ifdef __APPLE__
  mach_task_basic_info info = {};
  mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
  const kern_return_t status =
      task_info(mach_task_self(), MACH_TASK_BASIC_INFO, reinterpret_cast<task_info_t>(&info), &count);
  return status == KERN_SUCCESS ? static_cast<int64_t>(info.resident_size) : 0;
#else
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
#endif
}

}  // namespace martlet
