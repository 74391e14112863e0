// Writes a packed file (pack_format.h) beside its place, and renames it when it is whole.
//
// FILE.partial has the samples, FILE.partial.journal what is surely in it. After a writer that
// did not finish, the next one of the same source goes on: it keeps what was on the disk, which is
// all but the last batch_bytes. One thread; one writer of a file at a time among processes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "worker/data/formats/packed/pack_journal.h"

namespace phub::data {

struct PackWriterOptions {
  std::vector<std::string> classes{};
  // Any number that tells apart what is packed: a writer goes on only where it is the same.
  std::uint64_t source = 0;
  bool resume = true;  // false: begins anew
  // How much may have to be written again after a crash.
  std::uint64_t batch_bytes = 64ULL << 20U;
};

class PackWriter {
 public:
  // Errors: kInvalidArgument names a bound of the classes; kNotFound without the folder;
  // kFailedPrecondition while another writes, or for a partial file of another source.
  static Result<std::unique_ptr<PackWriter>> create(const std::filesystem::path& path,
                                                    const PackWriterOptions& options);
  // Keeps what was appended for the next writer, unless finish() was called.
  ~PackWriter();
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  // Those that the file has by now, with those that an earlier writer left: where to go on.
  std::uint64_t samples() const { return entries_.size(); }

  // Adds an image's bytes. `name` is what messages call it: any bytes; kMaxSampleNameBytes are
  // kept. Errors: kInvalidArgument; kResourceExhausted on a full disk, where the old file stays as
  // it was. After an error of writing every further call gives it again.
  Status append(std::span<const std::uint8_t> bytes, std::uint16_t label, std::string_view name);
  // Writes the index and puts the file into its place. REQUIRES: no further calls. Errors: as
  // append; kInvalidArgument without a sample.
  Status finish();

 private:
  PackWriter(const std::filesystem::path& path, const PackWriterOptions& options, std::string names,
             PartialFile file, PackJournal journal);
  Status take_kept();
  bool has_right_data(const PackEntry& entry);
  Status write_sample(const PackEntry& entry, std::span<const std::uint8_t> bytes,
                      std::string_view name);
  Status write_end();
  // Syncs the samples and then enters them into the journal.
  Status commit();

  std::filesystem::path path_;
  PackWriterOptions options_;
  std::string names_;  // of the classes, as the file has them
  PartialFile file_;
  PackJournal journal_;
  std::vector<PackEntry> entries_;
  std::uint64_t end_ = sizeof(PackHeader);  // where the next sample begins
  std::uint64_t committed_ = 0;             // samples in the journal
  std::uint64_t committed_end_ = sizeof(PackHeader);
  std::vector<std::uint8_t> block_;
  Status status_;
  bool is_finished_ = false;
};

}  // namespace phub::data
