#include "worker/data/images/jpeg_errors.h"

#include <jerror.h>

#include <string>

namespace phub::data {
namespace {

// The manager is what a codec has of an object of this class.
JpegErrors* errors_of(j_common_ptr codec) { return static_cast<JpegErrors*>(codec->client_data); }

// Other warnings tell of lost pixels.
bool is_harmless(int warning) {
  return warning == JWRN_ADOBE_XFORM || warning == JWRN_JFIF_MAJOR || warning == JWRN_BOGUS_ICC;
}

bool is_too_large(int error) {
  return error == JERR_OUT_OF_MEMORY || error == JERR_NO_BACKING_STORE ||
         error == JERR_IMAGE_TOO_BIG || error == JERR_WIDTH_OVERFLOW;
}

bool is_unsupported(int error) {
  return error == JERR_BAD_PRECISION || error == JERR_SOF_UNSUPPORTED ||
         error == JERR_ARITH_NOTIMPL || error == JERR_CONVERSION_NOTIMPL ||
         error == JERR_CCIR601_NOTIMPL || error == JERR_FRACT_SAMPLE_NOTIMPL;
}

}  // namespace

JpegErrors::JpegErrors() {
  jpeg_std_error(&manager_);
  manager_.error_exit = on_error;
  manager_.emit_message = on_message;
}

void JpegErrors::on_error(j_common_ptr codec) {
  JpegErrors* const errors = errors_of(codec);
  errors->manager_.format_message(codec, errors->text_);
  std::longjmp(errors->jump_, 1);  // NOLINT(cert-err52-cpp)
}

void JpegErrors::refuse(const char* why) {
  std::snprintf(text_, sizeof(text_), "%s", why);
  is_refused_ = true;
  std::longjmp(jump_, 1);  // NOLINT(cert-err52-cpp)
}

void JpegErrors::on_message(j_common_ptr codec, int level) {
  if (level >= 0 || is_harmless(codec->err->msg_code)) return;
  on_error(codec);
}

Status JpegErrors::status() const {
  if (is_refused_) return {Code::kResourceExhausted, text_};
  const std::string text = "libjpeg says \"" + std::string(text_) + "\"";
  if (is_too_large(manager_.msg_code)) {
    return {Code::kResourceExhausted, "the JPEG is too large: " + text + "; make it smaller"};
  }
  if (is_unsupported(manager_.msg_code)) {
    return {Code::kInvalidArgument, "this kind of JPEG is not decoded: " + text +
                                        "; convert it (`magick in.jpg -depth 8 out.jpg`)"};
  }
  return {Code::kDataLoss, "the JPEG is damaged: " + text + "; fetch the file again"};
}

}  // namespace phub::data
