// One way to compute a layer's pass, and those that oneDNN offers.
//
// Made and run by the backend's thread. Constructors throw dnnl::error (see primitives.h).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "worker/nn/onednn/primitives.h"

namespace phub::nn::onednn {

class ComputeWay {
 public:
  ComputeWay() = default;
  ComputeWay(const ComputeWay&) = delete;
  ComputeWay& operator=(const ComputeWay&) = delete;
  virtual ~ComputeWay() = default;

  // The layer's parameters, in its order. Called once, before run.
  virtual void bind(std::span<const Binding> bindings) = 0;
  virtual Status run(const OnednnContext& context) = 0;
  // The weights that it reads, or null.
  virtual BoundArray* weights() { return nullptr; }
};

// A primitive with the reorders that its layouts need: of parameters from the exchange's plain
// arrays, of gradients to them, and of images where it does not take NHWC.
class LibraryWay : public ComputeWay {
 public:
  struct Image {
    int argument = 0;     // DNNL_ARG_..
    dnnl::memory memory;  // NHWC
    dnnl::memory::desc wanted;
  };
  struct Parameter {
    int argument = 0;
    dnnl::memory::desc plain;
    dnnl::memory::desc wanted;
  };
  struct Arguments {
    std::vector<Image> read;
    std::optional<Image> written;
    std::vector<Parameter> sources;  // the first ones of the layer's parameters
    std::vector<Parameter> sinks;    // likewise, of their gradients
    dnnl::memory::desc scratchpad;

    bool has_blocked_images() const;                  // in another layout than the memory's
    bool moves_images() const;                        // which has not the same bytes
    std::vector<dnnl::memory::desc> layouts() const;  // that are wanted, of all
  };

  // `room` grows as needed and outlives it.
  LibraryWay(const dnnl::primitive& primitive, const Arguments& arguments, OpScratch& room,
             const OnednnContext& context);

  void bind(std::span<const Binding> bindings) override;
  Status run(const OnednnContext& context) override;
  BoundArray* weights() override { return sources_.empty() ? nullptr : sources_.data(); }

 private:
  // Of `image`, in the layout that is wanted: the memory itself where the bytes are the same.
  dnnl::memory wanted(const Image& image, Scratchpad& copy, const OnednnContext& context);

  std::vector<BoundArray> sources_;
  std::vector<BoundArray> sinks_;
  std::vector<PrimitiveCall> calls_;  // images in, the primitive, the image out
};

// Whether images of the one layout have the same bytes in the other: so are 16 channels in blocks
// of 16, and NHWC.
bool same_bytes(const dnnl::memory::desc& nhwc, const dnnl::memory::desc& other);

}  // namespace phub::nn::onednn
