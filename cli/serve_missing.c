// weft serve where libh2o was not there at build time: it says so.
#include "cli/command.h"

int command_serve(const struct command *self, int argc, char **argv)
{
    (void)self, (void)argc, (void)argv;
    fprintf(stderr, "weft: this build has no HTTP server: install libh2o-evloop-dev and libssl-dev "
                    "(tools/deps.sh does), then build again\n");
    return EXIT_CODE_FAILURE;
}
