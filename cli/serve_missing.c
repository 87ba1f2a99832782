// SPDX-License-Identifier: Apache-2.0
// weft serve in a build without libh2o: prints an error that explains it.
#include "cli/command.h"

int command_serve(const struct command *self, int argc, char **argv)
{
    (void)self, (void)argc, (void)argv;
    fputs("weft: this build has no HTTP server, because libh2o was missing: install libh2o 2.2 "
          "with its headers (Debian 12: libh2o-evloop-dev) and libssl-dev and build again; chat, "
          "generate, embed, rerank, perplexity, inspect, render, tokenize and detokenize work "
          "without it\n",
          stderr);
    return EXIT_CODE_FAILURE;
}
