/* Ends itself with a status that says success. */
#include "hostile.h"
WASI(proc_exit) void proc_exit(int32_t status);
RUN {
  SAY("\"done\"");
  proc_exit(0);
  return 0;
}
