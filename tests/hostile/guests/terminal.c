/* Tries to drive the terminal of whoever looks: by its log, its error and control characters. */
#include "hostile.h"
RUN {
  aw_log("error", "\x1b]0;owned\x07\x1b[2J\r\nlevel=INFO msg=\"all good\"");
  return aw_fail("\x1b]0;owned\x07\x1b[2J\rawaken-host: all good\n\xc2\x9b");
}
