// What an answer means for somebody who wanted a part of a file. Pure functions; any thread.
#pragma once

#include <string>

#include "common/base/log_value.h"
#include "common/base/status.h"
#include "common/text/url.h"

namespace phub::data {

inline constexpr long kOkStatus = 200;
inline constexpr long kPartStatus = 206;
inline constexpr long kChangedStatus = 412;  // If-Match was not fulfilled
inline constexpr long kNoSuchRangeStatus = 416;

// Another try may have another answer: 408, 429, and all of 500 and above.
inline bool is_passing(long status) { return status == 408 || status == 429 || status >= 500; }
inline bool is_redirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// A URL for a message.
inline std::string shown_url(const std::string& url) { return one_line(url_without_secrets(url)); }

// Why the redirect is not followed, with the cure; empty: it is.
inline std::string redirect_refusal(const std::string& from, const std::string& to) {
  if (!is_web_url(to)) {
    return "the server redirects to a URL of scheme \"" + url_scheme(to) +
           "\", and http and https alone are followed; give the file's own URL";
  }
  if (url_scheme(to) == "http" && url_scheme(from) == "https") {
    return "the server redirects from https to " + shown_url(to) +
           ", which is not protected; give the file's own URL";
  }
  return {};
}

// The error that the status is, with the cure.
inline Status refusal_of(long status) {
  const std::string text = "the server answers with status " + std::to_string(status);
  switch (status) {
    case kOkStatus:
      return {Code::kInvalidArgument,
              text +
                  " to a range request, which wants 206: serve the file by a server with range "
                  "requests, or copy it to this machine"};
    case 401:
    case 403:
      return {Code::kPermissionDenied,
              text + ": it wants other credentials; give them in ~/.netrc"};
    case 407:
      return {Code::kPermissionDenied, text + ": the proxy wants other credentials"};
    case 404:
    case 410:
      return {Code::kNotFound, text + ": the file is not there; correct the URL"};
    case kNoSuchRangeStatus:
      return {Code::kDataLoss, text + ": the file is empty; fetch or make it again"};
    default:
      return {Code::kInvalidArgument, text + "; correct the URL, or look at the server"};
  }
}

}  // namespace phub::data
