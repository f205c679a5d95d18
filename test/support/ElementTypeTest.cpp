// The table of element types: each format's names mean one type, and the sizes,
// ranges and kinds fit each other.

#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "support/ElementValues.h"

using namespace polyrank;

namespace {

/// The types to which a format gives a name, each name once.
template <typename Name>
int namesOf(Name ElementTypeRow::*format, Name lacking) {
  std::set<Name> names;
  for (const ElementTypeRow &row : elementTypes)
    if (row.*format != lacking) {
      EXPECT_TRUE(names.insert(row.*format).second) << row.name;
      EXPECT_EQ(findElementType(format, row.*format), row.type);
    }
  return static_cast<int>(names.size());
}

TEST(ElementType, ANameOfAFormatMeansOneType) {
  using Row = ElementTypeRow;
  EXPECT_EQ(namesOf(&Row::name, std::string_view()), numElementTypes);
  EXPECT_EQ(namesOf(&Row::longName, std::string_view()), numElementTypes);
  EXPECT_EQ(namesOf(&Row::npy, std::string_view()), 12);
  EXPECT_EQ(namesOf(&Row::safetensors, std::string_view()), 22);
  EXPECT_EQ(namesOf(&Row::onnx, -1), 29);
  EXPECT_EQ(namesOf(&Row::torch, -1), 26);
  EXPECT_EQ(namesOf(&Row::exported, -1), 21);
  EXPECT_EQ(namesOf(&Row::storage, std::string_view()), 18);
}

TEST(ElementType, WhatAFormatLacksIsNoName) {
  EXPECT_FALSE(findElementType(&ElementTypeRow::npy, ""));
  EXPECT_FALSE(findElementType(&ElementTypeRow::onnx, -1));
  EXPECT_FALSE(findElementType(&ElementTypeRow::onnx, 99));
  EXPECT_FALSE(findElementType(&ElementTypeRow::longName, "float"));
}

TEST(ElementType, ValuesInCppHaveTheSizeOfTheType) {
  for (const ElementTypeRow &row : elementTypes) {
    if (!hasValues(row.type))
      continue;
    visitElements(row.type, [&]<typename T>(T) {
      EXPECT_EQ(int64_t(sizeof(T)), bytesOf(row.type)) << row.name;
      using Number = Arithmetic<T>;
      EXPECT_EQ(std::is_floating_point_v<Number>, isFloat(row.type));
      if (isInteger(row.type)) {
        EXPECT_EQ(std::is_signed_v<Number>, row.kind == ElementKind::Signed);
      }
    });
  }
}

TEST(ElementType, ProgramsHoldTheirAccumulators) {
  for (int number = 0; number < numProgramTypes; ++number) {
    ElementType type = static_cast<ElementType>(number);
    const ElementTypeRow &row = rowOf(type);
    EXPECT_TRUE(hasValues(type));
    EXPECT_TRUE(isInPrograms(row.accumulator)) << row.name;
    EXPECT_GE(rowOf(row.accumulator).digits, row.digits) << row.name;
  }
}

TEST(ElementType, RangesAreThoseOfTheTypes) {
  EXPECT_EQ(largestOf(ElementType::F16), 65504);
  EXPECT_EQ(largestOf(ElementType::BF16), 0x1.fep127);
  EXPECT_EQ(largestOf(ElementType::F32), std::numeric_limits<float>::max());
  EXPECT_EQ(largestOf(ElementType::F64), std::numeric_limits<double>::max());
}

/// `digits` is what rounding to the type keeps.
TEST(ElementType, IntegersUpToTheDigitsAreExact) {
  for (ElementType type :
       {ElementType::F32, ElementType::BF16, ElementType::F16})
    visitElements(type, [&]<typename T>(T) {
      if constexpr (std::is_same_v<Arithmetic<T>, float>) {
        float last = std::ldexp(1.0f, rowOf(type).digits);
        EXPECT_EQ(float(T(last - 1)), last - 1);
        EXPECT_EQ(float(T(last + 1)), last) << "ties go to even";
      }
    });
}

} // namespace
