#include "common/text/url.h"

#include <catch2/catch.hpp>

namespace phub {
namespace {

TEST_CASE("A URL begins with a scheme, and a path with none") {
  CHECK(url_scheme("HTTPS://host/x") == "https");
  CHECK(url_scheme("s3://bucket") == "s3");
  CHECK(is_web_url("http://host"));
  CHECK_FALSE(is_web_url("s3://bucket"));
  for (const char* const path :
       {"", "://", "x", "/x", "a/b://c", "3d://x", "C:/x", "https:/x", "a b://x", "https"}) {
    INFO(path);
    CHECK_FALSE(is_url(path));
    CHECK_FALSE(is_web_url(path));
  }
}

TEST_CASE("A message has a URL without user, password, query and fragment") {
  CHECK(url_without_secrets("https://host/a/b.phub") == "https://host/a/b.phub");
  CHECK(url_without_secrets("https://u:p@host:1/a@b") == "https://host:1/a@b");
  CHECK(url_without_secrets("https://u:p@q@host") == "https://host");
  CHECK(url_without_secrets("https://u@host/x?key=p#f") == "https://host/x?...");
  CHECK(url_without_secrets("https://u:p@host#f@g") == "https://host?...");
  CHECK(url_without_secrets("https://") == "https://");
  CHECK(url_without_secrets("https://u:p@[::1]:80/x") == "https://[::1]:80/x");
  CHECK(url_without_secrets("https://[fe80::a]/x") == "https://[fe80::a]/x");
  for (const char* const odd : {"https://u:a/b@host", "https://u:a?b@host", "https://u:a#b@host"}) {
    CHECK(url_without_secrets(odd) == "https://...");
  }
}

}  // namespace
}  // namespace phub
