// Prints seconds, shares and other numbers, the same in all output.
#pragma once

#include <cstdint>
#include <string>

namespace oneflow {

// "0 s", "1.234 s", "1.234 ms" or "1.23 us"; `seconds` >= 0.
std::string TimeText(double seconds);

// "12.3 %" of the part 0.123.
std::string PercentText(double part);

// "1,234,567".
std::string DigitsText(int64_t number);

// Five digits of any other number: "5.5313", "0.69315"; "nan" for either sign.
std::string NumberText(double value);

}  // namespace oneflow
