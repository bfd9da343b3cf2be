// Seconds, shares and other numbers as people read them, the same in all that is printed.
#pragma once

#include <string>

namespace oneflow {

// "0 s", "1.234 s", "1.234 ms" or "1.23 us"; `seconds` >= 0.
std::string TimeText(double seconds);

// "12.3 %" of the part 0.123.
std::string PercentText(double part);

// Five digits of any other number: "5.5313", "0.69315"; "nan" whatever its sign.
std::string NumberText(double value);

}  // namespace oneflow
