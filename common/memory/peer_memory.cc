#include "common/memory/peer_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <string>

namespace phub {
namespace {

constexpr std::size_t kBlockBytes = 512;  // of st_blocks

Status invalid(const std::string& what) {
  return {Code::kInvalidArgument, "shared memory " + what};
}

Status check_kind(int fd) {
  struct statfs system = {};
  if (::fstatfs(fd, &system) != 0) return errno_status("fstatfs of shared memory");
  if (system.f_type == HUGETLBFS_MAGIC) {
    return invalid("is of the machine's huge pages: the peer must share ordinary ones");
  }
  if (system.f_type != TMPFS_MAGIC) return invalid("is not a memfd");
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || (seals & F_SEAL_GROW) == 0) {
    return invalid("is not sealed against another size");
  }
  return {};
}

Status check_size(int fd, std::size_t bytes) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return errno_status("fstat of shared memory");
  if (status.st_size < 0 || static_cast<std::size_t>(status.st_size) != bytes) {
    return invalid("holds " + std::to_string(status.st_size) + " bytes, agreed are " +
                   std::to_string(bytes));
  }
  return {};
}

// REQUIRES: sealed against holes, or the answer may be out of date.
Status check_whole(int fd, std::size_t bytes) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return errno_status("fstat of shared memory");
  const std::size_t there = static_cast<std::size_t>(status.st_blocks) * kBlockBytes;
  if (there >= bytes) return {};
  return invalid("has " + std::to_string(there) + " of its " + std::to_string(bytes) +
                 " bytes: the peer must fill it before it shares it");
}

Status seal_against_holes(int fd, PeerAccess access) {
  if (access == PeerAccess::kReadWrite && ::fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) {
    return errno_status("sealing a peer's memory against holes");
  }
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals >= 0 && (seals & F_SEAL_FUTURE_WRITE) != 0) return {};
  return invalid("is not sealed against holes");
}

}  // namespace

Result<std::unique_ptr<Mapping>> map_peer_memory(int fd, std::size_t bytes, PeerAccess access) {
  PHUB_RETURN_IF_ERROR(check_kind(fd));
  PHUB_RETURN_IF_ERROR(check_size(fd, bytes));
  const bool writable = access == PeerAccess::kReadWrite;
  PHUB_ASSIGN_OR_RETURN(auto mapping, Mapping::of_file(fd, bytes, writable));
  PHUB_RETURN_IF_ERROR(seal_against_holes(fd, access));
  PHUB_RETURN_IF_ERROR(check_whole(fd, bytes));
  PHUB_RETURN_IF_ERROR(mapping->guard(writable));
  return mapping;
}

}  // namespace phub
