// The names of the opcodes.

#include "frontends/archive/PickleReader.h"

#include <cstdio>

namespace polyrank::frontends::archive {

namespace {

/// The opcodes of protocols 0 to 5, as Python's pickletools calls them.
constexpr std::pair<char, const char *> opcodeNames[] = {
    {'(', "MARK"},
    {'.', "STOP"},
    {'0', "POP"},
    {'1', "POP_MARK"},
    {'2', "DUP"},
    {'F', "FLOAT"},
    {'I', "INT"},
    {'J', "BININT"},
    {'K', "BININT1"},
    {'L', "LONG"},
    {'M', "BININT2"},
    {'N', "NONE"},
    {'P', "PERSID"},
    {'Q', "BINPERSID"},
    {'R', "REDUCE"},
    {'S', "STRING"},
    {'T', "BINSTRING"},
    {'U', "SHORT_BINSTRING"},
    {'V', "UNICODE"},
    {'X', "BINUNICODE"},
    {'a', "APPEND"},
    {'b', "BUILD"},
    {'c', "GLOBAL"},
    {'d', "DICT"},
    {'}', "EMPTY_DICT"},
    {'e', "APPENDS"},
    {'g', "GET"},
    {'h', "BINGET"},
    {'i', "INST"},
    {'j', "LONG_BINGET"},
    {'l', "LIST"},
    {']', "EMPTY_LIST"},
    {'o', "OBJ"},
    {'p', "PUT"},
    {'q', "BINPUT"},
    {'r', "LONG_BINPUT"},
    {'s', "SETITEM"},
    {'t', "TUPLE"},
    {')', "EMPTY_TUPLE"},
    {'u', "SETITEMS"},
    {'G', "BINFLOAT"},
    {'\x80', "PROTO"},
    {'\x81', "NEWOBJ"},
    {'\x82', "EXT1"},
    {'\x83', "EXT2"},
    {'\x84', "EXT4"},
    {'\x85', "TUPLE1"},
    {'\x86', "TUPLE2"},
    {'\x87', "TUPLE3"},
    {'\x88', "NEWTRUE"},
    {'\x89', "NEWFALSE"},
    {'\x8a', "LONG1"},
    {'\x8b', "LONG4"},
    {'B', "BINBYTES"},
    {'C', "SHORT_BINBYTES"},
    {'\x8c', "SHORT_BINUNICODE"},
    {'\x8d', "BINUNICODE8"},
    {'\x8e', "BINBYTES8"},
    {'\x8f', "EMPTY_SET"},
    {'\x90', "ADDITEMS"},
    {'\x91', "FROZENSET"},
    {'\x92', "NEWOBJ_EX"},
    {'\x93', "STACK_GLOBAL"},
    {'\x94', "MEMOIZE"},
    {'\x95', "FRAME"},
    {'\x96', "BYTEARRAY8"},
    {'\x97', "NEXT_BUFFER"},
    {'\x98', "READONLY_BUFFER"},
};

} // namespace

std::string nameOfOpcode(char opcode) {
  for (auto [code, name] : opcodeNames)
    if (code == opcode)
      return std::string("opcode ") + name;
  char text[8];
  std::snprintf(text, sizeof(text), "0x%02x", static_cast<uint8_t>(opcode));
  return std::string("opcode ") + text;
}

} // namespace polyrank::frontends::archive
