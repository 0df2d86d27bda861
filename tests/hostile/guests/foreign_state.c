/* Sets the state of another plugin, by its full name. */
#include "hostile.h"
RUN {
  return SAY("{\"content\":[],\"is_error\":false,\"state\":[{\"op\":\"set\",\"key\":\"neighbour/count\",\"value\":1},"
             "{\"op\":\"set\",\"key\":\"../neighbour/count\",\"value\":1}]}");
}
