// The members of a tar archive that is not compressed, by their headers alone: POSIX ustar and pax,
// and GNU's long names and large sizes.
//
// Strict: a checksum that is wrong, an archive without its end, and what a reader could take in two
// ways are errors. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "worker/data/formats/source_file.h"

namespace phub::data {

struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  // of its content in the archive
  std::uint64_t bytes = 0;
};

class TarReader {
 public:
  explicit TarReader(const ByteSource& file) : file_(&file), window_(file) {}

  // The next regular file; nothing at the archive's end. Errors: kDataLoss, and kInvalidArgument
  // for links and sparse files, which have no content of their own.
  Result<std::optional<TarMember>> next();
  // The content of a small member, valid until the next call. REQUIRES: the caller bounds it.
  Result<std::span<const std::uint8_t>> content(const TarMember& member) {
    return window_.at(member.offset, member.bytes);
  }
  // Where the next header begins, or the archive ends.
  std::uint64_t offset() const { return offset_; }

 private:
  // What a pax header, or GNU's L, says of the member that follows.
  struct Said {
    std::optional<std::string> name;
    std::optional<std::uint64_t> bytes;
  };
  Status take_pax(const TarMember& header, bool is_global);
  Status take_record(std::string_view record, bool is_global);
  Status take_long_name(const TarMember& header, bool is_own);
  // Takes what was said, checks where it ends and moves behind it. `type` is that of its header.
  Result<std::optional<TarMember>> finish(TarMember member, char type);
  Status check_end();

  const ByteSource* file_;
  FileWindow window_;
  std::uint64_t offset_ = 0;  // of the next header
  Said said_;
};

}  // namespace phub::data
