// weft serve in a build without libh2o: prints an error that explains it.
#include "cli/command.h"

int command_serve(const struct command *self, int argc, char **argv)
{
    (void)self, (void)argc, (void)argv;
    fprintf(stderr, "weft: this build has no HTTP server: install libh2o-evloop-dev and libssl-dev "
                    "(tools/deps.sh does), then build again\n");
    return EXIT_CODE_FAILURE;
}
