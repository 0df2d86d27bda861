/* Never ends. */
#include "hostile.h"
static volatile uint32_t turns;
RUN {
  for (;;) turns++;
}
