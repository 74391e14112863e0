// The pixels of one image's file (JPEG or PNG): a window of it, resized.
//
// A decoder belongs to one thread. It keeps its scratch memory from image to image, so threads that
// decode many have one each. Nothing is shared between decoders.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "worker/data/images/geometry.h"
#include "worker/data/images/resizer.h"

namespace phub::data {

class Reader;

class Decoder {
 public:
  explicit Decoder(DecodeLimits limits = {});
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // The size of the whole image, from the file's header. Errors, which do not name the file:
  // - kDataLoss: the file is damaged, or is neither JPEG nor PNG
  // - kInvalidArgument: a kind of JPEG that is not decoded, for example with 12 bits a sample
  // - kResourceExhausted: it has more pixels than the limit
  Result<ImageSize> measure(std::span<const std::uint8_t> file);

  // Writes the window, resized to `out`, as bytes [row][column][channel]: 1 channel is grey, 3 are
  // red, green and blue. The filter is a triangle that is as wide as the scale (antialiased
  // bilinear, as torchvision's `resize` of a crop). Pixels outside the window are not used, apart
  // from what JPEG's chroma upsampling takes from its neighbours.
  //
  // Alpha is dropped, and neither orientations (EXIF) nor colour profiles are applied. Errors are
  // those of `measure`, and kInvalidArgument for a window that is not within the image. Damage that
  // lies behind the window's last row may remain unseen. After an error `pixels` is undefined.
  // REQUIRES: channels is 1 or 3; out has pixels; pixels.size() is out.pixels() * channels.
  Status decode(std::span<const std::uint8_t> file, const Window& window, std::uint32_t channels,
                ImageSize out, std::span<std::uint8_t> pixels);

 private:
  Result<Reader*> reader_of(std::span<const std::uint8_t> file) const;
  Status decode_rows(Reader& reader, std::uint32_t rows, std::uint32_t columns);

  DecodeLimits limits_;
  std::unique_ptr<Reader> jpeg_;
  std::unique_ptr<Reader> png_;
  Resizer resizer_;
  std::vector<std::uint8_t> rows_;  // what the reader gave last: kRowsAtOnce rows
};

}  // namespace phub::data
