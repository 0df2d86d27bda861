/* Answers with a hundred thousand arrays in one another. */
#include "hostile.h"
static uint8_t out[200000];
RUN {
  for (size_t i = 0; i < 100000; i++) out[i] = '[', out[199999 - i] = ']';
  return aw_output((aw_str){out, sizeof out});
}
