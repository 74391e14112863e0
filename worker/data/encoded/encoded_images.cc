#include "worker/data/encoded/encoded_images.h"

#include <utility>
#include <vector>

#include "worker/data/encoded/damage.h"
#include "worker/data/images/decoder.h"

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

 private:
  class Reader : public ImageReader {
   public:
    explicit Reader(const EncodedImages& set)
        : set_(set), pixels_(set.options_.facts.image_bytes()) {}

    Result<Image> read(std::uint64_t image, CounterRandom* random) override {
      for (std::uint64_t tried = 0; tried < set_.images(); ++tried) {
        const Status status = decode(image, random);
        if (status.ok()) return Image{pixels_, set_.set_->label(image)};
        PHUB_RETURN_IF_ERROR(set_.damage_.report(image, status));
        image = (image + 1) % set_.images();
      }
      return Status(Code::kDataLoss, "no image of the set can be read: see the messages before");
    }

   private:
    // Errors name the image.
    Status decode(std::uint64_t image, CounterRandom* random) {
      PHUB_ASSIGN_OR_RETURN(const auto file, set_.set_->read(image, file_));
      const Status status = decode(file, random);
      return status.ok() ? status : status.with_context(set_.set_->name(image));
    }

    Status decode(std::span<const std::uint8_t> file, CounterRandom* random) {
      const ImageFacts& facts = set_.options_.facts;
      const ViewOptions& view = set_.options_.view;
      const ImageSize out{facts.width, facts.height};
      PHUB_ASSIGN_OR_RETURN(const ImageSize size, decoder_.measure(file));
      const Window window = random == nullptr ? test_window(view, size, out)
                                              : training_window(view, size, out, *random);
      PHUB_RETURN_IF_ERROR(decoder_.decode(file, window, facts.channels, out, pixels_));
      if (random != nullptr && view.has_jitter()) {
        change_colours(view, facts.channels, pixels_, *random);
      }
      return {};
    }

    const EncodedImages& set_;
    Decoder decoder_;
    std::vector<std::uint8_t> file_;
    std::vector<std::uint8_t> pixels_;
  };

  std::unique_ptr<SampleSet> set_;
  EncodedOptions options_;
  mutable DamageLog damage_;
};

}  // namespace

std::unique_ptr<Images> encoded_images(std::unique_ptr<SampleSet> set, EncodedOptions options) {
  return std::make_unique<EncodedImages>(std::move(set), std::move(options));
}

}  // namespace phub::data
