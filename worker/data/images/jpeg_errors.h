// libjpeg's errors and warnings as a Status. One owner, one thread.
//
// libjpeg ends a call by not coming back from error_exit: here with longjmp, which leaves the step
// of `guard`. Damage ends a step too, of which libjpeg only warns.
#pragma once

#include <csetjmp>
#include <cstdio>
// libjpeg's header needs what is above.
#include <jpeglib.h>

#include "common/base/status.h"

namespace phub::data {

class JpegErrors {
 public:
  JpegErrors();
  JpegErrors(const JpegErrors&) = delete;
  JpegErrors& operator=(const JpegErrors&) = delete;

  jpeg_error_mgr* manager() { return &manager_; }
  // Ends the step that calls libjpeg now: the JPEG takes too much of something.
  [[noreturn]] void refuse(const char* why);

  // Calls `step`, and returns what went wrong in it. REQUIRES: `step` owns nothing when it calls
  // libjpeg: destructors do not run.
  template <typename Step>
  Status guard(Step&& step) {
    is_refused_ = false;
    if (setjmp(jump_) != 0) return status();  // NOLINT(cert-err52-cpp)
    step();
    return {};
  }

 private:
  static void on_error(j_common_ptr codec);
  static void on_message(j_common_ptr codec, int level);
  Status status() const;

  jpeg_error_mgr manager_{};
  std::jmp_buf jump_{};
  char text_[JMSG_LENGTH_MAX] = {};
  bool is_refused_ = false;
};

}  // namespace phub::data
