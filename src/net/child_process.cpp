#include "net/child_process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace martlet::net {
namespace {

constexpr off_t kLogBytes = 16 << 20;

int open_log(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && info.st_size > kLogBytes) std::rename(path.c_str(), (path + ".old").c_str());
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
}

// One more than the highest descriptor of this process, and then some: other threads may open a few before the fork.
// The limit on descriptors is no bound to count to: it may be a thousand million.
int descriptors_bound() {
#ifdef __linux__
  constexpr const char* kOwn = "/proc/self/fd";
#else
  constexpr const char* kOwn = "/dev/fd";
#endif
  constexpr int kMargin = 1024, kUnknown = 1 << 16;
  std::error_code ec;
  int highest = -1;
  for (std::filesystem::directory_iterator at(kOwn, ec), end; !ec && at != end; at.increment(ec)) {
    highest = std::max(highest, std::atoi(at->path().filename().c_str()));
  }
  return highest < 0 ? kUnknown : highest + 1 + kMargin;
}

// Sockets of this process must not live on in a program that it starts: a peer would wait for a close that never comes.
void close_from(int first, int descriptors) {
#ifdef __linux__
  if (::close_range(first, ~0u, 0) == 0) return;
#endif
  for (int fd = first; fd < descriptors; ++fd) ::close(fd);
}

// What a signal interrupts is done again.
template <class Call>
auto again(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Between fork and exec of a process with threads: only what is safe in a signal handler.
[[noreturn]] void become(char* const* arguments, int log, int failure, pid_t parent, int descriptors) {
  ::setpgid(0, 0);
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (::getppid() != parent) ::_exit(127);
  // The program gets signals as if a shell had started it.
  sigset_t none;
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, 0);
  ::dup2(log, 1);
  ::dup2(log, 2);
  ::dup2(failure, 3);
  ::fcntl(3, F_SETFD, FD_CLOEXEC);
  close_from(4, descriptors);
  ::execvp(arguments[0], arguments);
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(3, &error, sizeof error);
  ::_exit(127);
}

Error cannot_start(const std::string& program) {
  return {ErrorKind::io, "cannot_start", "the program cannot be started", program};
}

}  // namespace

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const std::vector<std::string>& command,
                                                          const std::string& log) {
  const int log_file = open_log(log);
  if (log_file < 0) return Error{ErrorKind::io, "cannot_open", "the log of a program cannot be opened", log};
  int failure[2];  // closed by a good exec, otherwise it carries errno
  if (::pipe(failure) != 0) {
    ::close(log_file);
    return cannot_start(command[0]);
  }
  for (const int end : failure) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int descriptors = descriptors_bound();
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid == 0) become(arguments.data(), log_file, failure[1], parent, descriptors);
  ::close(log_file);
  ::close(failure[1]);
  int error = 0;
  const bool failed = pid < 0 || again([&] { return ::read(failure[0], &error, sizeof error); }) > 0;
  ::close(failure[0]);
  if (pid > 0 && failed) again([&] { return ::waitpid(pid, nullptr, 0); });
  if (failed) return cannot_start(command[0]);
  ::setpgid(pid, pid);  // whoever of the two comes first
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid));
}

ChildProcess::~ChildProcess() {
  kill();
}

std::optional<int> ChildProcess::ended() {
  int status = 0;
  if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
    status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    ::kill(-pid_, SIGKILL);
  }
  return status_;
}

void ChildProcess::terminate() {
  if (!ended()) ::kill(-pid_, SIGTERM);
}

void ChildProcess::kill() {
  if (ended()) return;
  ::kill(-pid_, SIGKILL);
  int status = 0;
  again([&] { return ::waitpid(pid_, &status, 0); });
  status_ = 128 + SIGKILL;
}

bool find_program(const std::string& program) {
  const auto runs = [](const std::filesystem::path& path) {
    std::error_code ec;
    return std::filesystem::is_regular_file(path, ec) && ::access(path.c_str(), X_OK) == 0;
  };
  if (program.find('/') != program.npos) return runs(program);
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (runs(std::filesystem::path(folder.empty() ? "." : folder) / program)) return true;
  }
  return false;
}

Result<uint16_t> free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool good = fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (fd >= 0) ::close(fd);
  if (!good) return Error{ErrorKind::network, "no_port", "no port of this machine is free", ""};
  return ntohs(address.sin_port);
}

}  // namespace martlet::net
