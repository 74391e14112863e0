// Pillow's BILINEAR of the same images, where a Python with Pillow is installed.
#include <cstdlib>

#include "tests/support/temporary_directory.h"
#include "tests/unit/data/images/decoding.h"

namespace phub::data::test {
namespace {

constexpr const char* kScript = R"(
import sys
from PIL import Image
folder = sys.argv[1]
for line in open(folder + "/cases"):
    name, left, top, width, height, across, down, out = line.split()
    left, top, width, height = int(left), int(top), int(width), int(height)
    image = Image.open(folder + "/" + name).convert("RGB")
    image = image.crop((left, top, left + width, top + height))
    image = image.resize((int(across), int(down)), Image.BILINEAR)
    open(folder + "/" + out, "wb").write(image.tobytes())
)";

// The first Python that has Pillow; empty if none.
std::string python_with_pillow() {
  for (std::string python : {"/usr/bin/python3", "python3"}) {
    if (std::system((python + " -c 'import PIL' 2>/dev/null").c_str()) == 0) return python;
  }
  return "";
}

struct Case {
  std::string file;
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;
  ImageSize out{};
};

TEST_CASE("crops are resized as Pillow does, within one level") {
  const std::string python = python_with_pillow();
  if (python.empty()) {
    WARN("skipped: no Python with Pillow (python3-pil) is installed");
    return;
  }
  const TemporaryDirectory folder;
  const Pixels image = picture({300, 260}, 3);
  const std::map<std::string, Bytes> files = {
      {"a.png", png(image.size, {}, image.bytes)},
      {"b.jpg", jpeg(image)},
      {"c.jpg", jpeg(image, {.across = 1, .down = 1, .is_progressive = true})}};
  std::vector<Case> cases;
  std::string lines;
  for (const auto& [name, bytes] : files) {
    folder.write(name, std::string(bytes.begin(), bytes.end()));
    for (const Case& one :
         {Case{name, 0, 0, 300, 260, {224, 224}}, Case{name, 38, 18, 224, 224, {224, 224}},
          Case{name, 17, 31, 101, 77, {224, 224}}, Case{name, 5, 6, 290, 240, {224, 200}},
          Case{name, 50, 60, 3, 2, {40, 40}}, Case{name, 8, 16, 280, 200, {150, 120}}}) {
      lines += name + " " + std::to_string(one.left) + " " + std::to_string(one.top) + " " +
               std::to_string(one.width) + " " + std::to_string(one.height) + " " +
               std::to_string(one.out.width) + " " + std::to_string(one.out.height) + " out" +
               std::to_string(cases.size()) + "\n";
      cases.push_back(one);
    }
  }
  folder.write("cases", lines);
  folder.write("resize.py", kScript);
  const std::string path = folder.path.string();
  REQUIRE(std::system((python + " " + path + "/resize.py " + path).c_str()) == 0);
  Decoder decoder;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    const std::string bytes = folder.read("out" + std::to_string(i));
    const Pixels wanted{.size = one.out, .channels = 3, .bytes = Bytes(bytes.begin(), bytes.end())};
    const Window window{.left = static_cast<double>(one.left),
                        .top = static_cast<double>(one.top),
                        .width = static_cast<double>(one.width),
                        .height = static_cast<double>(one.height)};
    CAPTURE(one.file, i);
    CHECK(difference(decoded(decoder, files.at(one.file), window, 3, one.out), wanted) <= 1);
  }
}

}  // namespace
}  // namespace phub::data::test
