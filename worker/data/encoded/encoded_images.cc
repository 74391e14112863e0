#include "worker/data/encoded/encoded_images.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "worker/data/encoded/damage.h"
#include "worker/data/images/decoder.h"
#include "worker/data/images/window_resizer.h"

namespace phub::data {
namespace {

class EncodedImages : public Images {
 public:
  EncodedImages(std::unique_ptr<SampleSet> set, EncodedOptions options)
      : set_(std::move(set)),
        options_(std::move(options)),
        damage_(options_.damaged_max, options_.note) {
    options_.facts.classes = static_cast<std::uint32_t>(set_->classes().size());
  }

  const ImageFacts& facts() const override { return options_.facts; }
  std::uint64_t images() const override { return set_->samples(); }
  std::uint16_t label(std::uint64_t image) const override { return set_->label(image); }
  std::string class_name(std::uint16_t label) const override { return set_->classes()[label]; }
  std::unique_ptr<ImageReader> reader() const override { return std::make_unique<Reader>(*this); }
  ReadCounts reads() const override {
    ReadCounts counts = set_->reads();
    if (!options_.decoded) return counts;
    counts.memory = from_memory_.load(std::memory_order_relaxed);
    const std::uint64_t decoded = decoded_anew_.load(std::memory_order_relaxed);
    counts.source = decoded - std::min(decoded, counts.disk);
    return counts;
  }

 private:
  class Reader : public ImageReader {
   public:
    explicit Reader(const EncodedImages& set)
        : set_(set),
          out_{set.options_.facts.width, set.options_.facts.height},
          pixels_(set.options_.facts.image_bytes()) {}

    Result<Image> read(std::uint64_t image, CounterRandom* random) override {
      for (std::uint64_t tried = 0; tried < set_.images(); ++tried) {
        const Status status = decode(image, random);
        if (status.ok()) return Image{pixels_, set_.set_->label(image), receipt_};
        if (is_of_set_) return status;
        PHUB_RETURN_IF_ERROR(set_.damage_.report(image, status));
        image = (image + 1) % set_.images();
      }
      return Status(Code::kDataLoss, "no image of the set can be read: see the messages before");
    }

   private:
    // Each attempt draws the same numbers. Errors name the image.
    Status decode(std::uint64_t image, const CounterRandom* random) {
      DecodedImages* const decoded = set_.options_.decoded.get();
      if (decoded != nullptr && view_kept(*decoded, image, random)) {
        set_.from_memory_.fetch_add(1, std::memory_order_relaxed);
        receipt_ = {};
        return {};
      }
      is_of_set_ = false;
      const auto file = set_.set_->deliver(image, file_, receipt_);
      if (!file) {
        const Code code = file.error().code();
        is_of_set_ = code == Code::kUnavailable || code == Code::kInvalidArgument;
        return file.error();
      }
      Status status = show(image, *file, random);
      if (!status.ok() && set_.set_->has_copies()) status = show_anew(image, status, random);
      return status.ok() ? status : status.with_context(set_.set_->name(image));
    }

    Status show(std::uint64_t image, std::span<const std::uint8_t> file,
                const CounterRandom* random) {
      DecodedImages* const decoded = set_.options_.decoded.get();
      set_.decoded_anew_.fetch_add(1, std::memory_order_relaxed);
      return decoded == nullptr ? view_file(file, random)
                                : keep_and_view(*decoded, image, file, random);
    }

    // A copy may be of a file that was not complete then. Where the source cannot be read now, the
    // image is as damaged as its copy.
    Status show_anew(std::uint64_t image, const Status& why, const CounterRandom* random) {
      Receipt receipt;
      const auto file = set_.set_->deliver_anew(image, file_, receipt);
      if (!file) return why;
      receipt_ = receipt;
      return show(image, *file, random);
    }

    // Starts a view of an image of that size.
    Window begin_view(ImageSize image, const CounterRandom* random) {
      const ViewOptions& view = set_.options_.view;
      random_.reset();
      if (random == nullptr) return test_window(view, image, out_);
      random_ = *random;
      return training_window(view, image, out_, *random_);
    }

    void end_view() {
      const ViewOptions& view = set_.options_.view;
      if (!random_ || !view.has_jitter()) return;
      change_colours(view, set_.options_.facts.channels, pixels_, *random_);
    }

    Status view_file(std::span<const std::uint8_t> file, const CounterRandom* random) {
      PHUB_ASSIGN_OR_RETURN(const ImageSize size, decoder_.measure(file));
      const Window window = begin_view(size, random);
      PHUB_RETURN_IF_ERROR(
          decoder_.decode(file, window, set_.options_.facts.channels, out_, pixels_));
      end_view();
      return {};
    }

    // False: it is not kept.
    bool view_kept(const DecodedImages& decoded, std::uint64_t image, const CounterRandom* random) {
      const auto found = decoded.find(image);
      if (!found) return false;
      const Window window = begin_view(found->size, random);
      const PixelRange rows = WindowResizer::rows_of(window, found->size);
      if (!decoded.read_rows(*found, rows, content_)) return false;
      resizer_.resize(content_, found->size, window, decoded.channels(), out_, pixels_);
      end_view();
      return true;
    }

    // The view is the same whether the image is kept, can be kept or cannot for want of room.
    Status keep_and_view(DecodedImages& decoded, std::uint64_t image,
                         std::span<const std::uint8_t> file, const CounterRandom* random) {
      PHUB_ASSIGN_OR_RETURN(const ImageSize whole, decoder_.measure(file));
      const auto size = decoded.size_for(whole);
      if (!size) return view_file(file, random);
      const std::span<std::uint8_t> pixels = decoded.begin(*size, content_);
      const Window all{0, 0, static_cast<double>(whole.width), static_cast<double>(whole.height)};
      PHUB_RETURN_IF_ERROR(decoder_.decode(file, all, decoded.channels(), *size, pixels));
      decoded.keep(image, content_);
      const Window window = begin_view(*size, random);
      const PixelRange rows = WindowResizer::rows_of(window, *size);
      const std::size_t row_bytes = std::size_t{size->width} * decoded.channels();
      resizer_.resize(pixels.subspan(rows.begin * row_bytes, rows.count() * row_bytes), *size,
                      window, decoded.channels(), out_, pixels_);
      end_view();
      return {};
    }

    const EncodedImages& set_;
    const ImageSize out_;
    Decoder decoder_;
    WindowResizer resizer_;
    std::optional<CounterRandom> random_{};  // of a training's view
    std::vector<std::uint8_t> file_;
    std::vector<std::uint8_t> content_;  // of DecodedImages, or some rows of it
    std::vector<std::uint8_t> pixels_;
    Receipt receipt_;
    bool is_of_set_ = false;  // the last error is the set's, not the image's
  };

  std::unique_ptr<SampleSet> set_;
  EncodedOptions options_;
  mutable DamageLog damage_;
  mutable std::atomic<std::uint64_t> from_memory_{0}, decoded_anew_{0};
};

}  // namespace

std::unique_ptr<Images> encoded_images(std::unique_ptr<SampleSet> set, EncodedOptions options) {
  return std::make_unique<EncodedImages>(std::move(set), std::move(options));
}

}  // namespace phub::data
