#include "oneflow_core/base/wrap.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

TEST_CASE("a line that fits stays as it is") {
  CHECK(WrapLines("", 10, 2).empty());
  CHECK(WrapLines("\n\n", 10, 2) == "\n\n");
  CHECK(WrapLines("  a  b   c\n1234567890", 10, 2) == "  a  b   c\n1234567890");
  CHECK(WrapLines("a b       ", 4, 2) == "a b       ");  // nothing follows
}

TEST_CASE("a longer line is broken at blanks, as late as it can be") {
  CHECK(WrapLines("  a = add b c d\n", 10, 6) == "  a = add\n      b c\n      d\n");
  CHECK(WrapLines("ab  cd  ef", 6, 1) == "ab  cd\n ef");  // blanks at a break are dropped
  CHECK(WrapLines("1234567890 b", 10, 2) == "1234567890\n  b");
  CHECK(WrapLines("123456789 ab", 10, 2) == "123456789\n  ab");
  CHECK(WrapLines("12345678 a b", 10, 2) == "12345678 a\n  b");
  CHECK(WrapLines("x\naa bb cc\ny\n", 5, 0) == "x\naa bb\ncc\ny\n");
}

TEST_CASE("a word that is wider than a line has one alone") {
  CHECK(WrapLines("  12345678901 b", 10, 2) == "  12345678901\n  b");
  CHECK(WrapLines("a 12345678901 b", 10, 2) == "a\n  12345678901\n  b");
  CHECK(WrapLines("12345678901", 10, 2) == "12345678901");
}

TEST_CASE("a character is one column, however many bytes it has") {
  CHECK(WrapLines("F×2 B×2 U", 9, 2) == "F×2 B×2 U");
  CHECK(WrapLines("F×2 B×2 U", 8, 2) == "F×2 B×2\n  U");
  CHECK(WrapLines("×××× ××××", 8, 2) == "××××\n  ××××");
}

}  // namespace
}  // namespace oneflow
