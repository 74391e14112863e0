#include "worker/data/images/jpeg_reader.h"

#include <algorithm>
#include <array>
#include <string>

#include "worker/data/images/colours.h"

namespace phub::data {
namespace {

// Upsampling of the chroma takes a neighbour's value: these columns beside the window make its own
// the same as if the whole image were decoded.
constexpr std::uint32_t kColumnsBeside = 2;
constexpr std::uint32_t kEighths = 8;

void on_progress(j_common_ptr codec) {
  if (codec->is_decompressor == 0) return;
  const int scans = reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number;
  if (scans <= kJpegScansMax) return;
  static_cast<JpegErrors*>(codec->client_data)
      ->refuse("the JPEG has more than 100 scans; save it as a baseline JPEG");
}

// The smallest of the sizes that libjpeg-turbo makes fast (1, 2, 4 or 8 eighths) in which the
// window has the pixels of `out`.
std::uint32_t eighths_for(const Window& window, const ImageSize& out) {
  std::uint32_t eighths = 1;
  while (eighths < kEighths &&
         (window.width * eighths < out.width * 8.0 || window.height * eighths < out.height * 8.0)) {
    eighths *= 2;
  }
  return eighths;
}

std::string size_text(const jpeg_decompress_struct& codec) {
  return std::to_string(codec.image_width) + " x " + std::to_string(codec.image_height) + " pixels";
}

}  // namespace

JpegReader::JpegReader(DecodeLimits limits) : limits_(limits) {
  codec_.err = errors_.manager();
  codec_.client_data = &errors_;
  progress_.progress_monitor = on_progress;
}

// Each file has a codec of its own, which takes 1 us: tables of another file would stay in it, and
// a file without its own would be decoded with them.
Status JpegReader::create_codec() {
  PHUB_RETURN_IF_ERROR(errors_.guard([this] { jpeg_create_decompress(&codec_); }));
  codec_.progress = &progress_;
  constexpr std::uint64_t kRowsBytes = std::uint64_t{64} << 20U;
  constexpr std::uint64_t kPixelBytes = 8;  // coefficients of four channels
  const std::uint64_t pixels = std::min(limits_.pixels_max, std::uint64_t{1} << 32U);
  codec_.mem->max_memory_to_use = static_cast<long>(kRowsBytes + kPixelBytes * pixels);
  return {};
}

Result<ImageSize> JpegReader::open(std::span<const std::uint8_t> file) {
  close();
  PHUB_RETURN_IF_ERROR(create_codec());
  PHUB_RETURN_IF_ERROR(errors_.guard([&] {
    jpeg_mem_src(&codec_, file.data(), file.size());
    jpeg_read_header(&codec_, TRUE);
  }));
  PHUB_RETURN_IF_ERROR(check_header(file.size()));
  return ImageSize{codec_.image_width, codec_.image_height};
}

// A block of 64 samples takes a bit at least, unless it is coded arithmetically. So a short file
// that says that it is huge costs no memory.
Status JpegReader::check_header(std::size_t file_bytes) const {
  const ImageSize size{codec_.image_width, codec_.image_height};
  if (size.pixels() > limits_.pixels_max) {
    return {Code::kResourceExhausted, "the JPEG has " + size_text(codec_) + ", and at most " +
                                          std::to_string(limits_.pixels_max) +
                                          " are allowed; make it smaller"};
  }
  std::uint64_t blocks = 0;
  for (int i = 0; i < codec_.num_components; ++i) {
    const jpeg_component_info& component = codec_.comp_info[i];
    blocks += std::uint64_t{component.width_in_blocks} * component.height_in_blocks;
  }
  if (codec_.arith_code == 0 && blocks > std::uint64_t{file_bytes} * 8) {
    return {Code::kDataLoss, "the JPEG is damaged: its header says " + size_text(codec_) +
                                 ", which its " + std::to_string(file_bytes) +
                                 " bytes cannot hold; fetch the file again"};
  }
  return {};
}

// Inks are converted here, all else by libjpeg.
Status JpegReader::choose_colours() {
  const J_COLOR_SPACE from = codec_.jpeg_color_space;
  if (from == JCS_CMYK || from == JCS_YCCK) {
    codec_.out_color_space = JCS_CMYK;
  } else if (from == JCS_GRAYSCALE || from == JCS_YCbCr || from == JCS_RGB) {
    codec_.out_color_space = channels_ == 3 ? JCS_EXT_RGBX : JCS_GRAYSCALE;
  } else {
    return {Code::kInvalidArgument, "this kind of JPEG is not decoded: the colours of its " +
                                        std::to_string(codec_.num_components) +
                                        " channels are unknown; convert it "
                                        "(`magick in.jpg -colorspace sRGB out.jpg`)"};
  }
  return {};
}

Result<RowPart> JpegReader::start(const Wanted& wanted) {
  channels_ = wanted.channels;
  PHUB_RETURN_IF_ERROR(choose_colours());
  const std::uint32_t eighths = eighths_for(wanted.window, wanted.out);
  codec_.scale_num = eighths;
  codec_.scale_denom = kEighths;
  codec_.do_block_smoothing = FALSE;
  PHUB_RETURN_IF_ERROR(errors_.guard([this] { jpeg_start_decompress(&codec_); }));
  const double scale = static_cast<double>(eighths) / kEighths;
  Window window{.left = wanted.window.left * scale,
                .top = wanted.window.top * scale,
                .width = wanted.window.width * scale,
                .height = wanted.window.height * scale};
  const std::uint32_t width = codec_.output_width;
  const auto columns = PixelRange::touched_by(window.left, window.width, width);
  const auto rows = PixelRange::touched_by(window.top, window.height, codec_.output_height);
  JDIMENSION left = columns.begin - std::min(columns.begin, kColumnsBeside);
  JDIMENSION count = std::min(columns.end + kColumnsBeside - left, width);
  left = std::min(left, width - count);
  PHUB_RETURN_IF_ERROR(errors_.guard([&] {
    jpeg_crop_scanline(&codec_, &left, &count);
    jpeg_skip_scanlines(&codec_, rows.begin);
  }));
  window.left -= left;
  window.top -= rows.begin;
  return RowPart{.columns = codec_.output_width, .rows = rows.count(), .window = window};
}

Status JpegReader::read(std::uint8_t* rows, std::size_t stride, std::uint32_t count) {
  constexpr std::uint32_t kRowsOfCall = 16;
  for (std::uint32_t done = 0; done < count;) {
    std::array<JSAMPROW, kRowsOfCall> pointers{};
    const std::uint32_t wanted = std::min(count - done, kRowsOfCall);
    for (std::uint32_t i = 0; i < wanted; ++i) pointers[i] = rows + (done + i) * stride;
    PHUB_RETURN_IF_ERROR(errors_.guard([&] {
      for (std::uint32_t i = 0; i < wanted;) {
        i += jpeg_read_scanlines(&codec_, pointers.data() + i, wanted - i);
      }
    }));
    done += wanted;
  }
  if (codec_.out_color_space != JCS_CMYK) return {};
  // Adobe's programs write inks inverted.
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint8_t* const row = rows + i * stride;
    inks_to_colours(row, codec_.output_width, codec_.saw_Adobe_marker != 0);
    if (channels_ == 1) colours_to_grey(row, codec_.output_width, row);
  }
  return {};
}

void JpegReader::close() { jpeg_destroy_decompress(&codec_); }

}  // namespace phub::data
