#include "worker/data/images/png_reader.h"

#include <png.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "worker/data/images/colours.h"

namespace phub::data {
namespace {

// A chunk that is kept: there are none but the palette.
constexpr png_alloc_size_t kChunkBytesMax = 64 * 1024;
constexpr png_uint_32 kChunksMax = 16;
// libpng keeps two rows, of up to 8 bytes a pixel.
constexpr std::uint32_t kWidthMax = 1'000'000;
// Deflate gives at most 1032 bytes for one.
constexpr std::uint64_t kInflatedMax = 1032;

std::string size_text(const ImageSize& size) {
  return std::to_string(size.width) + " x " + std::to_string(size.height) + " pixels";
}

Status damaged(const std::string& what) {
  return {Code::kDataLoss, "the PNG is damaged: " + what + "; fetch the file again"};
}

}  // namespace

void PngReader::on_error(png_structp png, png_const_charp text) {
  auto* const reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader->text_, sizeof(reader->text_), "%s", text);
  std::longjmp(reader->jump_, 1);  // NOLINT(cert-err52-cpp)
}

void PngReader::on_read(png_structp png, png_bytep bytes, std::size_t count) {
  auto* const reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader->file_.size() - reader->at_) png_error(png, "the file ends too early");
  std::memcpy(bytes, reader->file_.data() + reader->at_, count);
  reader->at_ += count;
}

template <typename Step>
Status PngReader::guard(Step&& step) {
  if (setjmp(jump_) != 0) {  // NOLINT(cert-err52-cpp)
    return damaged("libpng says \"" + std::string(text_) + "\"");
  }
  step();
  return {};
}

// Texts, colour profiles, transparency and all else that is no pixel is skipped unread.
void PngReader::set_limits() {
  png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER,
                              reinterpret_cast<png_const_bytep>("tRNS"), 1);
  png_set_chunk_malloc_max(png_, kChunkBytesMax);
  png_set_chunk_cache_max(png_, kChunksMax);
  png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
}

Result<ImageSize> PngReader::open(std::span<const std::uint8_t> file) {
  close();
  file_ = file;
  at_ = 0;
  png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
  if (png_ != nullptr) info_ = png_create_info_struct(png_);
  if (info_ == nullptr) {
    return Status(Code::kResourceExhausted, "libpng has no memory; give the process more");
  }
  PHUB_RETURN_IF_ERROR(guard([this] {
    png_set_read_fn(png_, this, on_read);
    set_limits();
    png_read_info(png_, info_);
  }));
  size_ = {png_get_image_width(png_, info_), png_get_image_height(png_, info_)};
  PHUB_RETURN_IF_ERROR(check_header());
  return size_;
}

// A short file that says that it is huge costs no memory.
Status PngReader::check_header() const {
  if (size_.pixels() > limits_.pixels_max) {
    return {Code::kResourceExhausted, "the PNG has " + size_text(size_) + ", and at most " +
                                          std::to_string(limits_.pixels_max) +
                                          " are allowed; make it smaller"};
  }
  if (size_.width > kWidthMax) {
    return {Code::kResourceExhausted, "the PNG has " + size_text(size_) +
                                          ", and a row has at most " + std::to_string(kWidthMax) +
                                          "; make it smaller"};
  }
  const std::uint64_t bits =
      std::uint64_t{png_get_bit_depth(png_, info_)} * png_get_channels(png_, info_);
  if (size_.pixels() * bits / 8 > kInflatedMax * file_.size()) {
    return damaged("its header says " + size_text(size_) + ", which its " +
                   std::to_string(file_.size()) + " bytes cannot hold");
  }
  return {};
}

// libpng's rows have 4 bytes a pixel (red, green, blue, any), or 1 where both are grey.
void PngReader::set_transformations() {
  const png_byte type = png_get_color_type(png_, info_);
  const bool is_colour = (type & PNG_COLOR_MASK_COLOR) != 0;
  is_grey_ = channels_ == 1 && !is_colour;
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
  if (!is_colour && png_get_bit_depth(png_, info_) < 8) png_set_expand_gray_1_2_4_to_8(png_);
  png_set_scale_16(png_);
  if (is_grey_) {
    png_set_strip_alpha(png_);
  } else {
    if (!is_colour) png_set_gray_to_rgb(png_);
    png_set_filler(png_, 0, PNG_FILLER_AFTER);
  }
  is_interlaced_ = png_set_interlace_handling(png_) > 1;
  png_read_update_info(png_, info_);
}

Result<RowPart> PngReader::start(const Wanted& wanted) {
  channels_ = wanted.channels;
  PHUB_RETURN_IF_ERROR(guard([this] { set_transformations(); }));
  const std::size_t bytes = std::size_t{size_.width} * (is_grey_ ? 1 : 4);
  PHUB_CHECK(png_get_rowbytes(png_, info_) == bytes, "libpng's rows have another size");
  row_.resize(bytes);
  const Window& window = wanted.window;
  columns_ = PixelRange::touched_by(window.left, window.width, size_.width);
  const auto rows = PixelRange::touched_by(window.top, window.height, size_.height);
  if (is_interlaced_) {
    PHUB_RETURN_IF_ERROR(read_interlaced());
  } else {
    PHUB_RETURN_IF_ERROR(guard([&] {
      for (std::uint32_t i = 0; i < rows.begin; ++i) png_read_row(png_, row_.data(), nullptr);
    }));
  }
  next_row_ = rows.begin;
  return RowPart{.columns = columns_.count(),
                 .rows = rows.count(),
                 .window = {.left = window.left - columns_.begin,
                            .top = window.top - rows.begin,
                            .width = window.width,
                            .height = window.height}};
}

// Each pass adds pixels to all rows.
Status PngReader::read_interlaced() {
  image_.assign(row_.size() * size_.height, 0);
  return guard([this] {
    for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; ++pass) {
      for (std::size_t i = 0; i < size_.height; ++i) {
        png_read_row(png_, image_.data() + i * row_.size(), nullptr);
      }
    }
  });
}

Status PngReader::read(std::uint8_t* rows, std::size_t stride, std::uint32_t count) {
  if (is_interlaced_) {
    for (std::uint32_t i = 0; i < count; ++i) {
      convert(image_.data() + (std::size_t{next_row_} + i) * row_.size(), rows + i * stride);
    }
    next_row_ += count;
    return {};
  }
  return guard([&] {
    for (std::uint32_t i = 0; i < count; ++i) {
      png_read_row(png_, row_.data(), nullptr);
      convert(row_.data(), rows + i * stride);
    }
  });
}

void PngReader::convert(const std::uint8_t* from, std::uint8_t* to) const {
  const std::size_t pixels = columns_.count();
  if (is_grey_) {
    std::memcpy(to, from + columns_.begin, pixels);
    return;
  }
  from += std::size_t{4} * columns_.begin;
  if (channels_ == 1) {
    colours_to_grey(from, pixels, to);
  } else {
    std::memcpy(to, from, 4 * pixels);
  }
}

void PngReader::close() {
  if (png_ != nullptr) png_destroy_read_struct(&png_, &info_, nullptr);
  png_ = nullptr;
  info_ = nullptr;
  image_ = {};
}

}  // namespace phub::data
