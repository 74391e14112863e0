// Reads JPEG files with libjpeg-turbo: only the window, and shrunk where that loses nothing. One
// owner, one thread.
//
// An image that is much larger than `out` is shrunk by 2, 4 or 8 while its blocks are transformed
// back. Its window stays at least as large as `out`. Rows above the window are only parsed, and
// columns beside it too.
#pragma once

#include "worker/data/images/jpeg_errors.h"
#include "worker/data/images/reader.h"

namespace phub::data {

// A progressive file may have any number of scans, and each costs a pass over the image.
inline constexpr int kJpegScansMax = 100;

class JpegReader final : public Reader {
 public:
  explicit JpegReader(DecodeLimits limits);
  ~JpegReader() override { close(); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  Result<ImageSize> open(std::span<const std::uint8_t> file) override;
  Result<RowPart> start(const Wanted& wanted) override;
  Status read(std::uint8_t* rows, std::size_t stride, std::uint32_t count) override;
  void close() override;

 private:
  Status create_codec();
  Status check_header(std::size_t file_bytes) const;
  Status choose_colours();

  DecodeLimits limits_;
  JpegErrors errors_;
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct codec_{};
  std::uint32_t channels_ = 0;
};

}  // namespace phub::data
