#include "common/text/url_list.h"

#include <catch2/catch.hpp>

namespace phub {
namespace {

using Urls = std::vector<std::string>;

Urls expanded(const std::string& text) {
  const auto urls = expand_urls(text);
  INFO(urls.error().message());
  REQUIRE(urls.has_value());
  return *urls;
}

std::string refused_urls(const std::string& text) {
  const auto urls = expand_urls(text);
  REQUIRE_FALSE(urls.has_value());
  CHECK(urls.error().code() == Code::kInvalidArgument);
  return urls.error().message();
}

TEST_CASE("Braces in a URL's path stand for numbers or words") {
  CHECK(expanded("https://h/x.tar") == Urls{"https://h/x.tar"});
  CHECK(expanded("https://h/{08..11}.tar?t={1..2}") ==
        Urls{"https://h/08.tar?t={1..2}", "https://h/09.tar?t={1..2}", "https://h/10.tar?t={1..2}",
             "https://h/11.tar?t={1..2}"});
  CHECK(expanded("https://h/{9..10}") == Urls{"https://h/9", "https://h/10"});
  CHECK(expanded("https://h/{0..0}") == Urls{"https://h/0"});
  CHECK(expanded("https://h/{9..010}") == Urls{"https://h/009", "https://h/010"});
  CHECK(expanded("https://h/{a,b..}/{0..1}/") ==
        Urls{"https://h/a/0/", "https://h/a/1/", "https://h/b../0/", "https://h/b../1/"});
  CHECK(expanded("https://u:{p@h/{0,}") == Urls{"https://u:{p@h/0", "https://u:{p@h/"});
}

TEST_CASE("Two colons join URLs, and do not part an IPv6 address") {
  CHECK(expanded("http://[::1]:80/{1..2}::https://u::p@[a::b]/x") ==
        Urls{"http://[::1]:80/1", "http://[::1]:80/2", "https://u::p@[a::b]/x"});
  CHECK(split_urls("a::b").size() == 1);
}

TEST_CASE("Braces that nobody can mean are refused by their place, without the text") {
  for (const char* const inside : {"{secret", "secret}", "{}", "{secret}", "{a..secret}", "{1..}",
                                   "{1..2..3}", "{secret{1..2}}", "{-1..2}", "{1234567890..2}"}) {
    const std::string message = refused_urls("https://h/0::https://h/" + std::string(inside));
    CHECK_THAT(message, Catch::StartsWith("has braces at character ") &&
                            Catch::Contains("write {000000..000127}") &&
                            !Catch::Contains("secret"));
  }
  CHECK_THAT(refused_urls("https://h/{2..1}"), Catch::Contains("at character 11 that begin with"));
}

TEST_CASE("A text with too many or too long URLs is refused with the figure") {
  CHECK(expanded("https://h/{0..65535}").size() == 65536);
  for (const char* const many : {"https://h/{0..65536}", "https://h/{0..999999999}",
                                 "https://h/{0..255}/{0..256}", "https://h/{0..65535}::https://h/x",
                                 "https://h/{0..65535}{0..65535}{0..65535}{0..65535}"}) {
    CHECK_THAT(refused_urls(many), Catch::Contains("more than 65536 URLs"));
  }
  CHECK_THAT(refused_urls("https://h/" + std::string(2039, 'x')), Catch::Contains("2048 bytes"));
  CHECK(expanded("https://h/" + std::string(2038, 'x')).size() == 1);
  CHECK_THAT(refused_urls("https://h/" + std::string(1U << 16U, 'x')),
             Catch::Contains("has 65546 bytes; the most is 65536"));
}

TEST_CASE("A message has the first URL of a text without its secrets, and counts the others") {
  CHECK(url_list_without_secrets("https://u:p@h/{0..9}.tar") == "https://h/{0..9}.tar");
  CHECK(url_list_without_secrets("https://h/a?s::https://u:p@h/b::http://h/c") ==
        "https://h/a?... and 2 more");
  CHECK(url_list_without_secrets("/folder") == "/folder");
}

}  // namespace
}  // namespace phub
