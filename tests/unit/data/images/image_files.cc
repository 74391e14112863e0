#include "tests/unit/data/images/image_files.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
// libjpeg's header needs what is above.
#include <jpeglib.h>
#include <png.h>

namespace phub::data::test {
namespace {

// The weights of one output, from the first pixel that `begin` touches.
struct Weights {
  std::uint32_t first = 0;
  std::vector<double> values{};
};

Weights weights_of(double begin, double length, std::uint32_t pixels, std::uint32_t outputs,
                   std::uint32_t index) {
  const double scale = length / outputs;
  const auto first = static_cast<std::uint32_t>(std::floor(begin));
  const auto end = static_cast<std::uint32_t>(std::min<double>(std::ceil(begin + length), pixels));
  const double centre = begin + (index + 0.5) * scale;
  Weights weights{.first = first};
  double sum = 0;
  for (std::uint32_t p = first; p < end; ++p) {
    const double distance = std::fabs(p + 0.5 - centre) / std::max(scale, 1.0);
    weights.values.push_back(std::max(0.0, 1.0 - distance));
    sum += weights.values.back();
  }
  for (double& value : weights.values) value /= sum;
  return weights;
}

void write_rows(jpeg_compress_struct& codec, const Pixels& pixels) {
  Bytes row(std::size_t{pixels.size.width} * pixels.channels);
  while (codec.next_scanline < codec.image_height) {
    const std::uint8_t* const from = pixels.bytes.data() + codec.next_scanline * row.size();
    std::copy_n(from, row.size(), row.begin());
    JSAMPROW pointer = row.data();
    jpeg_write_scanlines(&codec, &pointer, 1);
  }
}

void append(png_structp png, png_bytep bytes, std::size_t count) {
  auto* const file = static_cast<Bytes*>(png_get_io_ptr(png));
  file->insert(file->end(), bytes, bytes + count);
}

}  // namespace

Pixels picture(ImageSize size, std::uint32_t channels) {
  Pixels pixels{.size = size, .channels = channels};
  std::mt19937 random(size.width * 31 + size.height);
  for (std::uint32_t y = 0; y < size.height; ++y) {
    for (std::uint32_t x = 0; x < size.width; ++x) {
      for (std::uint32_t c = 0; c < channels; ++c) {
        const double wave = std::sin(x * 0.13 + c) * 50 + std::cos(y * 0.11 - c * 0.5) * 50;
        const int edge = (x / 9 + y / 7 + c) % 3 == 0 ? 40 : 0;
        const int value = 110 + static_cast<int>(wave) + edge + static_cast<int>(random() % 9);
        pixels.bytes.push_back(static_cast<std::uint8_t>(std::clamp(value, 0, 255)));
      }
    }
  }
  return pixels;
}

Pixels plain(ImageSize size, std::vector<std::uint8_t> colour) {
  Pixels pixels{.size = size, .channels = static_cast<std::uint32_t>(colour.size())};
  for (std::uint64_t i = 0; i < size.pixels(); ++i) {
    pixels.bytes.insert(pixels.bytes.end(), colour.begin(), colour.end());
  }
  return pixels;
}

Bytes jpeg(const Pixels& pixels, const JpegKind& kind) {
  jpeg_compress_struct codec{};
  jpeg_error_mgr errors{};
  codec.err = jpeg_std_error(&errors);
  jpeg_create_compress(&codec);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&codec, &memory, &bytes);
  codec.image_width = pixels.size.width;
  codec.image_height = pixels.size.height;
  codec.input_components = static_cast<int>(pixels.channels);
  codec.in_color_space = pixels.channels == 1   ? JCS_GRAYSCALE
                         : pixels.channels == 3 ? JCS_RGB
                                                : JCS_CMYK;
  if (pixels.channels == 2) codec.in_color_space = JCS_UNKNOWN;
  jpeg_set_defaults(&codec);
  if (kind.is_rgb) jpeg_set_colorspace(&codec, JCS_RGB);
  if (kind.has_adobe_inks) jpeg_set_colorspace(&codec, JCS_YCCK);
  if (pixels.channels == 4) codec.write_Adobe_marker = kind.has_adobe_inks ? TRUE : FALSE;
  jpeg_set_quality(&codec, kind.quality, TRUE);
  codec.arith_code = kind.is_arithmetic ? TRUE : FALSE;
  codec.comp_info[0].h_samp_factor = pixels.channels == 3 ? kind.across : 1;
  codec.comp_info[0].v_samp_factor = pixels.channels == 3 ? kind.down : 1;
  if (kind.is_progressive) jpeg_simple_progression(&codec);
  std::vector<jpeg_scan_info> scans;
  if (kind.scans_more > 0) {
    scans.assign(codec.scan_info, codec.scan_info + codec.num_scans);
    // The first scan of all is the DC; each of these sends the AC of one channel from 1 to 63.
    scans.resize(1);
    for (int i = 0; i < kind.scans_more && i < 63; ++i) {
      scans.push_back(
          {.comps_in_scan = 1, .component_index = {0}, .Ss = i + 1, .Se = i + 1, .Ah = 0, .Al = 1});
    }
    for (int i = 0; i < kind.scans_more - 63 && i < 63; ++i) {
      scans.push_back(
          {.comps_in_scan = 1, .component_index = {0}, .Ss = i + 1, .Se = i + 1, .Ah = 1, .Al = 0});
    }
    codec.scan_info = scans.data();
    codec.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&codec, TRUE);
  const Bytes profile(std::min<std::size_t>(kind.profile_bytes, 65000), 7);
  for (std::size_t left = kind.profile_bytes; left > 0;) {
    const std::size_t count = std::min(left, profile.size());
    jpeg_write_marker(&codec, JPEG_APP0 + 2, profile.data(), static_cast<unsigned>(count));
    left -= count;
  }
  write_rows(codec, pixels);
  jpeg_finish_compress(&codec);
  jpeg_destroy_compress(&codec);
  Bytes file(memory, memory + bytes);
  std::free(memory);  // NOLINT: libjpeg's
  return file;
}

