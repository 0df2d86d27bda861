/* Leaves the folder by "..". */
#include "files.h"
RUN { return content("/workspace/../outside/canary.txt"); }
