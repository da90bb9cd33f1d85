/* A stand-in for NVIDIA's pyxis, which cannot be had here: a SPANK plugin that gives real srun the
 * options of pyxis 0.20, checks their values on each node as pyxis does, and starts the task
 * uncontained. The "image" is a text: its lines are the variables that an image would set. What
 * it was told is left beside it. Written from pyxis' documentation; none of its code is here.
 * No header of Slurm's is needed: the few declarations are those of spank.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct spank_handle *spank_t;
struct spank_option {
	const char *name, *arginfo, *usage;
	int has_arg, val;
	int (*cb)(int val, const char *optarg, int remote);
};
int spank_option_register(spank_t, struct spank_option *);
int spank_setenv(spank_t, const char *, const char *, int overwrite);
int spank_getenv(spank_t, const char *, char *, int);
void slurm_error(const char *, ...);

const char plugin_name[] = "pyxis_stub";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;
const unsigned int spank_plugin_version = 1;

enum { IMAGE, MOUNTS, NAME, ENV, NO_HOME, NO_ROOT, NO_ENTRYPOINT, WRITABLE, COUNT };
static char *told[COUNT];

static int take(int which, const char *optarg, int remote)
{
	(void)remote;
	told[which] = strdup(optarg ? optarg : "yes");
	return 0;
}

static struct spank_option options[COUNT] = {
	{"container-image", "PATH", "[pyxis] the image to use", 1, IMAGE, take},
	{"container-mounts", "SRC:DST[:FLAGS]", "[pyxis] bind mounts", 1, MOUNTS, take},
	{"container-name", "NAME", "[pyxis] name of the container", 1, NAME, take},
	{"container-env", "NAME", "[pyxis] variables of the host", 1, ENV, take},
	{"no-container-mount-home", NULL, "[pyxis] no home", 0, NO_HOME, take},
	{"no-container-remap-root", NULL, "[pyxis] no root", 0, NO_ROOT, take},
	{"no-container-entrypoint", NULL, "[pyxis] no entrypoint", 0, NO_ENTRYPOINT, take},
	{"container-writable", NULL, "[pyxis] writable", 0, WRITABLE, take},
};

int slurm_spank_init(spank_t spank, int ac, char **av)
{
	(void)ac, (void)av;
	for (int i = 0; i < COUNT; i++)
		if (spank_option_register(spank, &options[i]) != 0)
			return -1;
	return 0;
}

static int mounts_are_there(char *mounts)
{
	for (char *next, *mount = mounts; mount; mount = next) {
		if ((next = strchr(mount, ',')))
			*next++ = '\0';
		char *source = strdup(mount), *target = strchr(source, ':');
		if (!target || source[0] != '/' || target[1] != '/')
			return slurm_error("pyxis: invalid format: %s", mount), 0;
		*target = '\0';
		if (access(source, F_OK) != 0)
			return slurm_error("pyxis: source path does not exist: %s", source), 0;
	}
	return 1;
}

int slurm_spank_task_init(spank_t spank, int ac, char **av)
{
	char line[4096], node[64] = "";
	(void)ac, (void)av;
	if (!told[IMAGE])
		return 0;
	FILE *image = told[IMAGE][0] == '/' ? fopen(told[IMAGE], "r") : NULL;
	if (!image)
		return slurm_error("pyxis: no such image: %s", told[IMAGE]), -1;
	spank_getenv(spank, "SLURM_NODEID", node, sizeof(node));
	snprintf(line, sizeof(line), "%s.told.%s", told[IMAGE], node);
	FILE *said = fopen(line, "a");
	for (int i = 0; said && i < COUNT; i++)
		if (told[i])
			fprintf(said, "--%s=%s\n", options[i].name, told[i]);
	if (said)
		fclose(said);
	if (told[MOUNTS] && !mounts_are_there(told[MOUNTS]))
		return -1;
	while (fgets(line, sizeof(line), image)) {
		char *value = strchr(line, '=');
		if (!value)
			continue;
		*value++ = '\0';
		value[strcspn(value, "\n")] = '\0';
		spank_setenv(spank, line, value, 1);
	}
	fclose(image);
	return 0;
}
