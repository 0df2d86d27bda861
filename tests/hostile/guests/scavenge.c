/* Searches fresh memory, its own and Extism's, for what calls before it left, and litters both. */
#include "hostile.h"
#define LITTER 0x6c69747465726c69ull
RUN {
  size_t from = __builtin_wasm_memory_grow(0, 64) * 65536, bytes = 64 * 65536;
  bool own = false, extism = false;
  uint64_t block = extism_alloc(512 << 10);
  for (size_t i = 0; i < bytes; i += 8) own |= *(volatile uint64_t *)(from + i) != 0;
  for (uint64_t i = 0; i < 512 << 10; i += 8) extism |= extism_load_u64(block + i) != 0;
  for (size_t i = 0; i < bytes; i += 8) *(volatile uint64_t *)(from + i) = LITTER;
  for (uint64_t i = 0; i < 512 << 10; i += 8) extism_store_u64(block + i, LITTER);
  return own || extism ? SAY("\"found something\"") : SAY("\"clean\"");
}
