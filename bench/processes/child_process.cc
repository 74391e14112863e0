#include "bench/processes/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <fstream>

namespace phub::bench {
namespace {

constexpr int kExecFailed = 127;

// Between fork and exec: only calls that are safe there.
[[noreturn]] void become(char* const* arguments, int input, int output, int log, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kExecFailed);  // the bench died before the line above
  // A group of its own: an interrupt at the terminal is the bench's to handle, and mpirun, when it
  // fails early, signals the whole group that it is in.
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(input < 0 ? null : input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execvp(arguments[0], arguments);
  ::_exit(kExecFailed);
}

}  // namespace

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const Options& options) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_status("pipe");
  UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  UniqueFd input_read_end;
  UniqueFd input_write_end;
  if (options.holds_input) {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_status("pipe");
    input_read_end = UniqueFd(ends[0]);
    input_write_end = UniqueFd(ends[1]);
  }
  const bool has_channel = options.channel_fd >= 0;
  const int input = has_channel ? options.channel_fd : input_read_end.get();
  const int output = has_channel ? options.channel_fd : write_end.get();
  const UniqueFd log(
      ::open(options.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log) return errno_status(options.log_path);

  std::vector<char*> arguments;
  for (const std::string& word : options.command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return errno_status("fork");
  if (pid == 0) become(arguments.data(), input, output, log.get(), parent);
  UniqueFd pid_fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return std::unique_ptr<ChildProcess>(new ChildProcess(options, pid, std::move(input_write_end),
                                                        std::move(read_end), std::move(pid_fd)));
}

ChildProcess::~ChildProcess() {
  if (!reap(false)) {
    ::kill(pid_, SIGKILL);
    reap(true);
  }
}

bool ChildProcess::reap(bool block) {
  if (ended_) return true;
  pid_t result = 0;
  do {
    result = ::waitpid(pid_, &wait_status_, block ? 0 : WNOHANG);
  } while (result < 0 && errno == EINTR);
  ended_ = result == pid_;
  return ended_;
}

bool ChildProcess::await_end(Deadline deadline) {
  if (reap(false)) return true;
  pollfd waiting{.fd = pid_fd_.get(), .events = POLLIN, .revents = 0};
  ::poll(&waiting, 1, poll_timeout(deadline));
  return reap(false);
}

void ChildProcess::stop(int signal, Deadline deadline) {
  if (!reap(false) && signal != 0) ::kill(pid_, signal);
  if (await_end(deadline)) return;
  ::kill(pid_, SIGKILL);
  reap(true);
}

Result<std::string> ChildProcess::read_output_line(Deadline deadline) {
  for (;;) {
    if (auto line = output_.take_line()) return *std::move(line);
    pollfd readable{.fd = output_.fd(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&readable, 1, poll_timeout(deadline));
    if (ready < 0 && errno == EINTR) return Status(Code::kAborted, "interrupted");
    if (ready == 0) {
      return Status(Code::kDeadlineExceeded, fmt::format("{} (pid {}) did not get ready in time{}",
                                                         options_.name, pid_, log_tail()));
    }
    if (!output_.read_some().ok()) {
      stop(0, std::chrono::steady_clock::now() + std::chrono::seconds(1));
      return Status(Code::kUnavailable, how_it_ended() + log_tail());
    }
  }
}

std::string ChildProcess::how_it_ended() {
  if (!reap(false)) return "";
  if (WIFSIGNALED(wait_status_)) {
    return fmt::format("{} (pid {}) was ended by signal {}", options_.name, pid_,
                       WTERMSIG(wait_status_));
  }
  const int code = WEXITSTATUS(wait_status_);
  if (code == kExecFailed) {
    return fmt::format("{} could not be started: is {} installed?", options_.name,
                       options_.command[0]);
  }
  return fmt::format("{} (pid {}) ended with exit code {}", options_.name, pid_, code);
}

std::string ChildProcess::log_tail() const {
  constexpr std::size_t kLines = 6;
  std::ifstream log(options_.log_path);
  std::deque<std::string> lines;
  for (std::string line; std::getline(log, line);) {
    if (line.ends_with('\r')) line.pop_back();  // as of ssh's
    if (line.empty()) continue;
    lines.push_back(line);
    if (lines.size() > kLines) lines.pop_front();
  }
  std::string text;
  for (const std::string& line : lines) text += "\n    " + line;
  return text;
}

}  // namespace phub::bench