Pixels decoded_by_libjpeg(const Bytes& file, std::uint32_t channels) {
  jpeg_decompress_struct codec{};
  jpeg_error_mgr errors{};
  codec.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&codec);
  jpeg_mem_src(&codec, file.data(), file.size());
  jpeg_read_header(&codec, TRUE);
  codec.out_color_space = channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
  codec.do_block_smoothing = FALSE;
  jpeg_start_decompress(&codec);
  Pixels pixels{.size = {codec.output_width, codec.output_height}, .channels = channels};
  const std::size_t row_bytes = std::size_t{codec.output_width} * channels;
  pixels.bytes.resize(row_bytes * codec.output_height);
  while (codec.output_scanline < codec.output_height) {
    JSAMPROW row = pixels.bytes.data() + codec.output_scanline * row_bytes;
    jpeg_read_scanlines(&codec, &row, 1);
  }
  jpeg_finish_decompress(&codec);
  jpeg_destroy_decompress(&codec);
  return pixels;
}

Bytes png(ImageSize size, const PngKind& kind, const Bytes& rows) {
  Bytes file;
  png_structp writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(writer);
  REQUIRE(setjmp(png_jmpbuf(writer)) == 0);
  png_set_write_fn(writer, &file, append, nullptr);
  png_set_IHDR(writer, info, size.width, size.height, kind.bits, kind.colours,
               kind.is_interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (kind.colours == PNG_COLOR_TYPE_PALETTE) {
    std::vector<png_color> palette;
    for (int i = 0; i < 1 << kind.bits; ++i) {
      palette.push_back({static_cast<png_byte>(i * 5), static_cast<png_byte>(255 - i),
                         static_cast<png_byte>(i * 7)});
    }
    png_set_PLTE(writer, info, palette.data(), static_cast<int>(palette.size()));
  }
  png_write_info(writer, info);
  if (kind.text_bytes > 0) {
    const Bytes text(kind.text_bytes, 'x');
    png_write_chunk(writer, reinterpret_cast<png_const_bytep>("tEXt"), text.data(), text.size());
  }
  const std::array<png_byte, 8> frames_and_plays = {0, 0, 0, 2, 0, 0, 0, 0};
  if (kind.is_animated) {
    png_write_chunk(writer, reinterpret_cast<png_const_bytep>("acTL"), frames_and_plays.data(), 8);
  }
  std::vector<png_bytep> pointers;
  const std::size_t row_bytes = rows.size() / size.height;
  Bytes copy = rows;
  for (std::size_t y = 0; y < size.height; ++y) pointers.push_back(copy.data() + y * row_bytes);
  png_write_image(writer, pointers.data());
  if (kind.is_animated) {
    png_write_chunk(writer, reinterpret_cast<png_const_bytep>("fdAT"), frames_and_plays.data(), 8);
  }
  png_write_end(writer, info);
  png_destroy_write_struct(&writer, &info);
  return file;
}

Pixels resized(const Pixels& pixels, const Window& window, ImageSize out) {
  Pixels result{.size = out, .channels = pixels.channels};
  const ImageSize from = pixels.size;
  std::vector<Weights> columns;
  for (std::uint32_t x = 0; x < out.width; ++x) {
    columns.push_back(weights_of(window.left, window.width, from.width, out.width, x));
  }
  for (std::uint32_t y = 0; y < out.height; ++y) {
    const Weights down = weights_of(window.top, window.height, from.height, out.height, y);
    for (const Weights& across : columns) {
      for (std::uint32_t c = 0; c < pixels.channels; ++c) {
        double sum = 0;
        for (std::uint32_t j = 0; j < down.values.size(); ++j) {
          if (down.values[j] == 0) continue;
          for (std::uint32_t i = 0; i < across.values.size(); ++i) {
            if (across.values[i] == 0) continue;
            sum +=
                down.values[j] * across.values[i] * pixels.at(across.first + i, down.first + j, c);
          }
        }
        result.bytes.push_back(static_cast<std::uint8_t>(std::lround(sum)));
      }
    }
  }
  return result;
}

int difference(const Pixels& a, const Pixels& b) {
  REQUIRE(a.bytes.size() == b.bytes.size());
  int most = 0;
  for (std::size_t i = 0; i < a.bytes.size(); ++i) {
    most = std::max(most, std::abs(int{a.bytes[i]} - int{b.bytes[i]}));
  }
  return most;
}

}  // namespace phub::data::test
