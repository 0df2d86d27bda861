/* Reads a file that has a second name outside, given before. */
#include "files.h"
RUN { return content("/workspace/found_hard"); }
