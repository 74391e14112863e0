#include "worker/data/images/png_writer.h"

#include <png.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace phub::data {
namespace {

Status failed(const std::string& what) {
  const bool is_full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
  return errno_status(what, is_full ? Code::kResourceExhausted : Code::kPermissionDenied);
}

struct Closed {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Status write_bytes(const std::string& path, std::span<const std::uint8_t> bytes) {
  errno = 0;
  std::unique_ptr<std::FILE, Closed> file(std::fopen(path.c_str(), "wbe"));
  if (!file) return failed("cannot write " + path + "; make its folder, or choose another");
  const std::size_t written = std::fwrite(bytes.data(), 1, bytes.size(), file.get());
  if (written != bytes.size() || std::fflush(file.get()) != 0)
    return failed("cannot write " + path);
  return {};
}

// The largest size that a PNG of these pixels can have is known, so one call is enough.
Result<std::vector<std::uint8_t>> encoded(ImageSize size, std::uint32_t channels,
                                          std::span<const std::uint8_t> pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = size.width;
  image.height = size.height;
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<std::uint8_t> file(bytes);
  if (png_image_write_to_memory(&image, file.data(), &bytes, 0, pixels.data(), 0, nullptr) == 0) {
    const std::string text = static_cast<const char*>(image.message);
    png_image_free(&image);
    return Status(Code::kInvalidArgument, "libpng says \"" + text + "\"; make the image smaller");
  }
  file.resize(bytes);
  return file;
}

}  // namespace

Status write_png(const std::filesystem::path& path, ImageSize size, std::uint32_t channels,
                 std::span<const std::uint8_t> pixels) {
  PHUB_CHECK(channels == 1 || channels == 3, "an image has 1 or 3 channels");
  PHUB_CHECK(size.pixels() > 0 && pixels.size() == size.pixels() * channels,
             "the pixels do not have the image's size");
  const auto file = encoded(size, channels, pixels);
  if (!file) return file.error().with_context(path.string());
  const std::string unfinished = path.string() + ".tmp." + std::to_string(::getpid());
  Status status = write_bytes(unfinished, *file);
  if (status.ok() && std::rename(unfinished.c_str(), path.c_str()) != 0) {
    status = failed("cannot rename " + unfinished + " to " + path.string());
  }
  if (!status.ok()) ::unlink(unfinished.c_str());
  return status;
}

}  // namespace phub::data
