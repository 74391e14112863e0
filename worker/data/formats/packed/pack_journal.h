// Which samples a packed file that is not finished holds for certain: what a writer after a crash
// goes on from.
//
// An entry is appended when its sample is on the disk. Each has a checksum, so the first that was
// not written whole is the end. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/data/formats/packed/pack_format.h"
#include "worker/data/formats/packed/partial_file.h"

namespace phub::data {

// What is packed: another source or other classes cannot go on with the file.
struct PackSource {
  std::uint64_t number = 0;
  std::uint32_t classes = 0;
  std::uint32_t names_crc = 0;
};

class PackJournal {
 public:
  // Opens the journal, or begins one. Errors: those of PartialFile; kFailedPrecondition for one of
  // another source or version, with the cure.
  static Result<PackJournal> open(const std::filesystem::path& path, const PackSource& source);

  // The entries whose samples lie whole in the first `data_bytes` bytes, in their order. Cuts what
  // is behind the `keep` first of them off.
  std::vector<PackEntry> entries(std::uint64_t data_bytes) const;
  Status keep(std::uint64_t entries);
  Status append(std::span<const PackEntry> entries);
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  explicit PackJournal(PartialFile file) : file_(std::move(file)) {}

  PartialFile file_;
  std::uint32_t classes_ = 0;
  std::uint64_t entries_ = 0;
};

}  // namespace phub::data
