import type { DeepReadonly } from "@keelson/api-machinery";
import { type CommandDefinition, listFlagsOf, listObjects } from "@keelson/operator";
import { App } from "../api/app.ts";
import { namespaceFlag } from "./app-flags.ts";

/** `keelson app list`. */
export const listCommand: CommandDefinition = {
  name: "list",
  description: "list Apps with their version and phase",
  flags: listFlagsOf(namespaceFlag),
  run: (context) =>
    listObjects(context, {
      types: [App],
      namespaceFlag,
      columns: ["PLUGIN", "VERSION", "PHASE", "MESSAGE"],
      cells: () =>
        Promise.resolve((object) => {
          const { spec, status } = object as DeepReadonly<App>;
          return [spec.plugin.name, status?.version ?? "-", status?.phase ?? "Pending", status?.message ?? ""];
        }),
      empty: (namespace) =>
        `No Apps${namespace === undefined ? "" : ` in namespace ${namespace}`}; create one: kubectl apply -f FILE, as in examples/middleware`,
    }),
};
