// SPDX-License-Identifier: Apache-2.0
// The table of environment variables that describe nodes; see nodes.h.
#include "cluster/nodes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum setting { SETTING_COUNT, SETTING_RANK, SETTING_ADDRESS, SETTING_PORT, SETTINGS };

static const char *const option_names[SETTINGS] = {"--nnodes", "--node-rank", "--master-addr",
                                                   "--master-port"};

// Slurm's variables are those of a job step (srun): a batch script, which runs once, has the job's.
static const struct variable {
    enum setting setting;
    const char *name;
    bool list; // a host list of Slurm, whose first host counts
} variables[] = {
    {SETTING_COUNT, "PET_NNODES", false},           // torchrun's option
    {SETTING_COUNT, "WORLD_SIZE", false},           // torchrun's workers
    {SETTING_COUNT, "LWS_GROUP_SIZE", false},       // Kubernetes' LeaderWorkerSet
    {SETTING_COUNT, "SLURM_STEP_NUM_TASKS", false}, // srun
    {SETTING_COUNT, "OMPI_COMM_WORLD_SIZE", false}, // mpirun of Open MPI
    {SETTING_COUNT, "PMI_SIZE", false},             // mpirun of MPICH and others
    {SETTING_RANK, "PET_NODE_RANK", false},
    {SETTING_RANK, "RANK", false},
    {SETTING_RANK, "LWS_WORKER_INDEX", false},
    {SETTING_RANK, "SLURM_PROCID", false},
    {SETTING_RANK, "OMPI_COMM_WORLD_RANK", false},
    {SETTING_RANK, "PMI_RANK", false},
    {SETTING_ADDRESS, "PET_MASTER_ADDR", false},
    {SETTING_ADDRESS, "MASTER_ADDR", false},
    {SETTING_ADDRESS, "LWS_LEADER_ADDRESS", false},
    {SETTING_ADDRESS, "SLURM_STEP_NODELIST", true},
    {SETTING_PORT, "PET_MASTER_PORT", false},
    {SETTING_PORT, "MASTER_PORT", false},
};

enum { VARIABLES = sizeof variables / sizeof *variables };

struct node_value {   // value of one setting
    const char *from; // option or variable; NULL: not set
    char text[NODE_ADDRESS_MAX];
};

bool nodes_first_host(char *out, uint32_t size, const char *list)
{
    size_t name = strcspn(list, "[,");
    const char *digits = list[name] == '[' ? list + name + 1 : "";
    size_t count = strspn(digits, "0123456789");
    bool ranged = list[name] == '[';
    if (ranged && (count == 0 || !strchr(digits, ']') || !strchr("-,]", digits[count])))
        return false;
    size_t rest = ranged ? strcspn(strchr(digits, ']') + 1, ",") : 0;
    if (name + count + rest == 0 || name + count + rest >= size)
        return false;
    memcpy(out, list, name);
    memcpy(out + name, digits, count);
    if (rest > 0)
        memcpy(out + name + count, strchr(digits, ']') + 1, rest);
    out[name + count + rest] = '\0';
    return true;
}

static enum status number_read(uint32_t *out, const struct node_value *value, uint32_t low,
                               uint32_t high, struct error *err)
{
    char *end;
    errno = 0;
    unsigned long number = strtoul(value->text, &end, 10);
    if (value->text[0] < '0' || value->text[0] > '9' || *end || errno != 0 || number < low ||
        number > high)
        return error_set(err, STATUS_INVALID, "%s must be a number from %u to %u, got '%s'",
                         value->from, low, high, value->text);
    *out = (uint32_t)number;
    return STATUS_OK;
}

