/* Asks for the secret of another plugin, by its name. */
#include "secret.h"
RUN { return text(secret_answer("NEIGHBOUR_TOKEN")); }
