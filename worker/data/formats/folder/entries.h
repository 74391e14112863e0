// What a folder has, in the order in which the file system tells it.
//
// One thread; it moves the descriptor's place. Errors name the path.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <vector>

#include "common/base/status.h"
#include "worker/data/formats/source_file.h"

namespace phub::data {

// DT_REG, DT_DIR and so on. The file is asked where the folder does not tell.
unsigned char kind_of(int folder, const dirent64& entry);

// Memory for a reader of folders. Each system call fills it: a large one saves calls.
class EntryBuffer {
 public:
  EntryBuffer() : bytes_(kBytes) {}

  // The next entries, which the following call overwrites; 0: there are no more, -1: errno.
  ssize_t fill(int folder) { return ::getdents64(folder, bytes_.data(), bytes_.size()); }
  const dirent64& at(std::size_t place) const {
    return *reinterpret_cast<const dirent64*>(bytes_.data() + place);
  }

 private:
  static constexpr std::size_t kBytes = 128U << 10U;

  std::vector<char> bytes_;  // of operator new, so it is aligned for any entry
};

// Calls `visit` with each entry whose name does not begin with a dot, and `pause` from time to
// time. An error of either ends the listing.
template <typename Visit, typename Pause>
Status for_each_entry(int folder, const std::filesystem::path& path, EntryBuffer& buffer,
                      const Visit& visit, const Pause& pause) {
  if (::lseek(folder, 0, SEEK_SET) != 0) return errno_status("cannot list " + printable(path));
  while (true) {
    const ssize_t filled = buffer.fill(folder);
    if (filled < 0) return errno_status("cannot list " + printable(path), Code::kDataLoss);
    if (filled == 0) return {};
    for (std::size_t place = 0; place < static_cast<std::size_t>(filled);) {
      const dirent64& entry = buffer.at(place);
      place += entry.d_reclen;
      if (entry.d_name[0] == '.') continue;
      PHUB_RETURN_IF_ERROR(visit(&entry.d_name[0], kind_of(folder, entry)));
    }
    PHUB_RETURN_IF_ERROR(pause());
  }
}

}  // namespace phub::data
