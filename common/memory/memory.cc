#include "common/memory/memory.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace phub {

std::size_t page_bytes() {
  static const auto kBytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return kBytes;
}

namespace {
constexpr std::size_t kHugePageBytes = 2U << 20U;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Of a file that somebody else has made, a kernel refuses what its maker did not allow.
Status map_failed(std::size_t bytes) {
  const std::string what = "mapping " + std::to_string(bytes) + " bytes";
  if (errno == EPERM || errno == EACCES) {
    return errno_status(what + " (the file is sealed, or open for reading only)",
                        Code::kInvalidArgument);
  }
  return errno_status(what + " (is there memory left? see `free -m` and `ulimit -v`)",
                      Code::kResourceExhausted);
}
}  // namespace

Result<std::unique_ptr<Mapping>> Mapping::anonymous(std::size_t bytes, Pages pages) {
  constexpr int kProtection = PROT_READ | PROT_WRITE;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
  if (pages == Pages::kReserved && bytes >= kHugePageBytes / 2) {
    const std::size_t whole = round_up(bytes, kHugePageBytes);
    // Not MAP_NORESERVE: the pool is asked now, not at the first touch.
    void* data = ::mmap(nullptr, whole, kProtection, kFlags | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);
    if (data != MAP_FAILED) {
      return std::unique_ptr<Mapping>(new Mapping(data, bytes, whole, Pages::kReserved));
    }
  }
  void* data = ::mmap(nullptr, bytes, kProtection, kFlags | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return map_failed(bytes);
  ::madvise(data, bytes, MADV_HUGEPAGE);  // advice: a refusal changes nothing
  return std::unique_ptr<Mapping>(new Mapping(data, bytes, bytes, Pages::kTransparent));
}

Result<std::unique_ptr<Mapping>> Mapping::of_file(int fd, std::size_t bytes, bool writable) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return errno_status("fstat of shared memory");
  if (static_cast<std::size_t>(status.st_size) < bytes) {
    return Status(Code::kInvalidArgument, "shared memory holds " + std::to_string(status.st_size) +
                                              " bytes, " + std::to_string(bytes) + " are needed");
  }
  // A file's block is its page; a mapping of huge ones can only be undone whole.
  const auto page = static_cast<std::size_t>(status.st_blksize);
  const std::size_t whole = round_up(bytes, page);
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data = ::mmap(nullptr, whole, protection, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return map_failed(bytes);
  const Pages pages = page == kHugePageBytes ? Pages::kReserved : Pages::kTransparent;
  if (pages == Pages::kTransparent) ::madvise(data, whole, MADV_HUGEPAGE);
  return std::unique_ptr<Mapping>(new Mapping(data, bytes, whole, pages));
}

Mapping::~Mapping() {
  guard_ = {};  // what is mapped here later is another's
  ::munmap(data_, mapped_);
}

Status Mapping::guard(bool writable) {
  PHUB_ASSIGN_OR_RETURN(guard_, GuardedRange::create(data_, mapped_, writable));
  return {};
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::create(const std::string& name,
                                                           std::size_t bytes, Pages pages) {
  if (pages == Pages::kReserved && bytes >= kHugePageBytes / 2) {
    auto memory = create(name, bytes, MFD_HUGETLB | MFD_HUGE_2MB);
    if (memory) return memory;
  }
  return create(name, bytes, 0U);
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::create(const std::string& name,
                                                           std::size_t bytes, unsigned flags) {
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  if (!fd) return errno_status("memfd_create " + name);
  const std::size_t whole = flags == 0 ? bytes : round_up(bytes, kHugePageBytes);
  if (::ftruncate(fd.get(), static_cast<off_t>(whole)) != 0) {
    return errno_status("sizing shared memory " + name, Code::kResourceExhausted);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return errno_status("sealing shared memory " + name);
  }
  PHUB_ASSIGN_OR_RETURN(auto mapping, Mapping::of_file(fd.get(), bytes, true));
  return std::unique_ptr<SharedMemory>(new SharedMemory(std::move(fd), std::move(mapping)));
}

Status SharedMemory::populate() {
  // Through the mapping, which takes huge pages where they are asked for; the file's own way is for
  // kernels that do not know the advice.
  if (::madvise(data(), size(), MADV_POPULATE_WRITE) == 0) return {};
  if (errno == EINVAL && ::fallocate(fd_.get(), 0, 0, static_cast<off_t>(size())) == 0) return {};
  return errno_status("filling " + std::to_string(size() >> 20) +
                          " MiB of shared memory (is there memory left? see `free -m`)",
                      Code::kResourceExhausted);
}

Status SharedMemory::commit() {
  PHUB_RETURN_IF_ERROR(populate());
  return seal_against_writers();
}

Status SharedMemory::seal_against_writers() {
  if (::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0) return {};
  return errno_status("sealing shared memory against writers");
}

Result<UniqueFd> SharedMemory::share() const {
  // What is sealed stays so: no reader of the others can be shut out.
  if (::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SEAL) != 0) {
    return errno_status("sealing shared memory against seals");
  }
  UniqueFd shared(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (!shared) return errno_status("a descriptor of shared memory", Code::kResourceExhausted);
  return shared;
}

Result<UniqueFd> SharedMemory::share_read_only() {
  PHUB_RETURN_IF_ERROR(seal_against_writers());
  const std::string path = "/proc/self/fd/" + std::to_string(fd_.get());
  UniqueFd shared(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!shared) return errno_status("reopening shared memory read-only (is /proc mounted?)");
  return shared;
}

}  // namespace phub
