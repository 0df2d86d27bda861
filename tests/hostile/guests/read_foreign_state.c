/* Reads the state of another plugin. */
#include "hostile.h"
RUN {
  aw_str answer = {0};
  aw_state_get("neighbour/count", &answer);
  return text(answer);
}
