// Resizes an image of which the rows arrive one after another. One owner, one thread.
//
// Each row is resized along its columns at once, and an output row is written when the last of its
// rows is there. So the memory is a few rows, whatever the image's height: as many as the filter
// sums for one output row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/data/images/geometry.h"
#include "worker/data/images/reader.h"
#include "worker/data/images/triangle_filter.h"

namespace phub::data {

// What a row has for each pixel: see Reader::read.
constexpr std::size_t bytes_of_pixel(std::uint32_t channels) { return channels == 3 ? 4 : 1; }

class Resizer {
 public:
  // REQUIRES: channels is 1 or 3; `pixels` has out.pixels() * channels bytes, which stay until the
  // last row is added.
  void start(const RowPart& part, std::uint32_t channels, ImageSize out,
             std::span<std::uint8_t> pixels);
  // The next row of the part, of which kernels::kRowSlackBytes more can be read.
  void add_row(const std::uint8_t* row);

 private:
  std::uint32_t column_taps() const;
  void set_columns();
  void copy_row(const std::uint8_t* row);

  std::uint32_t channels_ = 0;
  std::uint8_t* out_ = nullptr;  // the next output row
  std::size_t out_row_bytes_ = 0;
  std::uint32_t next_output_ = 0;
  std::uint32_t rows_seen_ = 0;
  bool is_copy_ = false;  // nothing is resized

  TriangleFilter across_;
  TriangleFilter down_;
  std::vector<std::uint32_t> first_;           // see kernels::Columns
  std::vector<std::uint16_t> column_weights_;  // see kernels::Columns
  // A ring of rows between the passes, and the ones that an output row is made of.
  std::vector<std::uint16_t> ring_;
  std::size_t ring_stride_ = 0;
  std::vector<const std::uint16_t*> blended_;
};

}  // namespace phub::data
