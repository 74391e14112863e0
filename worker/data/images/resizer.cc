#include "worker/data/images/resizer.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "kernels/resize.h"

namespace phub::data {

void Resizer::start(const RowPart& part, std::uint32_t channels, ImageSize out,
                    std::span<std::uint8_t> pixels) {
  channels_ = channels;
  out_ = pixels.data();
  out_row_bytes_ = std::size_t{out.width} * channels;
  next_output_ = 0;
  rows_seen_ = 0;
  across_.assign({part.window.left, part.window.width}, part.columns, out.width);
  down_.assign({part.window.top, part.window.height}, part.rows, out.height);
  is_copy_ = across_.is_identity() && down_.is_identity();
  if (is_copy_) return;
  set_columns();
  ring_stride_ = out_row_bytes_ + kernels::kRowSlackElements;
  const std::size_t elements = ring_stride_ * down_.taps();
  if (ring_.size() < elements) ring_.resize(elements);
  blended_.resize(down_.taps());
}

std::uint32_t Resizer::column_taps() const {
  return channels_ == 3 ? kernels::taps_of_colours(across_.taps()) : across_.taps();
}

// Repeats weights for each channel of a pixel, and adds some of 0 for the vectors.
void Resizer::set_columns() {
  const std::uint32_t outputs = across_.outputs();
  const std::uint32_t copies = channels_ == 3 ? 4 : 1;
  const std::uint32_t taps = column_taps();
  const std::size_t outputs_even = outputs + outputs % 2;
  first_.assign(outputs_even, 0);
  column_weights_.assign(outputs_even * taps * copies, 0);
  std::uint16_t* weights = column_weights_.data();
  for (std::uint32_t i = 0; i < outputs; ++i, weights += std::size_t{taps} * copies) {
    first_[i] = across_.first(i);
    for (std::uint32_t t = 0; t < across_.taps(); ++t) {
      std::fill_n(weights + std::size_t{t} * copies, copies, across_.weights(i)[t]);
    }
  }
}

void Resizer::add_row(const std::uint8_t* row) {
  const std::uint32_t index = rows_seen_++;
  if (next_output_ == down_.outputs()) return;
  if (is_copy_) {
    if (index >= down_.first(next_output_)) copy_row(row);
    return;
  }
  const std::uint32_t taps = down_.taps();
  const kernels::Columns columns{.outputs = across_.outputs(),
                                 .taps = column_taps(),
                                 .first = first_.data(),
                                 .weights = column_weights_.data()};
  std::uint16_t* const resized = ring_.data() + index % taps * ring_stride_;
  if (channels_ == 3) {
    kernels::resample_colours(row, columns, resized);
  } else {
    kernels::resample_grey(row, columns, resized);
  }
  const auto bias = static_cast<std::uint16_t>(
      kernels::bias_of(taps) + (channels_ == 3 ? kernels::bias_of(across_.taps()) : 0));
  for (; next_output_ < down_.outputs(); ++next_output_, out_ += out_row_bytes_) {
    const std::uint32_t first = down_.first(next_output_);
    if (first + taps > rows_seen_) return;
    for (std::uint32_t t = 0; t < taps; ++t) {
      blended_[t] = ring_.data() + (first + t) % taps * ring_stride_;
    }
    kernels::blend_rows(blended_.data(), down_.weights(next_output_), taps, bias,
                        {out_, out_row_bytes_});
  }
}

void Resizer::copy_row(const std::uint8_t* row) {
  const std::size_t pixel = bytes_of_pixel(channels_);
  const std::uint8_t* const from = row + across_.first(0) * pixel;
  if (channels_ == 1) {
    std::memcpy(out_, from, out_row_bytes_);
  } else {
    kernels::copy_colours(from, across_.outputs(), out_);
  }
  out_ += out_row_bytes_;
  ++next_output_;
}

}  // namespace phub::data
