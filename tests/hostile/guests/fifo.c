/* Opens a pipe that nobody writes to: the host would wait for ever in the open itself. */
#include "files.h"
RUN { return content("/workspace/pipe"); }
