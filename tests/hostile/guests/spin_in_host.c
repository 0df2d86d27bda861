/* Never ends, and spends its time in functions of the host. */
#include "hostile.h"
RUN {
  for (;;) extism_input_length();
}
