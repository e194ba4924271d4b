import { UsageError } from "@keelson/operator/flags";
import { runComponent } from "../local/processes/run-component.ts";
import { addFlag } from "../command-line.ts";
import type { DefineCommand } from "./commands.ts";

/** Defines `keelson component`, which `keelson up` runs for each of its processes. */
export const defineComponentCommand: DefineCommand = (command, setExitCode) => {
  command.argument("<name>", "apiserver or controllers");
  addFlag(command, { name: "data-dir", value: "DIR", description: "directory that holds all state" });
  command.action(async (name: string) => {
    if (process.send === undefined) throw new UsageError("component is started by `keelson up` only");
    if (name === "apiserver") {
      const { startApiServerComponent } = await import("../local/processes/api-server-component.ts");
      setExitCode(
        await runComponent((config, context) => {
          if (config.component !== "apiserver") throw new TypeError(`unexpected configuration of ${config.component}`);
          return startApiServerComponent(config, context);
        }),
      );
      return;
    }
    const { startControllersComponent } = await import("../local/processes/controllers-component.ts");
    setExitCode(
      await runComponent((config, context) => {
        if (config.component !== "controllers") throw new TypeError(`unexpected configuration of ${config.component}`);
        return startControllersComponent(config, context);
      }),
    );
  });
};
