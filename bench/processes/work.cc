#include "bench/processes/work.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>

namespace phub::bench {

namespace fs = std::filesystem;

Result<std::unique_ptr<Places>> Places::create() {
  std::unique_ptr<Places> places(new Places());
  std::error_code error;
  places->binaries_ = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::string name = (fs::temp_directory_path(error) / "phub-bench-XXXXXX").string();
  if (error || ::mkdtemp(name.data()) == nullptr) return errno_status("scratch folder " + name);
  places->scratch_ = name;
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  places->interrupt_fd_ = ::signalfd(-1, &signals, SFD_CLOEXEC);
  return places;
}

Places::~Places() {
  std::error_code ignored;
  fs::remove_all(scratch_, ignored);
  if (interrupt_fd_ >= 0) ::close(interrupt_fd_);
}

Result<std::string> Places::program(const std::string& name) const {
  const fs::path path = binaries_ / name;
  if (::access(path.c_str(), X_OK) == 0) return path.string();
  return Status(Code::kNotFound,
                fmt::format("{} is missing: build the target {}", path.string(), name));
}

std::string Places::fresh_path(const std::string& name) {
  return (scratch_ / fmt::format("{}-{}", ++paths_, name)).string();
}

}  // namespace phub::bench
