#include "worker/data/cache/store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "worker/data/cache/folder.h"
#include "worker/data/formats/sample_set.h"
#include "worker/data/formats/source_file.h"

namespace phub::data::cache {
namespace {

namespace fs = std::filesystem;

// What a process takes of the data at a time. At its end the rest remains a gap.
constexpr std::uint64_t kLeastTaken = 64ULL << 10U, kMostTaken = 8ULL << 20U;
constexpr std::uint64_t kShareTaken = 64;  // of the limit

bool write_fully(int fd, std::uint64_t offset, std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

template <typename T>
std::span<const std::uint8_t> octets(const T& value) {
  return {reinterpret_cast<const std::uint8_t*>(&value), sizeof(value)};
}

UniqueFd opened(const fs::path& path, int flags) {
  return UniqueFd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600));
}

}  // namespace

SampleStore::SampleStore(const StoreSubject& subject, StorePlace place, Note note)
    : subject_(subject),
      place_(std::move(place)),
      note_(std::move(note)),
      path_(place_.folder / fmt::format("{:016x}-{}", subject.number, subject.content)) {}

Result<std::unique_ptr<SampleStore>> SampleStore::open(const StoreSubject& subject,
                                                       const StorePlace& place, Note note) {
  std::unique_ptr<SampleStore> store(new SampleStore(subject, place, std::move(note)));
  Removal removal;
  PHUB_ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::take(place.folder));
  removal.add_remnants(place.folder);
  std::error_code error;
  if (!fs::exists(store->path_, error)) PHUB_RETURN_IF_ERROR(store->make_files());
  Status status = store->open_files();
  // A crash may leave files without their contents. That is no reason not to train.
  if (status.code() == Code::kDataLoss) {
    PHUB_RETURN_IF_ERROR(removal.add(store->path_));
    if (store->note_) store->note_(place.field + ": " + status.message() + "; it is made anew");
    PHUB_RETURN_IF_ERROR(store->make_files());
    status = store->open_files();
  }
  PHUB_RETURN_IF_ERROR(status);
  return store;
}

SampleStore::~SampleStore() {
  if (!place_.is_temporary || !index_) return;
  Removal removal;
  const auto lock = FolderLock::take(place_.folder);
  if (!lock) return;
  index_.reset();
  (void)removal.add(path_);  // kFailedPrecondition: others use it
}

// Beside its place, so that nobody sees half of it.
Status SampleStore::make_files() const {
  const fs::path partial = path_.native() + kPartialEnding;
  std::error_code error;
  fs::remove_all(partial, error);
  fs::create_directory(partial, error);
  if (error) {
    return {Code::kNotFound, "cannot make " + printable(partial) + ": " + error.message()};
  }
  StoreHeader header{.samples = subject_.samples, .number = subject_.number};
  std::memcpy(header.magic, kStoreMagic.data(), kStoreMagic.size());
  header.crc = header.right_crc();
  const UniqueFd about = opened(partial / kAboutFile, O_CREAT);
  const UniqueFd data = opened(partial / kDataFile, O_CREAT);
  const UniqueFd index = opened(partial / kIndexFile, O_CREAT);
  const std::span<const std::uint8_t> text(
      reinterpret_cast<const std::uint8_t*>(subject_.about.data()), subject_.about.size());
  const bool is_made =
      about && data && index && write_fully(about.get(), 0, text) &&
      ::ftruncate(index.get(), static_cast<off_t>(place_of(subject_.samples))) == 0 &&
      write_fully(index.get(), 0, octets(header)) && ::fsync(index.get()) == 0;
  if (!is_made) return errno_status("cannot make " + printable(partial), Code::kResourceExhausted);
  fs::rename(partial, path_, error);
  if (!error) return {};
  return {Code::kInternal, "cannot rename " + printable(partial) + ": " + error.message()};
}

// kDataLoss: it is damaged.
Status SampleStore::open_files() {
  index_ = opened(path_ / kIndexFile, 0);
  data_ = index_ ? opened(path_ / kDataFile, 0) : UniqueFd();
  if (!data_ && errno != ENOENT) {
    return errno_status("cannot open " + printable(path_), Code::kNotFound);
  }
  StoreHeader header;
  if (!data_ ||
      !read_fully(index_.get(), 0, {reinterpret_cast<std::uint8_t*>(&header), sizeof(header)}) ||
      std::memcmp(header.magic, kStoreMagic.data(), kStoreMagic.size()) != 0 ||
      header.crc != header.right_crc()) {
    index_.reset();
    return {Code::kDataLoss, printable(path_) + " is damaged"};
  }
  if (header.version != kStoreVersion) {
    return {Code::kFailedPrecondition,
            fmt::format("{}: {} has version {}, and this program has version {}; remove it, or all "
                        "unused copies by `phub-worker cache clear {}`",
                        place_.field, printable(path_), header.version, kStoreVersion,
                        printable(place_.folder))};
  }
  if (header.samples != subject_.samples || header.number != subject_.number) {
    index_.reset();
    return {Code::kDataLoss, printable(path_) + " is of another set"};
  }
  PHUB_RETURN_IF_ERROR(lock_index());
  // The time says when it was used last.
  if (::futimens(index_.get(), nullptr) != 0) {
    return errno_status("cannot set the time of " + printable(path_ / kIndexFile));
  }
  return {};
}

