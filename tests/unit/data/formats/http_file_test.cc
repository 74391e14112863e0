#include "worker/data/formats/http/http_file.h"

#include <catch2/catch.hpp>
#include <future>

#include "tests/unit/data/formats/range_server.h"

namespace phub::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using std::chrono::milliseconds;

// Nothing waits between tries.
constexpr HttpOptions kAtOnce{.first_pause = milliseconds(0), .retry_after_max = milliseconds(0)};

std::string some_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * i + i / 251);
  return bytes;
}
const std::string kFile = some_bytes(300'000);

std::unique_ptr<ByteSource> opened(const std::string& url, const HttpOptions& options = kAtOnce) {
  auto file = open_http_file(url, options);
  INFO(file.error().message());
  REQUIRE(file);
  return std::move(*file);
}

Status open_error(const std::string& url, const HttpOptions& options = kAtOnce) {
  const auto file = open_http_file(url, options);
  REQUIRE_FALSE(file);
  return file.error();
}

Status read(const ByteSource& file, std::uint64_t offset, std::size_t bytes, std::string& into) {
  std::vector<std::uint8_t> buffer(bytes);
  Status status = file.read(offset, buffer);
  into.assign(buffer.begin(), buffer.end());
  return status;
}

std::string read_error(const ByteSource& file, Code code) {
  std::string text;
  const Status status = read(file, 10, 20, text);
  CHECK(code_name(status.code()) == code_name(code));
  return status.message();
}

// Answers a request for the first byte, which opens the file, rightly, and the others by `handler`.
RangeServer::Handler after_opening(RangeServer::Handler handler) {
  return [handler = std::move(handler)](const Asked& asked) {
    const bool is_opening = asked.first == 0 && asked.bytes == 1;
    return is_opening ? Reply{right_part(kFile, asked)} : handler(asked);
  };
}

RangeServer::Handler always(const std::string& text) {
  return after_opening([text](const Asked&) { return Reply{text}; });
}

TEST_CASE("A file on a server has its bytes, by one connection that stays open") {
  const RangeServer server([](const Asked& asked) {
    return Reply{asked.target == "/a/b.phub" ? right_part(kFile, asked) : status_only(404)};
  });
  const auto file = opened(server.url("/a/b.phub"));
  CHECK(file->bytes() == kFile.size());
  CHECK(file->name() == server.url("/a/b.phub"));
  std::string text;
  for (const auto& [offset, bytes] :
       {std::pair<std::size_t, std::size_t>{0, 1}, {7, 64}, {0, kFile.size()}, {299'999, 1}}) {
    REQUIRE(read(*file, offset, bytes, text).ok());
    CHECK(text == kFile.substr(offset, bytes));
  }
  CHECK(server.connections() == 1);
  CHECK(read(*file, 5, 0, text).ok());
  CHECK_THAT(read(*file, 299'990, 11, text).message(), Contains("offset 299990: the file ends"));
  CHECK(read(*file, ~0ULL, 1, text).code() == Code::kDataLoss);
}

TEST_CASE("Many threads read one file by no more connections than it may have") {
  const RangeServer server([](const Asked& asked) { return Reply{right_part(kFile, asked)}; });
  HttpOptions options = kAtOnce;
  options.connections = 3;
  const auto file = opened(server.url("/x"), options);
  std::vector<std::future<bool>> threads;
  for (std::size_t thread = 0; thread < 12; ++thread) {
    threads.push_back(std::async(std::launch::async, [&, thread] {
      bool is_right = true;
      for (std::size_t i = 0; i < 50; ++i) {
        const std::size_t offset = thread * 20'000 + i * 97, bytes = 1 + i * thread;
        std::string text;
        is_right = is_right && read(*file, offset, bytes, text).ok() &&
                   text == kFile.substr(offset, bytes);
      }
      return is_right;
    }));
  }
  for (auto& thread : threads) CHECK(thread.get());
  CHECK(server.connections() <= 3);
}

TEST_CASE("Who gets no connection in time is told how many there are") {
  const auto status = open_error("http://127.0.0.1/x", {.connect = milliseconds(1),
                                                        .stall = milliseconds(0),
                                                        .tries = 1,
                                                        .retry_after_max = milliseconds(0),
                                                        .connections = 0});
  CHECK(status.code() == Code::kUnavailable);
  CHECK_THAT(status.message(), Contains("all 0 connections were in use for 1 ms; lower"));
}

TEST_CASE("A URL's password reaches its server, and no message and no other server") {
  std::atomic<bool> is_told = false;
  const RangeServer other([&](const Asked& asked) {
    is_told = is_told || asked.has("Authorization");
    return Reply{status_only(403)};
  });
  const RangeServer server([&](const Asked& asked) {
    const bool is_known =
        asked.has("Authorization: Basic dXNlcjpzZWNyZXQ=") && asked.target == "/x?token=secret";
    return Reply{is_known ? status_only(302, "Location: " + other.url("/y") + "\r\n")
                          : status_only(404)};
  });
  const Status status = open_error(server.url("/x?token=secret", "user:secret@"));
  CHECK(status.code() == Code::kPermissionDenied);
  CHECK_THAT(status.message(), StartsWith(server.url("/x?...")) && Contains("status 403") &&
                                   Contains("~/.netrc") && !Contains("secret"));
  CHECK_FALSE(is_told);
}

TEST_CASE("A status that another try would not change ends at once, with the cure") {
  struct Refusal {
    int status;
    Code code;
    const char* text;
  };
  for (const Refusal& one : {Refusal{404, Code::kNotFound, "correct the URL"},
                             Refusal{410, Code::kNotFound, "correct the URL"},
                             Refusal{401, Code::kPermissionDenied, "credentials"},
                             Refusal{418, Code::kInvalidArgument, "status 418; correct the URL"},
                             Refusal{416, Code::kDataLoss, "the file is empty"},
                             Refusal{200, Code::kInvalidArgument, "server with range requests"},
                             Refusal{302, Code::kInvalidArgument, "status 302"}}) {
    std::atomic<int> asked = 0;
    const RangeServer server([&](const Asked&) {
      ++asked;
      return Reply{status_only(one.status)};
    });
    const Status status = open_error(server.url("/x"));
    CHECK(status.code() == one.code);
    CHECK_THAT(status.message(), Contains("/x, bytes 0-0, after 1 try: ") && Contains(one.text));
    CHECK(asked == 1);
  }
}

TEST_CASE("A server without range requests is not read to its end") {
  const RangeServer server([](const Asked&) {
    return Reply{"HTTP/1.1 200 x\r\nContent-Length: 9000000000000\r\n\r\n" + kFile, false, true};
  });
  CHECK_THAT(open_error(server.url("/x")).message(), Contains("status 200 to a range request"));
}

TEST_CASE("A server that is busy is asked again, as often as may be") {
  std::atomic<int> asked = 0, passing = 0;
  const RangeServer server([&](const Asked& request) {
    constexpr int kStatuses[] = {503, 429, 408, 500};
    if (++asked > passing) return Reply{right_part(kFile, request)};
    return Reply{status_only(kStatuses[asked % 4], "Retry-After: 3600\r\n")};
  });
  passing = 2;
  const auto file = opened(server.url("/x"));
  CHECK(asked == 3);
  passing = 1000;
  asked = 0;
  CHECK_THAT(read_error(*file, Code::kUnavailable),
             Contains("/x, bytes 10-29, after 5 tries: the server answers with status "));
  CHECK(asked == 5);
}

TEST_CASE("A server that nobody reaches is no damage") {
  auto server = std::make_unique<RangeServer>(
      [](const Asked& asked) { return Reply{right_part(kFile, asked)}; });
  const auto file = opened(server->url("/x"));
  server.reset();
  CHECK_THAT(read_error(*file, Code::kUnavailable), Contains("bytes 10-29, after 5 tries: "));
}

TEST_CASE("A file that vanishes while it is used is no damage of one sample") {
  const RangeServer server(always(status_only(404)));
  CHECK_THAT(read_error(*opened(server.url("/x")), Code::kUnavailable), Contains("status 404"));
}

TEST_CASE("A file that changed since it was opened is refused") {
  const std::string body(20, 'x');
  const std::string where = content_range(10, 20, kFile.size());
  for (const auto& [answer, text] : {
           std::pair{part("ETag: \"2\"\r\n" + where, body), "(ETag \"1\" then, \"2\" now)"},
           {part(where, body), "(ETag \"1\" then, nothing now)"},
           {part("ETag: W/\"1\"\r\n" + where, body), "nothing now"},
           {part("ETag: \"1\"\r\n" + content_range(10, 20, 299'999), body),
            "(300000 bytes then, 299999 now)"},
           {status_only(412), "(status 412)"},
           {status_only(416), "(status 416)"},
       }) {
    const RangeServer server(always(answer));
    const auto file = opened(server.url("/x"));
    CHECK_THAT(
        read_error(*file, Code::kDataLoss),
        Contains("after 1 try: the file has changed since the set was opened") && Contains(text));
  }
}

TEST_CASE("A strong ETag is a condition of each request; else the time is compared") {
  std::atomic<bool> has_condition = false, is_later = false;
  std::string tag;
  const RangeServer server([&](const Asked& asked) {
    has_condition = asked.has("If-Match: \"1\"");
    const std::string time = is_later ? "Last-Modified: Tue\r\n" : "Last-Modified: Mon\r\n";
    return Reply{right_part(kFile, asked, tag + time)};
  });
  for (const char* const weak : {"", "ETag: W/\"1\"\r\n", "ETag: 1\r\n", "ETag: \"a b\"\r\n"}) {
    tag = weak;
    is_later = false;
    const auto file = opened(server.url("/x"));
    std::string text;
    REQUIRE(read(*file, 10, 20, text).ok());
    CHECK_FALSE(has_condition);
    is_later = true;
    CHECK_THAT(read_error(*file, Code::kDataLoss), Contains("(Last-Modified Mon then, Tue now)"));
  }
  tag = "ETag: \"1\"\r\n";
  const auto file = opened(server.url("/x"));
  is_later = false;
  std::string text;
  REQUIRE(read(*file, 10, 20, text).ok());
  CHECK(has_condition);
}

TEST_CASE("A body of another length than was asked for is refused") {
  const std::string headers = "ETag: \"1\"\r\n" + content_range(10, 20, kFile.size());
  const std::string endless = "HTTP/1.1 206 x\r\n" + headers + "\r\n";
  struct Answer {
    Reply reply;
    const char* text;
  };
  for (const Answer& one :
       {Answer{{part(headers, std::string(21, 'x'))}, "more than the 20 bytes"},
        Answer{{endless + kFile, false, true}, "more than the 20 bytes"},
        Answer{{part(headers, std::string(19, 'x'))},
               "after 5 tries: the answer ends after 19 of 20"},
        Answer{{part(headers, "")}, "ends after 0 of 20"},
        Answer{{endless + std::string(7, 'x'), true}, "ends after 7 of 20"},
        Answer{{"HTTP/1.1 206 x\r\nContent-Length: 20\r\n" + headers + "\r\nxxx", true},
               "after 5 tries: transfer closed with 17 bytes remaining"}}) {
    const RangeServer server(after_opening([&](const Asked&) { return one.reply; }));
    const auto file = opened(server.url("/x"));
    CHECK_THAT(read_error(*file, Code::kUnavailable), Contains(one.text));
  }
}

TEST_CASE("A part that nobody asked for, or that is not told, is refused") {
  const std::string body(20, 'x');
  for (const auto& [header, text] :
       {std::pair<std::string, const char*>{"", "Content-Range \"\""},
        {"Content-Range: bytes 10-29/*\r\n", "Content-Range \"bytes 10-29/*\""},
        {"Content-Range: \x01\x02\r\n", "which tells no part"},
        {content_range(11, 20, kFile.size()), "sends bytes 11-30 in their place"},
        {content_range(10, 19, kFile.size()), "sends bytes 10-28 in their place"}}) {
    const RangeServer server(always(part("ETag: \"1\"\r\n" + header, body)));
    CHECK_THAT(read_error(*opened(server.url("/x")), Code::kUnavailable),
               Contains("after 1 try: ") && Contains(text));
  }
}

TEST_CASE("Answers that are no HTTP, or have headers without end, are refused") {
  std::string headers;
  for (int i = 0; i < 2000; ++i)
    headers += "X-" + std::to_string(i) + ": " + std::string(40, 'x') + "\r\n";
  for (const std::string& answer : {std::string("220 smtp\r\n\r\n"), std::string("\0\1\2", 3),
                                    std::string(), "HTTP/1.1 206 x\r\n" + headers + "\r\n"}) {
    const RangeServer server([&](const Asked&) { return Reply{answer, true}; });
    CHECK_FALSE(open_error(server.url("/x")).message().empty());
  }
  const RangeServer server([&](const Asked&) { return Reply{"HTTP/1.1 206 x\r\n" + headers}; });
  CHECK_THAT(open_error(server.url("/x")).message(),
             Contains("headers have more than 65536 bytes"));
}

TEST_CASE("A server that stalls is left at the deadline") {
  const std::string headers = "ETag: \"1\"\r\n" + content_range(10, 20, kFile.size());
  const std::string begun = "HTTP/1.1 206 x\r\nContent-Length: 20\r\n" + headers + "\r\nxxx";
  HttpOptions options = kAtOnce;
  options.tries = 2;
  const std::string& sent = GENERATE_COPY(std::string(), begun, begun.substr(0, 30));
  const RangeServer server(after_opening([&](const Asked&) { return Reply{sent, false, true}; }));
  options.connect = milliseconds(100);
  options.stall = milliseconds(100);
  auto file = open_http_file(server.url("/x"), options);
  for (int i = 0; !file && i < 100; ++i) file = open_http_file(server.url("/x"), options);
  REQUIRE(file);  // a slow machine had a hundred chances
  CHECK_THAT(read_error(**file, Code::kUnavailable), Contains("after 2 tries: "));
}

TEST_CASE("Redirects are followed, but not for ever and not to files") {
  const RangeServer elsewhere([](const Asked& asked) { return Reply{right_part(kFile, asked)}; });
  std::string to;
  std::atomic<int> asked = 0;
  const RangeServer server([&](const Asked& request) {
    ++asked;
    const bool is_last = request.target == "/0" && to.empty();
    if (is_last) return Reply{right_part(kFile, request)};
    const int left = std::atoi(request.target.c_str() + 1);
    return Reply{
        status_only(left % 2 == 0 ? 302 : 308,
                    "Location: " + (to.empty() ? "/" + std::to_string(left - 1) : to) + "\r\n")};
  });
  std::string text;
  REQUIRE(read(*opened(server.url("/5")), 7, 9, text).ok());
  CHECK(text == kFile.substr(7, 9));
  CHECK(asked == 12);
  CHECK_THAT(open_error(server.url("/6")).message(), Contains("redirects more than 5 times"));
  to = elsewhere.url("/x");
  REQUIRE(read(*opened(server.url("/1")), 7, 9, text).ok());
  for (const char* const wrong :
       {"file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x"}) {
    to = wrong;
    const Status status = open_error(server.url("/1"));
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK_THAT(status.message(), Contains("http and https alone are followed"));
  }
}

TEST_CASE("What is no URL of the web is not opened") {
  for (const char* const url :
       {"file:///etc/passwd", "ftp://host/x", "/etc/passwd", "", "http:x"}) {
    CHECK_THAT(open_error(url).message(), Contains("no URL of http or https"));
  }
  for (const char* const url : {"http://", "http://a b/x", "http://h:99999999/x"}) {
    CHECK_THAT(open_error(url).message(), Contains("after 1 try: ") && Contains("correct the URL"));
  }
}

}  // namespace
}  // namespace phub::data
