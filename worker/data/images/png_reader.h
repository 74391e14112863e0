// Reads PNG files with libpng. One owner, one thread.
//
// Rows above the window are inflated and left out, and those below it are not looked at. The image
// of an animated file is its first. An interlaced image is read whole.
#pragma once

#include <csetjmp>
#include <vector>

#include "worker/data/images/reader.h"

// libpng's own names for its state.
extern "C" {
struct png_struct_def;
struct png_info_def;
}

namespace phub::data {

class PngReader final : public Reader {
 public:
  explicit PngReader(DecodeLimits limits) : limits_(limits) {}
  ~PngReader() override { close(); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  Result<ImageSize> open(std::span<const std::uint8_t> file) override;
  Result<RowPart> start(const Wanted& wanted) override;
  Status read(std::uint8_t* rows, std::size_t stride, std::uint32_t count) override;
  void close() override;

 private:
  static void on_error(png_struct_def* png, const char* text);
  static void on_warning(png_struct_def* /*png*/, const char* /*text*/) {}
  static void on_read(png_struct_def* png, std::uint8_t* bytes, std::size_t count);

  // Calls `step`, in which libpng may end with an error. REQUIRES: `step` owns nothing when it
  // calls libpng: destructors do not run.
  template <typename Step>
  Status guard(Step&& step);
  void set_limits();
  void set_transformations();
  Status check_header() const;
  Status read_interlaced();
  void convert(const std::uint8_t* from, std::uint8_t* to) const;

  DecodeLimits limits_;
  png_struct_def* png_ = nullptr;
  png_info_def* info_ = nullptr;
  std::span<const std::uint8_t> file_;
  std::size_t at_ = 0;
  std::jmp_buf jump_{};
  char text_[128] = {};

  ImageSize size_;
  std::uint32_t channels_ = 0;
  bool is_grey_ = false;  // the rows that libpng gives have one byte a pixel
  bool is_interlaced_ = false;
  PixelRange columns_;
  std::uint32_t next_row_ = 0;
  std::vector<std::uint8_t> row_;    // a whole row
  std::vector<std::uint8_t> image_;  // all rows, of an interlaced image
};

}  // namespace phub::data