// Somebody may just be looking whether it is used.
Status SampleStore::lock_index() const {
  constexpr int kTries = 200;
  constexpr std::chrono::milliseconds kPause{5};
  for (int i = 0; ::flock(index_.get(), LOCK_SH | LOCK_NB) != 0; ++i) {
    if (i == kTries) return errno_status("cannot lock " + printable(path_ / kIndexFile));
    std::this_thread::sleep_for(kPause);
  }
  return {};
}

std::optional<StoreEntry> SampleStore::find(std::uint64_t sample) const {
  StoreEntry entry;
  const bool is_read = read_fully(index_.get(), place_of(sample),
                                  {reinterpret_cast<std::uint8_t*>(&entry), sizeof(entry)});
  if (!is_read || !is_right(entry, sample)) return std::nullopt;
  return entry;
}

bool SampleStore::read(const StoreEntry& entry, std::uint64_t offset,
                       std::span<std::uint8_t> into) const {
  return offset <= entry.bytes && into.size() <= entry.bytes - offset &&
         read_fully(data_.get(), entry.offset + offset, into);
}

std::optional<std::span<const std::uint8_t>> SampleStore::read(
    std::uint64_t sample, std::vector<std::uint8_t>& buffer) const {
  const auto entry = find(sample);
  if (!entry) return std::nullopt;
  buffer.resize(entry->bytes);
  const std::span<const std::uint8_t> content(buffer);
  if (!read(*entry, 0, buffer) || crc32c(std::as_bytes(content)) != entry->content_crc) {
    return std::nullopt;
  }
  return content;
}

void SampleStore::keep(std::uint64_t sample, std::span<const std::uint8_t> content) {
  (void)write(sample, content);  // without room it is not kept
}

void SampleStore::replace(std::uint64_t sample, std::span<const std::uint8_t> content) {
  const auto kept = find(sample);
  if (kept && kept->bytes == content.size() &&
      kept->content_crc == crc32c(std::as_bytes(content))) {
    return;
  }
  if (write(sample, content) || !kept) return;
  (void)write_fully(index_.get(), place_of(sample), octets(StoreEntry()));
}

// False: there is no room, or the files cannot be written, which is noted.
bool SampleStore::write(std::uint64_t sample, std::span<const std::uint8_t> content) {
  if (is_over_.load(std::memory_order_relaxed) || content.empty() ||
      content.size() > kMaxSampleBytes) {
    return false;
  }
  const auto offset = place_for(content.size());
  if (!offset) return false;
  StoreEntry entry{.offset = *offset,
                   .bytes = static_cast<std::uint32_t>(content.size()),
                   .content_crc = crc32c(std::as_bytes(content))};
  entry.crc = entry.right_crc(sample);
  // The entry comes last: what has one is there.
  if (!write_fully(data_.get(), *offset, content) ||
      !write_fully(index_.get(), place_of(sample), octets(entry))) {
    stop(errno_status("cannot write " + printable(path_)).message());
    return false;
  }
  kept_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

std::optional<std::uint64_t> SampleStore::place_for(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (end_ - next_ < bytes && !grow(bytes)) return std::nullopt;
  const std::uint64_t place = next_;
  next_ += bytes;
  return place;
}

bool SampleStore::grow(std::uint64_t bytes) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kPatience{5}, kPause{60};
  if (is_over_.load(std::memory_order_relaxed) || Clock::now() < locks_again_) return false;
  Removal removal;
  const auto lock = FolderLock::take(place_.folder, kPatience);
  if (!lock) {
    locks_again_ = Clock::now() + kPause;
    return false;
  }
  struct stat found {};
  if (::fstat(data_.get(), &found) != 0) {
    stop(errno_status("fstat of " + printable(path_)).message());
    return false;
  }
  const auto size = static_cast<std::uint64_t>(found.st_size);
  // Where nobody else has written behind it, the rest is used too. It is less than a content.
  const std::uint64_t rest = size == end_ ? end_ - next_ : 0;
  const std::uint64_t usual = std::clamp(place_.bytes_max / kShareTaken, kLeastTaken, kMostTaken);
  std::uint64_t more = (usual + bytes - 1) / bytes * bytes - rest;
  if (!free_for(place_.folder, more, place_.bytes_max, removal)) more = bytes - rest;
  if (!free_for(place_.folder, more, place_.bytes_max, removal)) {
    stop(fmt::format("{} has {} MiB, and its limit is {} MiB", printable(place_.folder),
                     bytes_in(place_.folder) >> 20U, place_.bytes_max >> 20U));
    return false;
  }
  if (::ftruncate(data_.get(), static_cast<off_t>(size + more)) != 0) {
    stop(errno_status("cannot enlarge " + printable(path_)).message());
    return false;
  }
  next_ = size - rest;
  end_ = size + more;
  return true;
}

void SampleStore::stop(const std::string& why) {
  if (is_over_.exchange(true) || !note_) return;
  note_(fmt::format("{}: {}; {} images were added, and others are read as without a cache",
                    place_.field, why, kept()));
}

}  // namespace phub::data::cache
