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

// What images of all sizes have in common.
struct EncodedFiles {
  EncodedFiles(std::unique_ptr<SampleSet> samples, EncodedOptions own)
      : set(std::move(samples)),
        options(std::move(own)),
        damage(options.damaged_max, options.note) {}

  const std::unique_ptr<SampleSet> set;
  const EncodedOptions options;  // its facts are of the first size
  DamageLog damage;
  std::atomic<std::uint64_t> from_memory{0}, decoded_anew{0};
};

class EncodedImages : public Images {
 public:
  EncodedImages(std::shared_ptr<EncodedFiles> files, ImageFacts facts)
      : files_(std::move(files)), facts_(std::move(facts)) {}

  const ImageFacts& facts() const override { return facts_; }
  std::uint64_t images() const override { return files_->set->samples(); }
  std::uint16_t label(std::uint64_t image) const override { return files_->set->label(image); }
  std::string class_name(std::uint16_t label) const override {
    return files_->set->classes()[label];
  }
  std::unique_ptr<ImageReader> reader() const override {
    return std::make_unique<Reader>(*files_, facts_);
  }
  std::unique_ptr<Images> at_size(std::uint32_t height, std::uint32_t width) const override {
    ImageFacts facts = facts_;
    facts.height = height;
    facts.width = width;
    return std::make_unique<EncodedImages>(files_, std::move(facts));
  }
  ReadCounts reads() const override {
    ReadCounts counts = files_->set->reads();
    if (!files_->options.decoded) return counts;
    counts.memory = files_->from_memory.load(std::memory_order_relaxed);
    const std::uint64_t decoded = files_->decoded_anew.load(std::memory_order_relaxed);
    counts.source = decoded - std::min(decoded, counts.disk);
    return counts;
  }

 private:
  class Reader : public ImageReader {
   public:
    Reader(EncodedFiles& files, const ImageFacts& facts)
        : files_(files),
          channels_(facts.channels),
          out_{facts.width, facts.height},
          pixels_(facts.image_bytes()) {}

    Result<Image> read(std::uint64_t image, CounterRandom* random) override {
      const std::uint64_t images = files_.set->samples();
      for (std::uint64_t tried = 0; tried < images; ++tried) {
        const Status status = decode(image, random);
        if (status.ok()) return Image{pixels_, files_.set->label(image), receipt_};
        if (is_of_set_) return status;
        PHUB_RETURN_IF_ERROR(files_.damage.report(image, status));
        image = (image + 1) % images;
      }
      return Status(Code::kDataLoss, "no image of the set can be read: see the messages before");
    }

   private:
    // Each attempt draws the same numbers. Errors name the image.
    Status decode(std::uint64_t image, const CounterRandom* random) {
      DecodedImages* const decoded = files_.options.decoded.get();
      if (decoded != nullptr && view_kept(*decoded, image, random)) {
        files_.from_memory.fetch_add(1, std::memory_order_relaxed);
        receipt_ = {};
        return {};
      }
      is_of_set_ = false;
      const auto file = files_.set->deliver(image, file_, receipt_);
      if (!file) {
        const Code code = file.error().code();
        is_of_set_ = code == Code::kUnavailable || code == Code::kInvalidArgument;
        return file.error();
      }
      Status status = show(image, *file, random);
      if (!status.ok() && files_.set->has_copies()) status = show_anew(image, status, random);
      return status.ok() ? status : status.with_context(files_.set->name(image));
    }

    Status show(std::uint64_t image, std::span<const std::uint8_t> file,
                const CounterRandom* random) {
      DecodedImages* const decoded = files_.options.decoded.get();
      files_.decoded_anew.fetch_add(1, std::memory_order_relaxed);
      return decoded == nullptr ? view_file(file, random)
                                : keep_and_view(*decoded, image, file, random);
    }

    // A copy may be of a file that was not complete then. Where the source cannot be read now, the
    // image is as damaged as its copy.
    Status show_anew(std::uint64_t image, const Status& why, const CounterRandom* random) {
      Receipt receipt;
      const auto file = files_.set->deliver_anew(image, file_, receipt);
      if (!file) return why;
      receipt_ = receipt;
      return show(image, *file, random);
    }

    // Starts a view of an image of that size.
    Window begin_view(ImageSize image, const CounterRandom* random) {
      const ViewOptions& view = files_.options.view;
      random_.reset();
      if (random == nullptr) return test_window(view, image, out_);
      random_ = *random;
      return training_window(view, image, out_, *random_);
    }

    void end_view() {
      const ViewOptions& view = files_.options.view;
      if (!random_ || !view.has_jitter()) return;
      change_colours(view, channels_, pixels_, *random_);
    }

    Status view_file(std::span<const std::uint8_t> file, const CounterRandom* random) {
      PHUB_ASSIGN_OR_RETURN(const ImageSize size, decoder_.measure(file));
      const Window window = begin_view(size, random);
      PHUB_RETURN_IF_ERROR(decoder_.decode(file, window, channels_, out_, pixels_));
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

    EncodedFiles& files_;
    const std::uint32_t channels_;
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

  std::shared_ptr<EncodedFiles> files_;
  ImageFacts facts_;
};

}  // namespace

std::unique_ptr<Images> encoded_images(std::unique_ptr<SampleSet> set, EncodedOptions options) {
  ImageFacts facts = options.facts;
  facts.classes = static_cast<std::uint32_t>(set->classes().size());
  auto files = std::make_shared<EncodedFiles>(std::move(set), std::move(options));
  return std::make_unique<EncodedImages>(std::move(files), std::move(facts));
}

}  // namespace phub::data
