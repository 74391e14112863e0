// Scalars for TensorBoard: an event file in a folder that it watches.
//
// The format is TFRecord: for each record its length (8 bytes, little-endian), the masked CRC-32C
// of the length, the record, its masked CRC-32C; each record an Event of proto/tensorboard.proto.
// Masked: rotated right by 15 bits, plus 0xA282EAD8 (tensorflow/core/lib/hash/crc32c.h). Owned and
// called by the trainer's thread. A failed write is reported once, by close().
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace phub::train {

struct Scalar {
  const char* tag;
  double value;
};

class EventFile {
 public:
  // Whether open can work: makes the folder.
  static Status check(const std::filesystem::path& folder);
  // Makes the folder if it is not there, and a new file in it: those of earlier runs stay.
  static Result<std::unique_ptr<EventFile>> open(const std::filesystem::path& folder);

  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // This run goes on at `step`: TensorBoard shows nothing that earlier runs wrote from there on.
  void resume_at(std::uint64_t step);
  // Readable by others on return.
  void add(std::uint64_t step, const std::vector<Scalar>& scalars);
  Status close();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit EventFile(const std::filesystem::path& path)
      : path_(path), file_(path, std::ios::out | std::ios::binary | std::ios::trunc) {}
  void write(std::string_view record);

  std::filesystem::path path_;
  std::ofstream file_;
};

// CRC-32C (Castagnoli; RFC 3720, appendix B.4), masked as above.
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace phub::train
