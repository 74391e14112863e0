// Runs work in a process that is killed at its nth system call of those that change files: every
// point at which a crash could leave them half done, one after the other.
#pragma once

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <functional>

namespace phub::testing {

enum class Killed { kAtCall, kNever, kCannot };  // kNever: the work came to its end

inline bool changes_files(std::uint64_t call) {
  constexpr std::array<std::uint64_t, 14> kCalls = {
      SYS_write,     SYS_pwrite64, SYS_fsync,    SYS_fdatasync, SYS_rename,
      SYS_renameat,  SYS_unlink,   SYS_unlinkat, SYS_truncate,  SYS_ftruncate,
      SYS_fallocate, SYS_openat,   SYS_mkdir,    SYS_mkdirat};
  return std::find(kCalls.begin(), kCalls.end(), call) != kCalls.end();
}

// Kills before the call numbered `call`, from 0, is done. kCannot: the system does not let us.
inline Killed run_and_kill(unsigned call, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child < 0) return Killed::kCannot;
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(3);
    ::raise(SIGSTOP);
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return Killed::kCannot;
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  for (unsigned seen = 0;;) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status)) return WEXITSTATUS(status) == 0 ? Killed::kNever : Killed::kCannot;
    if (WIFSIGNALED(status)) return Killed::kCannot;
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
    __ptrace_syscall_info info{};
    ::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info);
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY || !changes_files(info.entry.nr)) continue;
    if (seen++ < call) continue;
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return Killed::kAtCall;
  }
}

}  // namespace phub::testing
