/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "tool.h"

int tool_list(const struct tool *tool)
{
        struct json json = {.file = stdout};

        if (tool->json) {
                json_object(&json, NULL);
                json_string(&json, "version", nm_version());
                json_array(&json, "backends");
        }
        for (const char *const *name = nm_backends(); *name; name++) {
                struct nm_options options = tool->options;
                struct nm_device *device = NULL;
                struct nm_error why = {""};
                int status;

                if (tool->options.backend && strcmp(tool->options.backend, *name))
                        continue;
                options.backend = *name;
                status = nm_open(&options, &device, &why);
                if (tool->json) {
                        json_object(&json, NULL);
                        json_string(&json, "name", *name);
                        json_bool(&json, "present", !status);
                        json_string(&json, "status", nm_status_name(status));
                        json_string(&json, "why", status ? why.text : NULL);
                        json_string(&json, "device", status ? NULL : nm_info(device)->device);
                        json_string(&json, "driver", status ? NULL : nm_info(device)->driver);
                        json_string(&json, "evidence", status ? NULL : nm_info(device)->evidence);
                        json_end(&json);
                } else if (status) {
                        printf("%-9s  absent   ", *name);
                        tool_wrap(why.text, 20);
                } else {
                        printf("%-9s  present  ", *name);
                        tool_wrap(nm_info(device)->device, 20);
                        printf("%20s%s; results are %s\n", "", nm_info(device)->driver, nm_info(device)->evidence);
                }
                nm_close(device);
        }
        if (tool->json) {
                json_end(&json);
                json_end(&json);
        }
        return TOOL_DONE;
}
