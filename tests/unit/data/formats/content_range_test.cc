#include "worker/data/formats/http/content_range.h"

#include <catch2/catch.hpp>
#include <string>

#include "worker/data/formats/http/answers.h"

namespace phub::data {
namespace {

TEST_CASE("A Content-Range tells a part of a file and its size") {
  CHECK(parse_content_range("bytes 0-0/1") == ContentRange{0, 0, 1});
  CHECK(parse_content_range("Bytes 100-163/9000000000") == ContentRange{100, 163, 9000000000});
  CHECK(parse_content_range("bytes 0-18446744073709551613/18446744073709551614")->total ==
        18446744073709551614U);
}

TEST_CASE("A Content-Range that is none is refused, whatever it is") {
  const std::string big(100'000, '9');
  for (const std::string& text : {std::string(),
                                  std::string("b"),
                                  std::string("bytes"),
                                  std::string("bytes "),
                                  std::string("bytes 0"),
                                  std::string("bytes 0-"),
                                  std::string("bytes 0-1"),
                                  std::string("bytes 0-1/"),
                                  std::string("bytes 0-1/*"),
                                  std::string("bytes */9"),
                                  std::string("bytes 2-1/9"),
                                  std::string("bytes 0-9/9"),
                                  std::string("bytes 0-0/0"),
                                  std::string("bytes -1-2/9"),
                                  std::string("bytes +1-2/9"),
                                  std::string("bytes 0--2/9"),
                                  std::string("bytes 0x1-2/9"),
                                  std::string("bytes 0 -2/9"),
                                  std::string("bytes  0-2/9"),
                                  std::string("bytes 0-2/9 "),
                                  std::string("bytes 0-2/9,"),
                                  std::string("bytes 0-2/9/9"),
                                  std::string("octets 0-2/9"),
                                  std::string("bytes=0-2/9"),
                                  std::string("bytes 0-2\0/9", 12),
                                  std::string("bytes 0-1/18446744073709551616"),
                                  std::string("bytes 18446744073709551616-1/2"),
                                  "bytes 0-1/" + big,
                                  "bytes " + big + "-1/2",
                                  big}) {
    INFO(text.substr(0, 60));
    CHECK_FALSE(parse_content_range(text));
  }
}

TEST_CASE("A redirect is followed to http and https alone, and never out of https") {
  CHECK(redirect_refusal("http://a/x", "http://b/x").empty());
  CHECK(redirect_refusal("http://a/x", "HTTPS://b/x").empty());
  CHECK(redirect_refusal("https://a/x", "https://b/x").empty());
  CHECK_THAT(redirect_refusal("https://a/x", "http://u:secret@b/x?secret"),
             Catch::Contains("from https to http://b/x?..., which is not protected"));
  for (const char* const to : {"file:///etc/passwd", "ftp://a/x", "gopher://a/x", "/x", ""}) {
    CHECK_THAT(redirect_refusal("http://a/x", to), Catch::Contains("http and https alone"));
  }
}

}  // namespace
}  // namespace phub::data