static enum status value_set(struct node_value *out, enum setting setting, const char *from,
                             const char *text, bool list, struct error *err)
{
    struct node_value value = {.from = from};
    bool fits =
        list ? nodes_first_host(value.text, sizeof value.text, text)
             : (size_t)snprintf(value.text, sizeof value.text, "%s", text) < sizeof value.text;
    if (!fits)
        return error_set(err, STATUS_INVALID, "%s is '%.64s', which names no host: set %s", from,
                         text, option_names[setting]);
    if (out->from && strcmp(out->text, value.text) != 0)
        return error_set(err, STATUS_INVALID, "%s is '%s' and %s is '%s': set %s", out->from,
                         out->text, from, value.text, option_names[setting]);
    if (!out->from)
        *out = value;
    return STATUS_OK;
}

static enum status environment_read(struct node_value values[SETTINGS],
                                    const char *(*environment)(const char *), struct error *err)
{
    bool given[SETTINGS];
    enum status status = STATUS_OK;
    for (int i = 0; i < SETTINGS; i++)
        given[i] = values[i].from;
    for (int i = 0; i < VARIABLES && status == STATUS_OK; i++) {
        const struct variable *v = &variables[i];
        const char *text = given[v->setting] ? NULL : environment(v->name);
        if (text)
            status = value_set(&values[v->setting], v->setting, v->name, text, v->list, err);
    }
    return status;
}

static void option_set(struct node_value values[SETTINGS], enum setting setting, const char *text)
{
    values[setting].from = option_names[setting];
    snprintf(values[setting].text, sizeof values[setting].text, "%s", text);
}

static void option_number(struct node_value values[SETTINGS], enum setting setting, uint32_t number)
{
    char text[16];
    snprintf(text, sizeof text, "%u", number);
    option_set(values, setting, text);
}

static enum status options_set(struct node_value values[SETTINGS],
                               const struct nodes_options *options, struct error *err)
{
    const char *address = options->master_addr;
    if (address && (*address == '\0' || strlen(address) >= NODE_ADDRESS_MAX))
        return error_set(err, STATUS_INVALID, "--master-addr names no host");
    if (options->nnodes > 0)
        option_number(values, SETTING_COUNT, options->nnodes);
    if (options->node_rank != NODE_RANK_UNSET)
        option_number(values, SETTING_RANK, options->node_rank);
    if (address)
        option_set(values, SETTING_ADDRESS, address);
    if (options->master_port > 0)
        option_number(values, SETTING_PORT, options->master_port);
    return STATUS_OK;
}

enum status nodes_find(struct nodes *out, const struct nodes_options *options,
                       const char *(*environment)(const char *name), struct error *err)
{
    struct node_value values[SETTINGS] = {{0}};
    *out = (struct nodes){.count = 1, .port = NODES_PORT, .address = "127.0.0.1"};
    enum status status = options_set(values, options, err);
    if (status == STATUS_OK && options->nnodes != 1)
        status = environment_read(values, environment, err);
    if (status != STATUS_OK)
        return status;
    const struct node_value *count = &values[SETTING_COUNT], *rank = &values[SETTING_RANK];
    out->count_from = count->from;
    out->rank_from = rank->from;
    if (count->from)
        status = number_read(&out->count, count, 1, NODES_MAX, err);
    if (status == STATUS_OK && out->count == 1 && options->node_rank == NODE_RANK_UNSET)
        return STATUS_OK; // the rank, address and port of a single process mean nothing to weft
    if (status == STATUS_OK && !rank->from)
        return error_set(err, STATUS_INVALID, "%s is %u, so each node needs --node-rank, from 0 on",
                         count->from, out->count);
    if (status == STATUS_OK)
        status = number_read(&out->rank, rank, 0, NODE_RANK_UNSET - 1u, err);
    if (status == STATUS_OK && out->rank >= out->count)
        return error_set(err, STATUS_INVALID, "%s is %u and %s is %u: ranks are from 0 to %u",
                         rank->from, out->rank, count->from ? count->from : "--nnodes", out->count,
                         out->count - 1);
    if (status == STATUS_OK && values[SETTING_PORT].from)
        status = number_read(&out->port, &values[SETTING_PORT], 1, 65535, err);
    if (values[SETTING_ADDRESS].from)
        memcpy(out->address, values[SETTING_ADDRESS].text, sizeof out->address);
    return status;
}
